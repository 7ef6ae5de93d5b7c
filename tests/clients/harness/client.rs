//! A client program as a process: commands go in, JSON lines come out.
//!
//! Arguments: bootstrap, group, session timeout in ms, `group.protocol`, then settings of the
//! client library as `KEY=VALUE`; `consumer.KEY` and `producer.KEY` are for one side only.
//!
//! | command | does |
//! |---|---|
//! | `subscribe TOPIC[,TOPIC]…` | joins the group; what begins with `^` is a pattern |
//! | `poll MS` | prints a `record` line for each record received |
//! | `produce TAG CODEC TOPIC PARTITION KEY VALUE [HEADER=VALUE]…` | queues one |
//! | `nack TAG CODEC ORIGIN value\|reference [HEADER=VALUE]…` | queues what sends it back |
//! | `flush` | sends what is queued: a `sent` or `refused` line for each |
//! | `seek TOPIC PARTITION OFFSET` | goes on from there |
//! | `commit [TOPIC PARTITION OFFSET]…` | commits everything polled, or exactly that |
//! | `mark TOPIC PARTITION OFFSET [METADATA]` | commits that with that metadata, in hex |
//! | `begin`, `offsets`, `end commit\|abort` | a transaction; in it, the offsets polled |
//! | `close` | leaves the group and ends |
//!
//! Each command ends with a `done` or `failed` line; `assigned`, `revoked` and `lost` lines come in
//! between. Keys, values and values of headers are hex, null where absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::program::Program;
use crate::wait::until;

/// Longest wait for one line.
const LINE_MAX: Duration = Duration::from_mins(1);
const EXIT_MAX: Duration = Duration::from_secs(30);

/// A line of a client program.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    Ready,
    Record(Record),
    Assigned { partitions: Vec<String> },
    Revoked { partitions: Vec<String> },
    Lost { partitions: Vec<String> },
    Sent { tag: String, partition: i32, offset: i64, timestamp: i64 },
    Refused { tag: String, error: String },
    Done,
    Failed { command: String, error: String },
}

/// A record as the client received it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Record {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) timestamp: i64,
    /// When, Unix ms by the client's clock.
    pub(crate) at: i64,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

/// Where a record came to lie, or why not.
pub(crate) type Fate = Result<(i32, i64, i64), String>;

/// One process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) program: Program,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// Partitions held.
    pub(crate) owned: BTreeSet<String>,
    /// How often each was taken away.
    taken: BTreeMap<String, usize>,
    /// Assignments, revocations and losses seen.
    pub(crate) rebalances: usize,
    /// What polls said besides records.
    pub(crate) troubles: Vec<String>,
}

impl Client {
    /// Starts a member-to-be of `group`; its stderr goes to a file below `dir`.
    pub(crate) fn start(
        program: Program,
        bootstrap: &str,
        dir: &Path,
        (name, group, session): (&str, &str, Duration),
        settings: &[String],
    ) -> Self {
        let log = File::create(dir.join(format!("{name}.log"))).unwrap();
        let mut child = program
            .command()
            .args([bootstrap, group, &session.as_millis().to_string(), program.protocol])
            .args(program.settings)
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.name));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for text in stdout.lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        let mut client = Self {
            name: name.to_owned(),
            program,
            child,
            stdin,
            lines,
            owned: BTreeSet::new(),
            taken: BTreeMap::new(),
            rebalances: 0,
            troubles: Vec::new(),
        };
        assert!(matches!(client.line(), Event::Ready));
        client
    }

    /// How often a partition was taken away from it.
    pub(crate) fn taken(&self, partition: &str) -> usize {
        self.taken.get(partition).copied().unwrap_or_default()
    }

    /// Writes one command; [`Client::answer`] reads what it led to.
    pub(crate) fn send(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }

    /// Every line up to the end of the command.
    pub(crate) fn answer(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        loop {
            match self.line() {
                Event::Done => return Ok(events),
                // A poll may tell of a passing trouble and go on.
                Event::Failed { command, error } if command == "poll" => {
                    eprintln!("{}: poll: {error}", self.name);
                    self.troubles.push(error);
                }
                Event::Failed { command, error } => return Err(format!("{command}: {error}")),
                event => events.push(event),
            }
        }
    }

    /// A command that has to work.
    pub(crate) fn run(&mut self, command: &str) -> Vec<Event> {
        self.send(command);
        self.answer().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn poll(&mut self, wait: Duration) -> Vec<Record> {
        records(self.run(&format!("poll {}", wait.as_millis())))
    }

    /// Sends what is queued: each tag and what became of it.
    pub(crate) fn flush(&mut self) -> Vec<(String, Fate)> {
        fates(self.run("flush"))
    }

    /// Leaves the group.
    pub(crate) fn close(mut self) {
        self.run("close");
        until(EXIT_MAX, "the client ends", || self.child.try_wait().unwrap().is_some());
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn line(&mut self) -> Event {
        let line = self.lines.recv_timeout(LINE_MAX);
        let line = line.unwrap_or_else(|_| panic!("{} says nothing more", self.name));
        let event: Event =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{}: {e}: {line}", self.name));
        match &event {
            Event::Assigned { partitions } => self.owned.extend(partitions.iter().cloned()),
            Event::Revoked { partitions } | Event::Lost { partitions } => {
                self.owned.retain(|held| !partitions.contains(held));
                for name in partitions {
                    *self.taken.entry(name.clone()).or_default() += 1;
                }
            }
            _ => return event,
        }
        self.rebalances += 1;
        eprintln!("{}: {line}", self.name);
        event
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The records among the lines.
pub(crate) fn records(events: Vec<Event>) -> Vec<Record> {
    let record = |event| match event {
        Event::Record(record) => Some(record),
        _ => None,
    };
    events.into_iter().filter_map(record).collect()
}

/// What became of each record sent.
pub(crate) fn fates(events: Vec<Event>) -> Vec<(String, Fate)> {
    let fate = |event| match event {
        Event::Sent { tag, partition, offset, timestamp } => {
            Some((tag, Ok((partition, offset, timestamp))))
        }
        Event::Refused { tag, error } => Some((tag, Err(error))),
        _ => None,
    };
    events.into_iter().filter_map(fate).collect()
}
