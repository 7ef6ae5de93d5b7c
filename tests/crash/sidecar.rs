//! The real binary, started on the same data directory again and again.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Delays of the first, second and third retry, in milliseconds: levels 3, 4, 5.
pub const DELAYS_MS: [i64; 3] = [30, 60, 120];
/// Retries before the dead letters.
pub const RETRIES: u32 = 3;

/// Small segments, short memory: a run meets rolls, checkpoints, retention and compaction.
const CONFIG: &str = r"
listen:
  - address: 127.0.0.1:0
journal:
  segment_bytes: 1MiB
  ephemeral: accept
topics:
  retention_bytes: 1MiB
  list:
    - name: orders
      partitions: 1
    - name: payments
      partitions: 3
      # All that was committed is looked for at the end.
      retention_bytes: unlimited
retry:
  partitions: 1
  levels: 1ms 2ms 30ms 60ms 120ms
  max_reconsume_times: 3
  # Longer than any pause of a busy machine: a delivery that returns for time takes no late word.
  consume_timeout: 2m
  # Four of ten fail, by chance more than half of some hundred: the ledger counts every one.
  breaker: off
membership:
  session_timeout_max: 1d
admin:
  address: off
log:
  filter: warn
";

pub struct Sidecar {
    dir: PathBuf,
    child: Option<Child>,
}

impl Sidecar {
    pub fn new(dir: &Path) -> Self {
        let data = dir.join("data");
        let config = format!("data_dir: {}\n{CONFIG}", data.display());
        fs::write(dir.join("config.yaml"), config).unwrap();
        Self { dir: dir.to_owned(), child: None }
    }

    /// Starts the process. Returns its address once it listens.
    pub fn start(&mut self) -> SocketAddr {
        assert!(self.child.is_none());
        let ready = self.dir.join("ready");
        let _ = fs::remove_file(&ready);
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["serve", "-c"])
            .arg(self.dir.join("config.yaml"))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let child = self.child.insert(child);
        loop {
            if let Ok(line) = fs::read_to_string(&ready) {
                return line.split(' ').next().unwrap().trim().parse().unwrap();
            }
            if let Some(ended) = child.try_wait().unwrap() {
                let log = fs::read_to_string(self.log()).unwrap();
                panic!("reprise did not start: {ended}\n{log}");
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Hands over the process, to be killed.
    pub fn take(&mut self) -> Child {
        self.child.take().unwrap()
    }

    /// The file with all log lines.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
