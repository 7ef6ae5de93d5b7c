//! Panics injected by a disk, on each thread that answers requests.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::config::{Config, Ephemeral};
use crate::engine::{EngineError, NackBatch, NackRequest};
use crate::journal::{Disk, DiskFile, MemDisk};
use crate::model::{ClientId, Origin};
use crate::retry::{Nack, NackTarget, Reporter};
use crate::server::Server;
use crate::wire::batch::{Headers, RawRecord, TimestampType};

fn guard() -> Guard {
    Guard::new(Metrics::new(8).unwrap())
}

#[test]
fn a_panic_is_reported_with_thread_and_text() {
    let guard = guard();
    guard.thread("healthy", || {}).unwrap().join().unwrap();
    assert_eq!(guard.panics().borrow().clone(), None);
    guard.thread("retry-engine", || panic!("no {}", "way")).unwrap().join().unwrap();
    let panic = guard.panics().borrow().clone().unwrap();
    assert_eq!((&*panic.thread, &*panic.text, panic.is_vital), ("retry-engine", "no way", true));
    assert!(panic.to_string().contains("restart reprise"), "{panic}");
    let text = guard.metrics.render().unwrap();
    assert!(text.contains(r#"reprise_panics_total{thread="retry-engine"} 1"#), "{text}");
}

#[tokio::test]
async fn a_vital_thread_is_reported_before_an_earlier_task() {
    let guard = guard();
    guard.task("housekeeping", async { panic!("first") }).await;
    assert_eq!(guard.panics().borrow().clone().unwrap().text, "first");
    assert!(guard.vital_panic().now_or_never().is_none(), "the process goes on without it");
    guard.nice_thread("retry-tables", || panic!("second")).unwrap().join().unwrap();
    guard.task("forwarding", async { panic!("third") }).await;
    assert_eq!(guard.vital_panic().await.text, "second");
}

/// A disk on which one thread panics.
#[derive(Clone, Debug)]
struct Panicking {
    disk: Arc<dyn Disk>,
    thread: Arc<Mutex<Option<&'static str>>>,
}

#[derive(Debug)]
struct PanickingFile {
    file: Arc<dyn DiskFile>,
    thread: Arc<Mutex<Option<&'static str>>>,
}

fn look(thread: &Mutex<Option<&'static str>>) {
    let named = *thread.lock().unwrap();
    assert!(named.is_none() || std::thread::current().name() != named, "injected by the disk");
}

impl Panicking {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(PanickingFile { file, thread: Arc::clone(&self.thread) })
    }
}

impl Disk for Panicking {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        look(&self.thread);
        self.disk.free_bytes()
    }

    fn fresh_epoch(&self) -> u64 {
        self.disk.fresh_epoch()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl DiskFile for PanickingFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        look(&self.thread);
        self.file.write_at(offset, data)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn sync_data(&self) -> io::Result<()> {
        look(&self.thread);
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        look(&self.thread);
        self.file.set_len(len)
    }
}

struct House {
    mem: MemDisk,
    disk: Panicking,
    server: Server,
}

/// Longer than anything in these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

impl House {
    async fn new() -> Self {
        let mem = MemDisk::new(3);
        let disk = Panicking { disk: mem.disk(), thread: Arc::default() };
        let mut config = Config::parse("test", "{}", &[], &[]).unwrap().config;
        config.listen[0].address.port = 0;
        config.admin.address.as_mut().unwrap().port = 0;
        config.journal.ephemeral = Ephemeral::Accept;
        let server = Server::start_on(config, Arc::new(disk.clone()), Clock::start());
        Self { mem, disk, server: server.await.unwrap() }
    }

    async fn nack(&self, offset: i64) -> Result<(), EngineError> {
        let origin = Origin { topic: "orders".into(), partition: 0, offset };
        let record = RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some("v".into()),
            headers: Headers::NONE,
        };
        let nack = Nack { record_bytes: 40, ..Nack::of(NackTarget::Origin(origin)) };
        let batch = NackBatch {
            group: "shop".into(),
            by: Reporter { member: None, client: ClientId::new("test") },
            producer: None,
            nacks: vec![NackRequest { nack, record: record.to_bytes() }],
        };
        self.server.engine.nacks(batch).await.map(drop)
    }

    /// Status line and body.
    fn get(&self, path: &str) -> String {
        let admin = self.server.admin_addr().unwrap();
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Makes `thread` panic at its next use of the disk, with a nack that waits for it.
    async fn panics(self, thread: &'static str) {
        self.nack(1).await.unwrap();
        assert!(self.get("/readyz").starts_with("HTTP/1.1 200"));
        *self.disk.thread.lock().unwrap() = Some(thread);
        if thread == "retry-engine" {
            // With little room left the engine asks the disk for its free space.
            self.mem.set_capacity(Some(self.mem.used_bytes() + (1 << 20)));
        }
        let waiting = async {
            for offset in 2.. {
                if self.nack(offset).await.and(self.server.engine.keep().await).is_err() {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("no answer");
        let panic = tokio::time::timeout(PATIENCE, self.server.panicked()).await.unwrap();
        assert_eq!((&*panic.thread, panic.text.contains("injected")), (thread, true));
        let answer = tokio::time::timeout(PATIENCE, self.nack(0)).await.expect("no answer");
        // Nacks do not need the flusher, which only follows the log.
        assert!(answer.is_err() || thread == "retry-tables");
        for path in ["/readyz", "/livez"] {
            let answer = self.get(path);
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains(thread) && answer.contains("restart reprise"), "{answer}");
        }
        let counted = format!(r#"reprise_panics_total{{thread="{thread}"}} 1"#);
        assert!(self.get("/metrics").contains(&counted));
        tokio::time::timeout(PATIENCE, self.server.shutdown()).await.expect("it does not stop");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_and_probes_fail_when_the_engine_panics() {
    House::new().await.panics("retry-engine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_and_probes_fail_when_the_writer_panics() {
    House::new().await.panics("journal-writer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_and_probes_fail_when_the_flusher_panics() {
    House::new().await.panics("retry-tables").await;
}
