//! The measured brokers: a real Kafka, and `reprise` without an upstream, each its own process.

use std::any::Any;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sidecar::{Sidecar, cpu_s, status_mib};

/// Partitions of every topic.
pub(crate) const PARTITIONS: i32 = 4;
const PORT: u16 = 9592;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/real-kafka");

/// A running broker, Kafka or `reprise`.
pub(crate) struct Broker {
    /// Address that clients connect to.
    pub(crate) addr: SocketAddr,
    pid: u32,
    /// Stops the process when dropped.
    _process: Box<dyn Any>,
}

/// The data directory of a running Kafka.
struct Kafka(PathBuf);

impl Broker {
    /// Starts Kafka with a heap of 256 MiB, else with its defaults. Retention is off, since the
    /// records have timestamps from 1970.
    pub(crate) fn kafka(dir: &Path) -> Self {
        let dir = dir.join("kafka");
        let up = Command::new(SCRIPT)
            .args(["up", "--port", &PORT.to_string(), "--heap", "256m", "--dir"])
            .arg(&dir)
            .env("KAFKA_EXTRA", format!("num.partitions={PARTITIONS}\nlog.retention.ms=-1"))
            .output()
            .unwrap();
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        let pid = fs::read_to_string(dir.join("node-0/pid")).unwrap().trim().parse().unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], PORT));
        Self { addr, pid, _process: Box::new(Kafka(dir)) }
    }

    /// `durability`: `topics.durability`, the state of a record when Produce is answered; Kafka's
    /// own is `os`.
    pub(crate) fn reprise(dir: &Path, durability: &str) -> Self {
        let durability = format!("topics.durability={durability}");
        let partitions = format!("topics.default_partitions={PARTITIONS}");
        let settings = [durability.as_str(), partitions.as_str(), "topics.retention=unlimited"];
        let sidecar = Sidecar::start(dir, &settings);
        Self { addr: sidecar.addr, pid: sidecar.pid(), _process: Box::new(sidecar) }
    }

    /// CPU seconds used so far.
    pub(crate) fn cpu_s(&self) -> f64 {
        cpu_s(self.pid)
    }

    /// Peak resident memory.
    pub(crate) fn resident_most_mib(&self) -> f64 {
        status_mib(self.pid, "VmHWM:")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        drop(Command::new(SCRIPT).args(["down", "--dir"]).arg(&self.0).status());
    }
}
