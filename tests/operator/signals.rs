//! Signals of an orchestrator or an operator to the shipped binary.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Longer than any wait of these tests; only a broken build comes near it.
const PATIENCE: Duration = Duration::from_secs(20);
/// An `ApiVersions` request, version 0, correlation id 7, no client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

const LISTEN: &str = "listen:\n  - address: 127.0.0.1:0\n";

struct Sidecar {
    dir: TempDir,
    child: Child,
    kafka: SocketAddr,
    admin: SocketAddr,
}

impl Sidecar {
    fn start() -> Self {
        Self::start_with(LISTEN, "retry:\n  max_reconsume_times: 3\n")
    }

    fn start_with(listen: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, listen, more);
        let child = serve(&dir);
        Self::started(dir, child)
    }

    fn started(dir: TempDir, child: Child) -> Self {
        let ready = dir.path().join("ready");
        let line = eventually(|| fs::read_to_string(&ready).ok());
        Self::of(dir, child, &line)
    }

    /// A sidecar by the line of its ready file.
    fn of(dir: TempDir, child: Child, line: &str) -> Self {
        let (kafka, admin) = line.trim().split_once(' ').unwrap();
        Self { dir, child, kafka: kafka.parse().unwrap(), admin: admin.parse().unwrap() }
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    fn ended(&mut self) -> i32 {
        eventually(|| self.child.try_wait().unwrap()).code().unwrap()
    }

    /// The answer of the admin port to a GET.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let host = self.admin;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The configuration in force.
    fn config(&self) -> String {
        self.get("/config")
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn serve(dir: &TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.args(["serve", "-c"]).arg(dir.path().join("config.yaml"));
    command.arg("--ready-file").arg(dir.path().join("ready")).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn write_config(dir: &TempDir, more: &str) {
    write(dir, LISTEN, more);
}

fn write(dir: &TempDir, listen: &str, more: &str) {
    let data: PathBuf = dir.path().join("data");
    let text = format!(
        "data_dir: {}\njournal: {{ephemeral: accept}}\n{listen}\
         admin:\n  address: 127.0.0.1:0\ndrain:\n  timeout: 1m\n{more}",
        data.display()
    );
    fs::write(dir.path().join("config.yaml"), text).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a deadline for another process")]
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "waited too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether an `ApiVersions` request gets its whole answer.
fn is_answered(stream: &mut TcpStream) -> bool {
    let mut len = [0; 4];
    if stream.write_all(&API_VERSIONS).is_err() || stream.read_exact(&mut len).is_err() {
        return false;
    }
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut answer).is_ok() && answer[..4] == [0, 0, 0, 7]
}

#[test]
fn sigterm_serves_new_connections_until_the_last_client_leaves() {
    let mut sidecar = Sidecar::start();
    let mut first = TcpStream::connect(sidecar.kafka).unwrap();
    assert!(is_answered(&mut first));
    sidecar.signal("TERM");
    // The sidecar removes the ready file once it got the signal.
    eventually(|| (!sidecar.dir.path().join("ready").exists()).then_some(()));
    let mut late = TcpStream::connect(sidecar.kafka).unwrap();
    // An answer on the new connection shows that the listener accepted it.
    while !is_answered(&mut late) {
        late = TcpStream::connect(sidecar.kafka).unwrap();
    }
    assert!(is_answered(&mut late) && is_answered(&mut first));
    assert!(sidecar.get("/drain").contains("\"draining\":true"));
    assert!(sidecar.get("/readyz").starts_with("HTTP/1.1 200"), "a sidecar serves on");
    assert!(sidecar.child.try_wait().unwrap().is_none(), "two clients are still here");
    drop((first, late));
    assert_eq!(sidecar.ended(), 0);
}

/// A sidecar with `drain.mode: gateway`.
fn gateway(timeout: &str) -> Sidecar {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, LISTEN, "");
    let config = dir.path().join("config.yaml");
    let drain = format!("mode: gateway\n  timeout: {timeout}");
    let text = fs::read_to_string(&config).unwrap().replace("timeout: 1m", &drain);
    fs::write(config, text).unwrap();
    let child = serve(&dir);
    Sidecar::started(dir, child)
}

/// Whether the sidecar has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!(stream.read(&mut [0]), Ok(0))
}

#[test]
fn a_gateway_moves_idle_clients_on_and_exits() {
    let mut sidecar = gateway("1m");
    let mut clients = [(); 3].map(|()| TcpStream::connect(sidecar.kafka).unwrap());
    assert!(clients.iter_mut().all(is_answered));
    assert!(sidecar.get("/readyz").starts_with("HTTP/1.1 200"));
    sidecar.signal("TERM");
    assert!(clients.iter_mut().all(is_closed));
    assert_eq!(sidecar.ended(), 0);
}

#[test]
fn a_gateway_answers_in_flight_requests_before_its_end() {
    let mut sidecar = gateway("1m");
    let mut busy = TcpStream::connect(sidecar.kafka).unwrap();
    assert!(is_answered(&mut busy));
    busy.write_all(&API_VERSIONS[..9]).unwrap();
    sidecar.signal("TERM");
    eventually(|| TcpStream::connect(sidecar.kafka).is_err().then_some(()));
    let readiness = sidecar.get("/readyz");
    assert!(readiness.starts_with("HTTP/1.1 503") && readiness.contains("draining"), "{readiness}");
    assert!(sidecar.get("/livez").starts_with("HTTP/1.1 200"));
    assert!(sidecar.child.try_wait().unwrap().is_none(), "half a request is in flight");
    busy.write_all(&API_VERSIONS[9..]).unwrap();
    let mut answer = Vec::new();
    busy.set_read_timeout(Some(PATIENCE)).unwrap();
    busy.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0, 0, 0, 7], "the answer, and then the end");
    assert_eq!(sidecar.ended(), 0);
}

#[test]
fn drain_timeout_ends_a_gateway_with_requests_in_flight() {
    let mut sidecar = gateway("100ms");
    let mut busy = TcpStream::connect(sidecar.kafka).unwrap();
    assert!(is_answered(&mut busy));
    busy.write_all(&API_VERSIONS[..9]).unwrap();
    sidecar.signal("TERM");
    assert_eq!(sidecar.ended(), 0);
}

#[test]
fn a_drain_that_its_timeout_ends_counts_the_clients_left() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, LISTEN, "");
    let config = dir.path().join("config.yaml");
    let short = fs::read_to_string(&config).unwrap().replace("timeout: 1m", "timeout: 100ms");
    fs::write(config, short).unwrap();
    let mut child = serve(&dir);
    let mut log = child.stderr.take().unwrap();
    let mut sidecar = Sidecar::started(dir, child);
    let mut clients = [(); 3].map(|()| TcpStream::connect(sidecar.kafka).unwrap());
    assert!(clients.iter_mut().all(is_answered));
    sidecar.signal("TERM");
    assert_eq!(sidecar.ended(), 0);
    let mut lines = String::new();
    log.read_to_string(&mut lines).unwrap();
    let line = lines.lines().find(|line| line.contains("drain.timeout is over")).unwrap();
    assert!(line.contains("INFO") && line.contains("clients=3 connections=3"), "{line}");
    assert!(!lines.contains("WARN"), "{lines}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let mut sidecar = Sidecar::start();
    let mut client = TcpStream::connect(sidecar.kafka).unwrap();
    assert!(is_answered(&mut client));
    sidecar.signal("TERM");
    eventually(|| (!sidecar.dir.path().join("ready").exists()).then_some(()));
    assert!(is_answered(&mut client), "the first signal cuts nobody off");
    sidecar.signal("INT");
    assert_eq!(sidecar.ended(), 0);
    assert!(!is_answered(&mut client));
}

#[test]
fn sighup_reloads_certificates_and_keeps_old_ones_on_errors() {
    let dir = tempfile::tempdir().unwrap();
    let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("a.pem"), dir.path().join("a.key"));
    let write = |made: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    };
    let (old, new) = (made(), made());
    write(&old);
    let listen = format!(
        "listen: [{{address: '127.0.0.1:0', tls: {{certificate: {}, key: {}}}}}]\n",
        certificate.display(),
        key.display()
    );
    let sidecar = Sidecar::start_with(&listen, "");
    assert!(trusts(sidecar.kafka, &old) && !trusts(sidecar.kafka, &new));
    fs::write(&certificate, "nothing").unwrap();
    sidecar.signal("HUP");
    let failed = "reprise_config_last_reload_successful 0";
    eventually(|| sidecar.get("/metrics").contains(failed).then_some(()));
    assert!(trusts(sidecar.kafka, &old));
    write(&new);
    sidecar.signal("HUP");
    eventually(|| trusts(sidecar.kafka, &new).then_some(()));
}

fn named_pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn open_pipe(path: &PathBuf, options: &mut fs::OpenOptions) -> std::io::Result<fs::File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    options.custom_flags(flags).open(path)
}

#[test]
fn a_sighup_during_the_start_is_heeded_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let configure =
        |most: u32| write_config(&dir, &format!("retry: {{max_reconsume_times: {most}}}\n"));
    configure(3);
    // The sidecar writes this file at the end of its start; a pipe makes it wait for the test.
    let ready = named_pipe(dir.path().join("ready.unfinished"));
    let child = serve(&dir);
    eventually(|| dir.path().join("data/LOCK").exists().then_some(()));
    configure(4);
    signal(&child, "HUP");
    let mut pipe = open_pipe(&ready, fs::OpenOptions::new().read(true)).unwrap();
    let mut line = String::new();
    eventually(|| {
        // Fails while the sidecar has opened the pipe and not written.
        drop(pipe.read_to_string(&mut line));
        line.ends_with('\n').then_some(())
    });
    let sidecar = Sidecar::of(dir, child, &line);
    eventually(|| sidecar.config().contains("\"max_reconsume_times\":4").then_some(()));
}

#[test]
fn a_start_and_a_reload_read_tokens_once() {
    let dir = tempfile::tempdir().unwrap();
    let token = named_pipe(dir.path().join("token"));
    // Opening fails until the sidecar reads, and each read ends with the text.
    let write_token = || {
        let open = || open_pipe(&token, fs::OpenOptions::new().write(true)).ok();
        eventually(open).write_all(b"t0ken").unwrap();
    };
    write_config(&dir, "retry: {max_reconsume_times: 3}\n");
    let config = dir.path().join("config.yaml");
    let with = format!("admin:\n  token_file: {}\n", token.display());
    let text = fs::read_to_string(&config).unwrap().replace("admin:\n", &with);
    fs::write(&config, &text).unwrap();
    let child = serve(&dir);
    write_token();
    let sidecar = Sidecar::started(dir, child);
    fs::write(&config, text.replace("max_reconsume_times: 3", "max_reconsume_times: 4")).unwrap();
    sidecar.signal("HUP");
    write_token();
    eventually(|| sidecar.config().contains("\"max_reconsume_times\":4").then_some(()));
}

#[test]
fn a_stale_ready_file_is_removed_at_the_start() {
    let mut first = Sidecar::start();
    let ready = first.dir.path().join("ready");
    // A sidecar that finds the directory locked leaves the ready file of the other one alone.
    assert!(!serve(&first.dir).wait().unwrap().success());
    assert!(ready.exists());
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen: [{{address: '{}'}}]\n", taken.local_addr().unwrap());
    write(&first.dir, &listen, "");
    assert!(ready.exists(), "as kill -9 leaves it");
    assert!(!serve(&first.dir).wait().unwrap().success());
    assert!(!ready.exists());
}

/// Whether a client that trusts this certificate alone finishes its handshake.
fn trusts(addr: SocketAddr, made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while session.is_handshaking() {
        if session.complete_io(&mut stream).is_err() {
            return false;
        }
    }
    true
}

#[test]
fn sighup_applies_reloadable_settings_and_refuses_others_by_name() {
    let sidecar = Sidecar::start();
    assert!(sidecar.config().contains("\"max_reconsume_times\":3"));
    write_config(&sidecar.dir, "retry:\n  max_reconsume_times: 4\n");
    sidecar.signal("HUP");
    eventually(|| sidecar.config().contains("\"max_reconsume_times\":4").then_some(()));
    for bad in
        ["retry:\n  max_reconsume_times: 5\ndata_dir: other\n", "retry:\n  max_reconsume: 5\n"]
    {
        write_config(&sidecar.dir, bad);
        sidecar.signal("HUP");
        let failed = "reprise_config_last_reload_successful 0";
        eventually(|| sidecar.get("/metrics").contains(failed).then_some(()));
        assert!(sidecar.config().contains("\"max_reconsume_times\":4"), "{bad}");
        write_config(&sidecar.dir, "retry:\n  max_reconsume_times: 4\n");
        sidecar.signal("HUP");
        let well = "reprise_config_last_reload_successful 1";
        eventually(|| sidecar.get("/metrics").contains(well).then_some(()));
    }
}

/// Accepts connections and passes their bytes on, as a Service does; the way ends with the test.
/// Returns its address, the number of connections, and where they go once that is sent.
fn service() -> (SocketAddr, Arc<AtomicUsize>, mpsc::Sender<SocketAddr>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (sender, receiver) = mpsc::channel();
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let Ok(to) = receiver.recv() else { return };
        for from in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let Ok(onward) = TcpStream::connect(to) else { continue };
            for (mut from, mut to) in
                [(from.try_clone(), onward.try_clone()), (Ok(onward), Ok(from))]
                    .map(|(a, b)| (a.unwrap(), b.unwrap()))
            {
                std::thread::spawn(move || {
                    drop(std::io::copy(&mut from, &mut to));
                    drop(to.shutdown(std::net::Shutdown::Both));
                });
            }
        }
    });
    (address, count, sender)
}

/// Exit code and last line of a sidecar that finds itself upstream.
fn end_of_loop(sidecar: &mut Sidecar) -> (i32, String) {
    let mut says = String::new();
    let code = sidecar.ended();
    sidecar.child.stderr.take().unwrap().read_to_string(&mut says).unwrap();
    (code, says.lines().last().unwrap_or_default().to_owned())
}

fn upstream(at: SocketAddr, more: &str) -> String {
    format!("upstream: {{bootstrap: '{at}'{more}}}\n")
}

#[test]
fn a_sidecar_that_is_its_own_upstream_ends_with_78() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "hush").unwrap();
    let login = format!(
        ", sasl: {{mechanism: PLAIN, username: u, password_file: '{}'}}",
        secret.path().display()
    );
    for more in ["", &login] {
        let (at, count, leads_to) = service();
        let mut sidecar = Sidecar::start_with(LISTEN, &upstream(at, more));
        leads_to.send(sidecar.kafka).unwrap();
        let (code, line) = end_of_loop(&mut sidecar);
        assert_eq!(code, 78, "{line}");
        assert!(line.starts_with(&format!("upstream.bootstrap {at} leads back to")), "{line}");
        assert!(count.load(Ordering::Relaxed) < 20, "{count:?} connections");
    }
}

#[test]
fn two_sidecars_that_are_each_other_s_upstream_are_found() {
    let (a, count_a, leads_to_a) = service();
    let (b, count_b, leads_to_b) = service();
    let first = Sidecar::start_with(LISTEN, &upstream(b, ""));
    let second = Sidecar::start_with(LISTEN, &upstream(a, ""));
    leads_to_a.send(first.kafka).unwrap();
    leads_to_b.send(second.kafka).unwrap();
    let mut both = [first, second];
    let ended =
        eventually(|| both.iter_mut().position(|one| one.child.try_wait().unwrap().is_some()));
    let (code, line) = end_of_loop(&mut both[ended]);
    assert_eq!(code, 78, "{line}");
    let connections = count_a.load(Ordering::Relaxed) + count_b.load(Ordering::Relaxed);
    assert!(connections < 40, "{connections} connections");
}
