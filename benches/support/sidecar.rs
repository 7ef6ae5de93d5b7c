//! The sidecar as a process of its own: started, measured through /proc, stopped.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use reprise::clock::Clock;

/// Clock ticks of `/proc/<pid>/stat` in one second, on every Linux (`sysconf(_SC_CLK_TCK)`).
const TICKS_PER_S: f64 = 100.0;
/// Interval between two checks of the ready file; short compared with a start.
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_mins(1);

/// A running sidecar.
pub(crate) struct Sidecar {
    child: Child,
    /// Address of the Kafka listener.
    pub(crate) addr: SocketAddr,
    /// Address of the admin listener.
    pub(crate) admin: SocketAddr,
}

impl Sidecar {
    /// Starts a sidecar on `dir` and free ports, with additional settings. Its log is a file beside
    /// the directory.
    pub(crate) fn start(dir: &Path, settings: &[&str]) -> Self {
        let (ready, clock) = (dir.with_extension("ready"), Clock::start());
        drop(fs::remove_file(&ready));
        let log = fs::File::create(dir.with_extension("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["serve", "--ready-file"]).arg(&ready);
        command.args(["--set", &format!("data_dir={}", dir.display())]);
        command.args(["--set", "admin.address=127.0.0.1:0", "--set", "drain.timeout=0s"]);
        if !settings.iter().any(|setting| setting.starts_with("listen=")) {
            command.args(["--set", "listen=[{address: \"127.0.0.1:0\"}]"]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut started = Self { child, addr: nowhere, admin: nowhere };
        while !ready.exists() {
            assert!(clock.elapsed() < PATIENCE, "the sidecar does not start");
            sleep(LOOK);
        }
        let told = fs::read_to_string(&ready).unwrap();
        let mut addrs = told.split_whitespace().map(|addr| addr.parse().unwrap());
        (started.addr, started.admin) = (addrs.next().unwrap(), addrs.next().unwrap());
        started
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds used so far, user and system.
    pub(crate) fn cpu_s(&self) -> f64 {
        cpu_s(self.child.id())
    }

    /// Resident memory now, mapped pages of files included, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        self.status_mib("VmRSS:")
    }

    /// Peak resident memory, in MiB.
    pub(crate) fn resident_most_mib(&self) -> f64 {
        self.status_mib("VmHWM:")
    }

    /// Voluntary context switches so far of the threads by this name, or of all.
    pub(crate) fn sleeps(&self, name: Option<&str>) -> f64 {
        let of = self.threads(name).into_iter().map(|thread| {
            let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
            number(&status, "voluntary_ctxt_switches:").unwrap_or(0.0)
        });
        of.sum()
    }

    /// CPU seconds of the threads by this name, to the nanosecond.
    pub(crate) fn thread_cpu_s(&self, name: &str) -> f64 {
        let of = self.threads(Some(name)).into_iter().map(|thread| {
            let spent = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let nanos = spent.split_whitespace().next().map_or(0.0, |ns| ns.parse().unwrap());
            nanos / 1e9
        });
        of.sum()
    }

    /// The answer of its admin port to a GET, head included.
    pub(crate) fn get(&self, path: &str) -> String {
        self.ask("GET", path, "")
    }

    /// The answer of its admin port to a GET by a browser, head included.
    pub(crate) fn browse(&self, path: &str) -> String {
        self.ask("GET", path, "Accept: text/html\r\n\r\n")
    }

    /// The answer of its admin port to a POST of JSON, head included.
    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let (kind, length) =
            ("X-Reprise-Operator: bench\r\nContent-Type: application/json", body.len());
        self.ask("POST", path, &format!("{kind}\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    /// `rest`: further headers and a body.
    fn ask(&self, method: &str, path: &str, rest: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let close = "Host: localhost\r\nConnection: close";
        let rest = if rest.is_empty() { "\r\n" } else { rest };
        write!(stream, "{method} {path} HTTP/1.1\r\n{close}\r\n{rest}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends SIGTERM, as Kubernetes does, and waits for the process.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    fn threads(&self, name: Option<&str>) -> Vec<std::path::PathBuf> {
        let all = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        all.map(|thread| thread.unwrap().path())
            .filter(|thread| {
                let comm = fs::read_to_string(thread.join("comm")).unwrap_or_default();
                name.is_none_or(|name| comm.trim() == name)
            })
            .collect()
    }

    fn status_mib(&self, word: &str) -> f64 {
        status_mib(self.child.id(), word)
    }
}

impl Drop for Sidecar {
    /// Kills the process by SIGKILL.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// CPU seconds a process has used so far, user and system.
pub(crate) fn cpu_s(pid: u32) -> f64 {
    ticks_s(pid).iter().sum()
}

/// CPU seconds of a process: user, then system.
pub(crate) fn ticks_s(pid: u32) -> [f64; 2] {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The fields after the name, which may contain anything: utime and stime are 14 and 15.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut ticks = fields.split_whitespace().skip(11);
    [(); 2].map(|()| ticks.next().unwrap().parse::<f64>().unwrap() / TICKS_PER_S)
}

/// Value in MiB of a line of `/proc/<pid>/status` that is in KiB.
pub(crate) fn status_mib(pid: u32, word: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    number(&status, word).unwrap() / 1024.0
}

/// The number behind a word that begins a line.
fn number(text: &str, word: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}
