//! A whole sidecar in this process, on free ports, with its own data directory; and a small Kafka
//! client that sends exactly the bytes of a test.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unused_imports, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "the same file is a module of several test binaries")]

pub mod batch;
pub mod client;
pub mod consumer;
pub mod held_up;
pub mod mem_disk;
pub mod member;
pub mod port;
pub mod producer;
pub mod reading;
pub mod secure;
pub mod terminal;
pub mod told;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reprise::config::{Config, Ephemeral, HostPort, UpstreamConfig};
use reprise::journal::{Disk, DiskFile, OpenError};
use reprise::server::StartError;
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub use batch::{Got, Rec};
pub use client::Client;
pub use consumer::{Consumer, settle};
pub use member::{Member, rebalance};
pub use producer::Producer;
pub use secure::{Stream, Trust};
pub use terminal::Terminal;
pub use told::SimulatedParts;

/// GET of a text at an admin port.
pub fn get_at(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

/// Longer than any wait of a test; only a broken build comes near it.
pub const PATIENCE: Duration = Duration::from_secs(20);

thread_local! {
    static IN_FRONT: Cell<bool> = const { Cell::new(false) };
}

/// Whether the sidecars of this test stand in front of a cluster, which is another sidecar by
/// itself. Threads that a test starts do not know it.
pub fn in_front() -> bool {
    env!("CARGO_CRATE_NAME") == "upstream" || IN_FRONT.get()
}

/// Runs a test whose sidecars stand in front of a cluster.
pub fn in_front_of_a_cluster(test: fn()) {
    struct ModeGuard;
    impl Drop for ModeGuard {
        fn drop(&mut self) {
            IN_FRONT.set(false);
        }
    }
    let _guard = ModeGuard;
    IN_FRONT.set(true);
    test();
}

/// Configuration of the cluster. Its topic names differ from the sidecar's, so a name that slips
/// through is unknown there. Like any cluster, it has no retry topics of its own, and takes a large
/// first request.
const BEHIND: &str = "names: {retry: 'not-here.{group}', dead_letters: 'nor-here.{group}'}\n\
    retry: {delivery: off}\n\
    limits: {preauth_frame_bytes: 8MiB}\n\
    membership: {initial_rebalance_delay: 0s}";

/// A running sidecar.
pub struct Server {
    runtime: Runtime,
    running: Option<reprise::server::Server>,
    config: Config,
    /// The disk and the clock of a simulated sidecar.
    told: Option<SimulatedParts>,
    _dir: TempDir,
    /// Dropped last: the sidecar's connections end first.
    cluster: Option<Arc<Server>>,
    port: Option<port::Port>,
}

/// The name under which the tests act.
pub const OPERATOR: &str = "kim";

impl Server {
    /// Starts with the defaults, retries after 20 ms and short sessions allowed.
    pub fn start() -> Self {
        Self::with("retry: {levels: 20ms}")
    }

    /// Starts with this configuration; ports, data directory and session bounds are set here.
    pub fn with(yaml: &str) -> Self {
        let (dir, config) = prepare(yaml);
        if !in_front() {
            return Self::over(dir, config, None);
        }
        let cluster = Arc::new(Self::behind(&config));
        Self::before(dir, config, cluster)
    }

    /// Starts in front of a cluster, at an address that stays the same after a restart.
    pub fn with_kept_port() -> Self {
        let (dir, mut config) = prepare("retry: {levels: 20ms}");
        let port = port::free_port();
        config.listen[0].address.port = port.number;
        let cluster = Arc::new(Self::behind(&config));
        Self::before(dir, config, cluster).holding(port)
    }

    /// A second sidecar in front of the same cluster.
    pub fn beside(&self) -> Self {
        let (dir, mut config) = prepare("retry: {levels: 20ms}");
        config.retry.partitions = self.config.retry.partitions;
        Self::before(dir, config, Arc::clone(self.cluster.as_ref().unwrap()))
    }

    /// A cluster by itself, in any test binary. The test may stop it and start it again at the same
    /// address, while a sidecar stands in front of it.
    pub fn alone() -> Self {
        let (dir, mut config) = prepare(BEHIND);
        let port = port::free_port();
        config.listen[0].address.port = port.number;
        Self::over(dir, config, None).holding(port)
    }

    /// Starts by itself with this configuration, in any test binary.
    pub fn alone_with(yaml: &str) -> Self {
        let (dir, config) = prepare(yaml);
        Self::over(dir, config, None)
    }

    /// A cluster by itself, reached through the program that listens at `addr`.
    pub fn alone_as(addr: SocketAddr) -> Self {
        let (dir, mut config) = prepare(BEHIND);
        config.listen[0].advertised =
            Some(HostPort { host: addr.ip().to_string(), port: addr.port() });
        Self::over(dir, config, None)
    }

    /// Starts in front of the program that listens at `addr`, with credentials if the configuration
    /// has some.
    pub fn in_front_of(addr: SocketAddr, yaml: &str) -> Self {
        let (dir, mut config) = prepare(yaml);
        let sasl = config.upstream.take().and_then(|given| given.sasl);
        config.upstream = Some(UpstreamConfig { sasl, ..upstream(addr) });
        Self::over(dir, config, None)
    }

    /// Starts in front of a program, with an advertised address: clients have no client addresses,
    /// as behind TLS.
    pub fn in_front_of_told(addr: SocketAddr, yaml: &str) -> Self {
        let (dir, mut config) = prepare(yaml);
        let port = port::free_port();
        config.upstream = Some(upstream(addr));
        config.listen[0].address.port = port.number;
        config.listen[0].advertised =
            Some(HostPort { host: "127.0.0.1".to_owned(), port: port.number });
        Self::over(dir, config, None).holding(port)
    }

    fn holding(mut self, port: port::Port) -> Self {
        self.port = Some(port);
        self
    }

    /// The cluster of a sidecar with this configuration; it has the groups and topics.
    fn behind(sidecar: &Config) -> Self {
        let (dir, mut config) = prepare(BEHIND);
        config.membership = sidecar.membership.clone();
        config.topics = sidecar.topics.clone();
        Self::over(dir, config, None)
    }

    fn before(dir: TempDir, mut config: Config, cluster: Arc<Self>) -> Self {
        config.upstream = Some(upstream(cluster.addr()));
        Self::over(dir, config, Some(cluster))
    }

    /// The cluster of this sidecar.
    pub fn cluster(&self) -> &Self {
        self.cluster.as_ref().unwrap()
    }

    fn over(dir: TempDir, config: Config, cluster: Option<Arc<Self>>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let running = runtime.block_on(reprise::server::Server::start(config.clone())).unwrap();
        Self { runtime, running: Some(running), config, told: None, _dir: dir, cluster, port: None }
    }

    /// A sidecar started beside this one on a copy of its data directory, as kill −9 would leave
    /// it.
    pub fn killed(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(Path::new(&self.config.data_dir), &dir.path().join("data"));
        let mut config = self.config.clone();
        config.data_dir = dir.path().join("data").display().to_string();
        Self::over(dir, config, self.cluster.clone())
    }

    /// Starts a second sidecar on the data directory of this one, on other ports.
    pub fn start_beside_on_the_same_directory(&self) -> Result<(), String> {
        let started = self.runtime.block_on(reprise::server::Server::start(self.config.clone()));
        started.map(drop).map_err(|error| error.to_string())
    }

    /// Stops cleanly and starts again over the same data directory.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// The error of a start with a changed configuration on a copy of the data directory.
    pub fn refused_with(&self, change: impl FnOnce(&mut Config)) -> String {
        let dir = tempfile::tempdir().unwrap();
        copy(Path::new(&self.config.data_dir), &dir.path().join("data"));
        let mut config = self.config.clone();
        config.data_dir = dir.path().join("data").display().to_string();
        change(&mut config);
        let started = self.runtime.block_on(reprise::server::Server::start(config));
        started.map(drop).unwrap_err().to_string()
    }

    pub fn stop(&mut self) {
        let running = self.running.take().unwrap();
        self.runtime.block_on(running.shutdown());
    }

    pub fn start_again(&mut self) {
        let config = self.config.clone();
        if let Some(told) = &mut self.told {
            self.running = Some(self.runtime.block_on(told.start(config)).unwrap());
            return;
        }
        // A process that another test starts holds the lock of the directory up to its exec.
        until("the data directory is free", || {
            let start = reprise::server::Server::start(config.clone());
            match self.runtime.block_on(start) {
                Err(StartError::Journal(OpenError::InUse { .. })) => {}
                started => self.running = Some(started.unwrap()),
            }
            self.running.is_some()
        });
    }

    /// Reloads a changed configuration, as SIGHUP does.
    pub fn reload(
        &self,
        change: impl FnOnce(&mut Config),
    ) -> Result<Vec<String>, reprise::server::ReloadError> {
        let mut config = self.config.clone();
        change(&mut config);
        self.server().reload(config)
    }

    /// Restarts with a changed configuration.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.restart();
    }

    /// Reloads a changed configuration, as SIGHUP does; it must succeed.
    pub fn reload_with(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.server().reload(self.config.clone()).unwrap();
    }

    pub fn addr(&self) -> SocketAddr {
        self.server().kafka_addr()
    }

    /// The router that answers requests, for tests that must know when a request has reached it.
    pub fn router(&self) -> &reprise::route::Router {
        self.server().router()
    }

    /// Appends a batch to partition 0 of the topic's log, which Produce might refuse.
    pub fn stored(&self, topic: &str, batch: &bytes::Bytes) {
        let has_it = self.cluster.as_deref().unwrap_or(self);
        let broker = &has_it.router().broker;
        let topic = broker.topics.find(&topic.into()).unwrap();
        let batch = reprise::wire::batch::Batch::parse(batch).unwrap();
        let produced = broker.produce(&topic, topic.partition(0).unwrap(), &batch).unwrap();
        has_it.runtime.block_on(broker.acknowledged(produced.seq)).unwrap();
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        Path::new(&self.config.data_dir)
    }

    pub fn node_id(&self) -> i32 {
        self.server().node_id()
    }

    /// A new connection to the bootstrap address: a client object of its own.
    pub fn client(&self) -> Client {
        let mut client = Client::connect(self.addr());
        client.admin = self.server().admin_addr();
        client
    }

    /// The address of the admin port.
    pub fn admin(&self) -> SocketAddr {
        self.server().admin_addr().unwrap()
    }

    /// Runs a command of `reprise` against this sidecar.
    pub fn reprise(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(args).args(["--admin", &self.admin().to_string()]);
        command.env("USER", OPERATOR).output().unwrap()
    }

    /// Runs `reprise retry …` against this sidecar.
    pub fn retry(&self, args: &[&str]) -> Output {
        self.reprise(&[&["retry"], args].concat())
    }

    /// Runs a future on the sidecar's runtime.
    pub fn run<T>(&self, question: impl Future<Output = T>) -> T {
        self.runtime.block_on(question)
    }

    /// GET on the admin port: the body of a 200.
    pub fn get(&self, path: &str) -> String {
        get_at(self.admin(), path)
    }

    /// GET of a JSON answer.
    pub fn json(&self, path: &str) -> serde_json::Value {
        let body = self.get(path);
        let text = match body.find(['{', '[']) {
            Some(start) => &body[start..=body.rfind(['}', ']']).unwrap()],
            None => &body,
        };
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    /// Failed records of a group that are not final, as the admin port lists them.
    pub fn pending(&self, group: &str) -> Vec<serde_json::Value> {
        let listed = self.json(&format!("/api/v1/retries?group={group}&limit=1000"));
        listed["items"].as_array().unwrap().clone()
    }

    /// POST on the admin port: status and JSON body.
    pub fn post(&self, path: &str, body: &str) -> (u16, serde_json::Value) {
        let mut stream = self.posting(path, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
        (status, serde_json::from_str(json).unwrap())
    }

    /// The connection of a POST on the admin port whose answer was not read.
    pub fn posting(&self, path: &str, body: &str) -> TcpStream {
        let admin = self.admin();
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\
             X-Reprise-Operator: {OPERATOR}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// The value of a series as written in `/metrics`, labels included; 0 if it does not exist.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text
            .lines()
            .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Connections that ended with `cause`.
    pub fn disconnects(&self, cause: &str) -> f64 {
        self.metric(&format!("reprise_client_disconnects_total{{cause=\"{cause}\"}}"))
    }

    /// Waits until `count` connections ended with `cause`: a client sees the end before the
    /// sidecar counts it.
    pub fn until_disconnects(&self, cause: &str, count: f64) {
        until(cause, || self.disconnects(cause) >= count);
    }

    fn server(&self) -> &reprise::server::Server {
        self.running.as_ref().unwrap()
    }
}

fn prepare(yaml: &str) -> (TempDir, Config) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::parse("test", yaml, &[], &[]).unwrap().config;
    config.data_dir = dir.path().join("data").display().to_string();
    // A test that says nothing of partitions reads all retries in partition 0.
    let rules = config.groups.iter_mut().map(|rule| &mut rule.retry);
    for retry in rules.chain([&mut config.retry]).filter(|retry| retry.partitions == 3) {
        retry.partitions = 1;
    }
    config.membership.session_timeout_min = Duration::from_millis(100);
    config.listen[0].address.port = 0;
    config.admin.address.as_mut().unwrap().port = 0;
    config.journal.ephemeral = Ephemeral::Accept;
    (dir, config)
}

fn upstream(addr: SocketAddr) -> UpstreamConfig {
    let bootstrap = vec![HostPort { host: addr.ip().to_string(), port: addr.port() }];
    UpstreamConfig { bootstrap, ..UpstreamConfig::default() }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

/// Real time, since a client's wait over TCP cannot be virtual.
#[expect(clippy::disallowed_methods, reason = "a test over TCP waits in real time")]
pub fn instant() -> Instant {
    Instant::now()
}

/// The system's wall clock, Unix ms.
#[expect(clippy::disallowed_methods, reason = "a test over TCP waits in real time")]
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Polls until `seen` is true, for changes that another task makes in its own time. A call that
/// asks the server is pause enough.
pub fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let began = instant();
    while !seen() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
    }
}
