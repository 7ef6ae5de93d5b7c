//! A proxy under test: its process and the CPU time of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use kafka_protocol::messages::{MetadataRequest, MetadataResponse, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use tempfile::TempDir;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::sidecar::{Sidecar, cpu_s, ticks_s};
use crate::{bare, floor};

/// A connection, plain or under TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A running proxy.
pub(crate) struct Proxy {
    process: Process,
    /// Address that clients of the broker connect to.
    pub(crate) addr: SocketAddr,
    trust: Option<Arc<ClientConfig>>,
}

enum Process {
    /// Clients connect to the broker directly.
    None,
    Bare(Child),
    Sidecar {
        sidecar: Sidecar,
        _dir: TempDir,
    },
}

impl Proxy {
    pub(crate) fn none(broker: SocketAddr) -> Self {
        Self { process: Process::None, addr: broker, trust: None }
    }

    /// Starts the relay that only copies, on a tokio runtime.
    pub(crate) fn bare(broker: SocketAddr) -> Self {
        Self::copying(bare::WORD, broker)
    }

    /// Starts the relay with one thread and no runtime.
    pub(crate) fn floor(broker: SocketAddr) -> Self {
        Self::copying(floor::WORD, broker)
    }

    fn copying(word: &str, broker: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([word, &broker.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().parse().unwrap();
        child.stdout = None;
        Self { process: Process::Bare(child), addr, trust: None }
    }

    pub(crate) fn sidecar(broker: SocketAddr) -> Self {
        Self::sidecar_with(broker, &[], None)
    }

    /// Starts the sidecar with additional settings; with `trust`, its clients connect under TLS.
    pub(crate) fn sidecar_with(
        broker: SocketAddr,
        settings: &[&str],
        trust: Option<Arc<ClientConfig>>,
    ) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bootstrap = format!("upstream.bootstrap={broker}");
        let own = [bootstrap.as_str(), "journal.ephemeral=accept"];
        let sidecar = Sidecar::start(&dir.path().join("data"), &[&own[..], settings].concat());
        let addr = broker_behind(sidecar.addr, trust.as_ref());
        Self { process: Process::Sidecar { sidecar, _dir: dir }, addr, trust }
    }

    pub(crate) fn connect(&self) -> Box<dyn Stream> {
        connect(self.addr, self.trust.as_ref())
    }

    /// The broker address for one more client; the sidecar gives each a client address of its own.
    pub(crate) fn told(&self) -> SocketAddr {
        match &self.process {
            Process::Sidecar { sidecar, .. } => broker_behind(sidecar.addr, self.trust.as_ref()),
            Process::None | Process::Bare(_) => self.addr,
        }
    }

    /// CPU seconds used so far, user and system.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.pid().map_or(0.0, cpu_s)
    }

    /// Kernel part of [`Self::cpu_s`].
    pub(crate) fn system_s(&self) -> f64 {
        self.pid().map_or(0.0, |pid| ticks_s(pid)[1])
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match &self.process {
            Process::None => None,
            Process::Bare(child) => Some(child.id()),
            Process::Sidecar { sidecar, .. } => Some(sidecar.pid()),
        }
    }

    /// The metric of Fetches that the sidecar attributed to no member.
    pub(crate) fn unattributed_fetches(&self) -> String {
        let Process::Sidecar { sidecar, .. } = &self.process else { return String::new() };
        let page = sidecar.get("/metrics");
        let word = "reprise_fetches_unattributed_total ";
        let line = page.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap().to_owned()
    }

    /// Resident memory of the sidecar, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        match &self.process {
            Process::Sidecar { sidecar, .. } => sidecar.resident_mib(),
            Process::None | Process::Bare(_) => 0.0,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Bare(child) = self {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn connect(addr: SocketAddr, trust: Option<&Arc<ClientConfig>>) -> Box<dyn Stream> {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    match trust {
        None => Box::new(stream),
        Some(trust) => {
            let host = addr.ip().into();
            let session = ClientConnection::new(Arc::clone(trust), host).unwrap();
            Box::new(StreamOwned::new(session, stream))
        }
    }
}

/// The address by which the sidecar's Metadata answer replaces the broker's.
fn broker_behind(own: SocketAddr, trust: Option<&Arc<ClientConfig>>) -> SocketAddr {
    let mut request = bytes::BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(3)
        .with_request_api_version(1)
        .encode(&mut request, 1)
        .unwrap();
    MetadataRequest::default().with_topics(None).encode(&mut request, 1).unwrap();
    let mut stream = connect(own, trust);
    stream.write_all(&u32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    let told = MetadataResponse::decode(&mut &answer[4..], 1).unwrap();
    let real = told.brokers.iter().find(|broker| i32::from(broker.node_id) < 1 << 30);
    let broker = real.unwrap_or(&told.brokers[0]);
    format!("{}:{}", broker.host, broker.port).parse().unwrap()
}
