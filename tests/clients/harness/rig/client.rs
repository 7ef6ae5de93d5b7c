//! A client program: commands go in, JSON lines come out. A client is a process, or one of many in
//! a JVM.
//!
//! Arguments: bootstrap, group, session timeout in ms, `group.protocol`, then settings of the
//! client library as `KEY=VALUE`; `consumer.KEY` and `producer.KEY` are for one side only.
//!
//! | command | does |
//! |---|---|
//! | `subscribe TOPIC[,TOPIC]…` | joins the group; a topic that begins with `^` is a pattern |
//! | `poll MS` | prints a `record` line for each record received |
//! | `produce TAG CODEC TOPIC PARTITION KEY VALUE [HEADER=VALUE]…` | queues a record |
//! | `nack TAG CODEC ORIGIN value\|reference [HEADER=VALUE]…` | queues a nack |
//! | `flush` | sends what is queued: a `sent` or `refused` line for each |
//! | `seek TOPIC PARTITION OFFSET` | continues at that offset |
//! | `commit [TOPIC PARTITION OFFSET]…` | commits all polled records, or these offsets |
//! | `mark TOPIC PARTITION OFFSET [METADATA]` | commits one offset with metadata in hex |
//! | `begin`, `offsets`, `end commit\|abort` | a transaction, with the polled offsets |
//! | `close` | leaves the group and ends |
//!
//! Each command ends with a `done` or `failed` line; `assigned`, `revoked` and `lost` lines come in
//! between. Keys, values and values of headers are hex, null where absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::rig::host;
use crate::rig::library::Trait;
use crate::rig::program::Program;
use crate::rig::wait::until;

/// Longest wait for one line.
const LINE_MAX: Duration = Duration::from_mins(1);
/// At its close librdkafka waits for unanswered requests up to `socket.timeout.ms` (one minute).
const EXIT_MAX: Duration = Duration::from_secs(90);
/// Signal that ends a process after an invalid memory access.
const SIGSEGV: i32 = 11;

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
    /// Unix ms of the receipt, by the client's clock.
    pub(crate) at: i64,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

/// Partition, offset and timestamp of a produced record, or the error.
pub(crate) type ProduceResult = Result<(i32, i64, i64), String>;

#[derive(Debug)]
enum Link {
    Process(Child, ChildStdin),
    Hosted(TcpStream),
}

/// A running client program; dropping it kills the process or cuts the connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) program: Program,
    link: Link,
    lines: Receiver<String>,
    /// Assigned partitions, as `topic-index`.
    pub(crate) owned: BTreeSet<String>,
    /// Number of times that each partition was revoked or lost.
    taken: BTreeMap<String, usize>,
    /// Assignments, revocations and losses seen.
    pub(crate) rebalances: usize,
    /// Errors of polls.
    pub(crate) troubles: Vec<String>,
}

impl Client {
    /// Starts a client of `group`. A Java client shares one JVM with others.
    pub(crate) fn start(
        program: Program,
        bootstrap: &str,
        dir: &Path,
        who: (&str, &str, Duration),
        settings: &[String],
    ) -> Self {
        if !program.library.is_java() {
            return Self::process(program, bootstrap, dir, who, settings);
        }
        let link = host::connect(program, &arguments(program, bootstrap, who, settings));
        let said = link.try_clone().unwrap();
        Self::ready(who.0, program, Link::Hosted(link), said)
    }

    /// Starts the client in a process of its own, which can be killed; its stderr goes to a file
    /// below `dir`.
    pub(crate) fn process(
        program: Program,
        bootstrap: &str,
        dir: &Path,
        who: (&str, &str, Duration),
        settings: &[String],
    ) -> Self {
        let log = File::create(dir.join(format!("{}.log", who.0))).unwrap();
        let mut child = program
            .command()
            .args(arguments(program, bootstrap, who, settings))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.name));
        let (commands, lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::ready(who.0, program, Link::Process(child, commands), lines)
    }

    fn ready(name: &str, program: Program, link: Link, said: impl Read + Send + 'static) -> Self {
        let (teller, heard) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(said).lines().map_while(Result::ok) {
                if teller.send(text).is_err() {
                    return;
                }
            }
        });
        let mut client = Self {
            name: name.to_owned(),
            program,
            link,
            lines: heard,
            owned: BTreeSet::new(),
            taken: BTreeMap::new(),
            rebalances: 0,
            troubles: Vec::new(),
        };
        assert!(matches!(client.line(), Event::Ready));
        client
    }

    pub(crate) fn taken(&self, partition: &str) -> usize {
        self.taken.get(partition).copied().unwrap_or_default()
    }

    /// Writes one command; [`Client::answer`] reads its lines.
    pub(crate) fn send(&mut self, command: &str) {
        let words = format!("{command}\n");
        let sent = match &mut self.link {
            Link::Process(_, stdin) => stdin.write_all(words.as_bytes()),
            Link::Hosted(link) => link.write_all(words.as_bytes()),
        };
        sent.unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }

    /// Reads every line up to the end of the command.
    pub(crate) fn answer(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        loop {
            match self.line() {
                Event::Done => return Ok(events),
                // A poll may report a transient error and go on.
                Event::Failed { command, error } if command == "poll" => {
                    eprintln!("{}: poll: {error}", self.name);
                    self.troubles.push(error);
                }
                Event::Failed { command, error } => return Err(format!("{command}: {error}")),
                event => events.push(event),
            }
        }
    }

    /// Runs a command that must succeed, and returns its lines.
    pub(crate) fn run(&mut self, command: &str) -> Vec<Event> {
        self.send(command);
        self.answer().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn poll(&mut self, wait: Duration) -> Vec<Record> {
        records(self.run(&format!("poll {}", wait.as_millis())))
    }

    /// Sends queued records, and returns the outcome of each by tag.
    pub(crate) fn flush(&mut self) -> Vec<(String, ProduceResult)> {
        fates(self.run("flush"))
    }

    /// Leaves the group.
    pub(crate) fn close(mut self) {
        match self.leave() {
            Ok(()) => self.end(),
            Err(_) if self.program.library.has(Trait::MayCrashAtClose) && self.crashed() => {
                eprintln!("{}: its library crashed at its close", self.name);
            }
            Err(silence) => panic!("{}: {silence}", self.name),
        }
    }

    /// Leaves the group after coordinators have died.
    pub(crate) fn close_after_deaths(mut self) {
        match self.leave() {
            Ok(()) => self.end(),
            Err(silence) if self.program.library.has(Trait::MayStopForever) => {
                eprintln!("{}: its library has stopped: {silence}", self.name);
                self.kill();
            }
            Err(silence) => panic!("{}: {silence}", self.name),
        }
    }

    fn leave(&mut self) -> Result<(), String> {
        self.send("close");
        loop {
            match self.next()? {
                Event::Done => return Ok(()),
                Event::Failed { error, .. } => panic!("{}: close: {error}", self.name),
                _ => {}
            }
        }
    }

    fn end(mut self) {
        until(EXIT_MAX, "the client ends", || match &mut self.link {
            Link::Process(child, _) => child.try_wait().unwrap().is_some(),
            Link::Hosted(_) => self.lines.try_recv() == Err(TryRecvError::Disconnected),
        });
    }

    pub(crate) fn kill(mut self) {
        let Link::Process(child, _) = &mut self.link else {
            panic!("{} shares its process with others", self.name);
        };
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether its process ended with SIGSEGV.
    fn crashed(&mut self) -> bool {
        match &mut self.link {
            Link::Process(child, _) => {
                child.try_wait().unwrap().is_some_and(|end| end.signal() == Some(SIGSEGV))
            }
            Link::Hosted(_) => false,
        }
    }

    fn line(&mut self) -> Event {
        self.next().unwrap_or_else(|silence| panic!("{}: {silence}", self.name))
    }

    fn next(&mut self) -> Result<Event, String> {
        let line = match self.lines.recv_timeout(LINE_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(format!("no line for {LINE_MAX:?}")),
            Err(RecvTimeoutError::Disconnected) => {
                let end = match &mut self.link {
                    Link::Process(child, _) => child.wait().unwrap().to_string(),
                    Link::Hosted(_) => "connection closed".to_owned(),
                };
                return Err(format!("no more lines: {end}"));
            }
        };
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
            _ => return Ok(event),
        }
        self.rebalances += 1;
        eprintln!("{}: {line}", self.name);
        Ok(event)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        match &mut self.link {
            Link::Process(child, _) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Link::Hosted(link) => {
                let _ = link.shutdown(Shutdown::Both);
            }
        }
    }
}

fn arguments(
    program: Program,
    bootstrap: &str,
    (_, group, session): (&str, &str, Duration),
    settings: &[String],
) -> Vec<String> {
    let session = session.as_millis().to_string();
    let first = [bootstrap, group, &session, program.protocol];
    let first = first.iter().chain(program.settings).map(|&word| word.to_owned());
    first.chain(settings.iter().cloned()).collect()
}

pub(crate) fn records(events: Vec<Event>) -> Vec<Record> {
    let record = |event| match event {
        Event::Record(record) => Some(record),
        _ => None,
    };
    events.into_iter().filter_map(record).collect()
}

/// Outcome of each produced record, by tag.
pub(crate) fn fates(events: Vec<Event>) -> Vec<(String, ProduceResult)> {
    let fate = |event| match event {
        Event::Sent { tag, partition, offset, timestamp } => {
            Some((tag, Ok((partition, offset, timestamp))))
        }
        Event::Refused { tag, error } => Some((tag, Err(error))),
        _ => None,
    };
    events.into_iter().filter_map(fate).collect()
}
