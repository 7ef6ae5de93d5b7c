//! A proxy under test: a process of its own, and the CPU time it has used.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use kafka_protocol::messages::{MetadataRequest, MetadataResponse, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use tempfile::TempDir;

use crate::bare;

/// Clock ticks of `/proc/<pid>/stat` in one second, on every Linux there is
/// (`sysconf(_SC_CLK_TCK)`).
const TICKS_PER_S: f64 = 100.0;

/// A running proxy.
pub(crate) struct Proxy {
    child: Child,
    /// Where a client of the broker connects.
    pub(crate) addr: SocketAddr,
    _dir: Option<TempDir>,
}

impl Proxy {
    /// The one that only copies.
    pub(crate) fn bare(broker: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([bare::WORD, &broker.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, addr: line.trim().parse().unwrap(), _dir: None }
    }

    /// The sidecar.
    pub(crate) fn sidecar(broker: SocketAddr) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ready = dir.path().join("ready");
        let child = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["serve", "--ready-file"])
            .arg(&ready)
            .args(["--set", &format!("data_dir={}", dir.path().join("data").display())])
            .args(["--set", "listen=[{address: \"127.0.0.1:0\"}]"])
            .args(["--set", "admin.address=127.0.0.1:0"])
            .args(["--set", &format!("upstream.bootstrap={broker}")])
            .args(["--set", "journal.ephemeral=accept"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while fs::read_to_string(&ready).unwrap_or_default().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let told = fs::read_to_string(&ready).unwrap();
        let own: SocketAddr = told.split_whitespace().next().unwrap().parse().unwrap();
        Self { child, addr: broker_behind(own), _dir: Some(dir) }
    }

    /// CPU seconds used so far, user and system.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The fields after the name, which may contain anything: utime and stime are 14 and 15.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_S
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the sidecar tells a client to connect to instead of the broker.
fn broker_behind(own: SocketAddr) -> SocketAddr {
    let mut request = bytes::BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(3)
        .with_request_api_version(1)
        .encode(&mut request, 1)
        .unwrap();
    MetadataRequest::default().with_topics(None).encode(&mut request, 1).unwrap();
    let mut stream = TcpStream::connect(own).unwrap();
    stream.write_all(&u32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    let told = MetadataResponse::decode(&mut &answer[4..], 1).unwrap();
    let broker = &told.brokers[0];
    format!("{}:{}", broker.host, broker.port).parse().unwrap()
}
