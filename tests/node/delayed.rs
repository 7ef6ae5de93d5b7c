//! Kills the real process again and again while librdkafka, as an idempotent producer, sends
//! delayed records. Each acknowledged record enters its topic once, and never before it is due.
//!
//! `DELAYED_CYCLES=200 cargo test --test node delayed -- --nocapture` is a longer run.
#![expect(clippy::disallowed_methods, reason = "it stands outside and has a clock of its own")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// Acknowledged records in every life before it may end.
const ACKNOWLEDGED: usize = 60;
/// The longest delay of a record; every third record has none.
const DELAY_MS_MAX: u64 = 1_500;
const PATIENCE: Duration = Duration::from_secs(90);

struct Sidecar {
    dir: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Sidecar {
    fn new(dir: &Path) -> Self {
        let port = TcpListener::bind(("0.0.0.0", 0)).unwrap().local_addr().unwrap().port();
        let config = format!(
            "data_dir: {}\nlisten: [{{address: '127.0.0.1:{port}'}}]\nadmin: {{address: off}}\n\
             journal: {{segment_bytes: 1MiB, ephemeral: accept}}\nlog: {{filter: warn}}\n\
             topics: {{list: [{{name: orders, produce_delay: true}}]}}\n",
            dir.join("data").display()
        );
        fs::write(dir.join("config.yaml"), config).unwrap();
        Self { dir: dir.to_owned(), port, child: None }
    }

    fn start(&mut self) {
        let ready = self.dir.join("ready");
        let _ = fs::remove_file(&ready);
        let log = fs::File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["serve", "-c"]).arg(self.dir.join("config.yaml"));
        command.arg("--ready-file").arg(&ready);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = self.child.insert(command.spawn().unwrap());
        let began = Instant::now();
        while fs::read_to_string(&ready).map_or(true, |line| line.is_empty()) {
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(self.dir.join("log")).unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{ended:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", format!("127.0.0.1:{}", self.port));
        config.set("reconnect.backoff.max.ms", "200").set("group.id", "watchers");
        config.set("enable.auto.commit", "false");
        config
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Reads the topic from the start, number and due time of each record, until `seen` has enough. A
/// pause without records is passed as the number `u64::MAX`.
fn read(client: &ClientConfig, mut seen: impl FnMut(u64, u64) -> bool) {
    let consumer: BaseConsumer = client.create().unwrap();
    let mut from = TopicPartitionList::new();
    from.add_partition_offset("orders", 0, Offset::Beginning).unwrap();
    consumer.assign(&from).unwrap();
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE * 4, "it takes too long");
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else {
            if seen(u64::MAX, 0) {
                return;
            }
            continue;
        };
        let text = String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
        let (number, due) = text.split_once(' ').unwrap();
        if seen(number.parse().unwrap(), due.parse().unwrap()) {
            return;
        }
    }
}

/// Deliveries of each record, once all acknowledged records came and no more can come.
fn all(client: &ClientConfig, acknowledged: &[u64]) -> BTreeMap<u64, u32> {
    let (mut found, last_due) = (BTreeMap::new(), wall_ms() + DELAY_MS_MAX);
    read(client, |number, _| {
        if number != u64::MAX {
            *found.entry(number).or_insert(0) += 1;
            return false;
        }
        let is_all = acknowledged.iter().all(|number| found.contains_key(number));
        is_all && wall_ms() > last_due
    });
    found
}

/// Reads across all kills. Returns the number of records, and of early ones.
fn watch(client: &ClientConfig, finished: &AtomicBool) -> (usize, usize) {
    let (mut watched, mut early) = (0, 0);
    read(client, |number, due| {
        if number != u64::MAX {
            watched += 1;
            early += usize::from(wall_ms() < due);
        }
        number == u64::MAX && finished.load(Ordering::Acquire)
    });
    (watched, early)
}

/// Produces until told to stop. Returns the acknowledged records.
async fn produce(
    producer: FutureProducer,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
) -> Vec<u64> {
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let mut sends = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let delay_ms = if number % 3 == 0 { 0 } else { fastrand::u64(1..DELAY_MS_MAX) };
        let value = format!("{number} {}", wall_ms() + delay_ms);
        let delay = delay_ms.to_string();
        let (producer, done) = (producer.clone(), Arc::clone(&acknowledged));
        let count = Arc::clone(&count);
        sends.push(tokio::spawn(async move {
            let mut record = FutureRecord::<(), String>::to("orders").payload(&value);
            if delay_ms > 0 {
                let header = Header { key: "x-deliver-after-ms", value: Some(&delay) };
                record = record.headers(OwnedHeaders::new().insert(header));
            }
            if producer.send(record, PATIENCE).await.is_ok() {
                count.fetch_add(1, Ordering::AcqRel);
                done.lock().unwrap().push(number);
            }
        }));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for send in sends {
        send.await.unwrap();
    }
    acknowledged.lock().unwrap().clone()
}

#[test]
fn delayed_records_enter_once_and_never_early_despite_kills() {
    let cycles = std::env::var("DELAYED_CYCLES").map_or(4, |cycles| cycles.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut sidecar = Sidecar::new(dir.path());
    sidecar.start();
    let mut config = sidecar.client();
    config.set("enable.idempotence", "true").set("linger.ms", "5");
    config.set("message.timeout.ms", "90000");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let finished = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (client, finished) = (sidecar.client(), Arc::clone(&finished));
        std::thread::spawn(move || watch(&client, &finished))
    };
    let producer: FutureProducer = config.create().unwrap();
    let task = runtime.spawn(produce(producer, Arc::clone(&stop), Arc::clone(&count)));
    for _ in 0..cycles {
        let (before, began) = (count.load(Ordering::Acquire), Instant::now());
        while count.load(Ordering::Acquire) < before + ACKNOWLEDGED {
            assert!(began.elapsed() < PATIENCE, "nothing is acknowledged");
            std::thread::sleep(Duration::from_millis(1));
        }
        sidecar.kill();
        sidecar.start();
    }
    stop.store(true, Ordering::Release);
    let acknowledged = runtime.block_on(task).unwrap();
    assert!(acknowledged.len() >= cycles * ACKNOWLEDGED);
    let found = all(&sidecar.client(), &acknowledged);
    finished.store(true, Ordering::Release);
    let (seen, early) = watcher.join().unwrap();
    assert!(seen >= acknowledged.len(), "it watched all the time");
    let twice = found.values().filter(|times| **times > 1).count();
    let lost = acknowledged.iter().filter(|number| !found.contains_key(number)).count();
    let records = acknowledged.len();
    println!(
        "delayed: {cycles} cycles, {records} records, {lost} lost, {twice} twice, {early} early"
    );
    assert_eq!((lost, twice, early), (0, 0, 0));
}
