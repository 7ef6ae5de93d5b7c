//! Consumers of Java's client: threads of one process, `reprise.Consumers` of
//! `tests/clients/apps/kafka-clients`.
//!
//! | command | effect |
//! |---|---|
//! | `start ID GROUP TOPIC PROTOCOL INSTANCE HABIT…` | starts a consumer |
//! | `calm ID` | handles without delay, commits every handled record, does not move |
//! | `stop ID` | commits every handled record, and leaves |
//! | `reset ID GROUP TOPIC [PARTITION OFFSET]…` | sets the group's offsets as an administrator |
//!
//! Habits are `STYLE SLOW_MS POLLING BATCH PAUSES SEEKS SEED`, as in [`super::consumer::Habits`].
//!
//! The process prints `done ID PARTITION OFFSET` for each record handled. It prints `ended ID` or
//! `failed ID WHY` when a consumer or an administrator is done.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use super::consumer::ClientEvent;
use crate::rig::runtimes;

/// Channels for the events of consumers and administrators, by id.
type Listeners = Arc<Mutex<HashMap<u64, Sender<ClientEvent>>>>;

/// The process of all Java consumers.
pub(super) struct Jvm {
    child: Child,
    stdin: Mutex<ChildStdin>,
    listeners: Listeners,
}

impl Jvm {
    pub(super) fn start(bootstrap: &str, dir: &Path) -> Self {
        let log = File::create(dir.join("java.log")).unwrap();
        let mut child = runtimes::java("apps/kafka-clients", "kafka-clients", "Consumers")
            .command()
            .arg(bootstrap)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdin = Mutex::new(child.stdin.take().unwrap());
        let stdout = child.stdout.take().unwrap();
        let listeners = Listeners::default();
        let heard = Arc::clone(&listeners);
        std::thread::spawn(move || hear(stdout, &heard));
        Self { child, stdin, listeners }
    }

    pub(super) fn start_one(&self, id: u64, words: &str, said: Sender<ClientEvent>) {
        self.listeners.lock().unwrap().insert(id, said);
        self.write(&format!("start {id} {words}"));
    }

    /// Sends `calm` or `stop`.
    pub(super) fn tell(&self, verb: &str, id: u64) {
        self.write(&format!("{verb} {id}"));
    }

    /// Sets offsets of a group without members, as Kafka's own tool does.
    pub(super) fn reset(
        &self,
        id: u64,
        (group, topic): (&str, &str),
        to: &[i64],
        said: Sender<ClientEvent>,
    ) {
        self.listeners.lock().unwrap().insert(id, said);
        let to: Vec<String> =
            to.iter().zip(0..).map(|(offset, of)| format!("{of} {offset}")).collect();
        self.write(&format!("reset {id} {group} {topic} {}", to.join(" ")));
    }

    fn write(&self, line: &str) {
        let mut stdin = self.stdin.lock().unwrap();
        // A script that waits for the effect fails at its deadline.
        if let Err(error) = writeln!(stdin, "{line}") {
            eprintln!("{line}: {error}");
        }
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hear(stdout: ChildStdout, listeners: &Listeners) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let mut words = line.splitn(3, ' ');
        let (word, id) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let rest = words.next().unwrap_or_default();
        let said = match word {
            "done" => {
                let (partition, offset) = rest.split_once(' ').unwrap();
                let (partition, offset) = (partition.parse().unwrap(), offset.parse().unwrap());
                ClientEvent::Done { partition, offset }
            }
            "ended" => ClientEvent::Ended { id },
            "failed" => ClientEvent::Failed { why: rest.to_owned() },
            _ => panic!("reprise.Consumers says {line:?}"),
        };
        // The script of this consumer may be over.
        let _ = listeners.lock().unwrap()[&id].send(said);
    }
}
