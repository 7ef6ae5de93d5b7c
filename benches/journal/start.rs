//! The sidecar as a process: the time until its first answer, and its memory while idle.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use reprise::clock::Clock;

use crate::sheet::{Figure, Goal, median};

const STARTS: usize = 20;
/// Interval between two checks of the ready file; short compared with a start.
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(20);
/// Wait before the resident memory of an idle sidecar is read.
const IDLE: Duration = Duration::from_secs(5);
/// `ApiVersions` 0, correlation id 7, no client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

/// Measures and prints.
pub(crate) fn run(base: &Path) {
    let dir = tempfile::tempdir_in(base).unwrap();
    let fresh = (0..STARTS).map(|n| start(&dir.path().join(n.to_string()), Duration::ZERO).0);
    let fresh = median(fresh.collect());
    let again = dir.path().join("again");
    start(&again, Duration::ZERO);
    let again = median((0..STARTS).map(|_| start(&again, Duration::ZERO).0).collect());
    let (_, resident) = start(&dir.path().join("idle"), IDLE);
    let figures = [
        ("start_new_directory", fresh, "ms", Goal::Most(50.0)),
        ("start_again", again, "ms", Goal::Most(50.0)),
        ("idle_rss", resident, "MiB", Goal::Most(20.0)),
    ];
    for (metric, value, unit, goal) in figures {
        Figure { bench: "journal", metric, value, unit, baseline: None, goal }.print();
    }
}

/// Starts a sidecar. Returns the time until its first answer in ms, and its resident memory in
/// MiB after `idle`.
fn start(dir: &Path, idle: Duration) -> (f64, f64) {
    let ready = dir.with_extension("ready");
    let clock = Clock::start();
    let mut child = Command::new(env!("CARGO_BIN_EXE_reprise"))
        .args(["serve", "--ready-file"])
        .arg(&ready)
        .args(["--set", &format!("data_dir={}", dir.display())])
        .args(["--set", "listen=[{address: \"127.0.0.1:0\"}]"])
        .args(["--set", "admin.address=127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !ready.exists() {
        assert!(clock.elapsed() < PATIENCE, "the sidecar does not start");
        sleep(LOOK);
    }
    ask(&ready);
    let took = clock.elapsed().as_secs_f64() * 1e3;
    sleep(idle);
    let resident = resident_mib(&child);
    stop(&mut child);
    (took, resident)
}

fn ask(ready: &Path) {
    let line = fs::read_to_string(ready).unwrap();
    let address: SocketAddr = line.split_whitespace().next().unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&API_VERSIONS).unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..], [0, 0, 0, 7, 0, 0], "correlation id, no error");
}

fn resident_mib(child: &Child) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u32 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    f64::from(kib) / 1024.0
}

/// Sends SIGTERM, as Kubernetes does, so that the next start finds a cleanly closed directory.
fn stop(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
}
