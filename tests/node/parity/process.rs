//! Consumers as processes, killed by SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::read;
use crate::support::{Client, Member, Rec, Server, wall_ms};

/// Environment variable that makes this binary a consumer of the sidecar at that address.
const CONSUMER_OF: &str = "PARITY_CONSUMER_OF";
/// Prefix of a consumer's output lines.
const SAYS: &str = "consumer: ";

/// The behaviour of a consumer's handler.
#[derive(Clone, Copy)]
struct Handler {
    /// The record that the handler never finishes.
    poison: Option<i64>,
    /// Commits behind every nth record; `None`: behind every batch.
    commits_every: Option<i64>,
}

/// One process; killed when dropped.
struct Process {
    child: Child,
    says: Box<dyn Iterator<Item = (String, i64)>>,
}

impl Process {
    /// Starts the same test in another process, as a consumer.
    fn start(server: &Server, test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CONSUMER_OF, server.addr().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let says = lines.map_while(Result::ok).filter_map(|line| {
            let (word, number) = line.split_once(SAYS)?.1.split_once(' ')?;
            Some((word.to_owned(), number.parse().unwrap()))
        });
        Self { child, says: Box::new(says) }
    }

    /// Kills the process. Returns its output that was not read yet.
    fn kill(mut self) -> Vec<(String, i64)> {
        self.child.kill().unwrap();
        self.says.by_ref().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// In a consumer's process: consumes `orders` until the process is killed.
fn is_consumer(handler: Handler) -> bool {
    let Ok(addr) = std::env::var(CONSUMER_OF) else { return false };
    let client = Client::connect(addr.parse().unwrap());
    // A static member: the next process is admitted at once, and gets the partitions of this one.
    let mut member = Member::on(client, "shop", &["orders"]).fixed("one");
    member.session_ms = 60_000;
    member.join(&[("orders", 1)]);
    let mut position = member.position_of("orders", 0).max(0);
    loop {
        assert_eq!(member.heartbeat(), 0);
        let records = member.client.fetch("orders", 0, position, 100).records.unwrap();
        let (records, end) = read(records);
        let end = end.unwrap_or(position);
        for record in records.into_iter().filter(|record| record.offset >= position) {
            say("given", record.offset);
            while handler.poison == Some(record.offset) {
                thread::park();
            }
            let done = record.offset + 1;
            if handler.commits_every.is_some_and(|every| done % every == 0) {
                commit(&mut member, done);
            }
        }
        if handler.commits_every.is_none() && end > position {
            commit(&mut member, end);
        }
        position = end;
    }
}

fn commit(member: &mut Member, offset: i64) {
    assert_eq!(member.commit("orders", 0, offset), 0);
    say("committed", offset);
}

/// Prints a line in a single write.
fn say(word: &str, number: i64) {
    let line = format!("\n{SAYS}{word} {number}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

fn orders(yaml: &str, count: i64) -> Server {
    let server = Server::with(yaml);
    let mut tool = server.client();
    tool.create("orders", 1);
    let records: Vec<Rec> = (0..count).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
    for batch in records.chunks(50) {
        tool.put("orders", 0, batch);
    }
    server
}

pub(crate) const Q22: Row = Row {
    id: "Q22",
    theirs: "A consumer is killed while it handles a message: it is delivered again with count \
             0, for ever; a message that kills its process is never a dead letter.",
    ours: "After three losses the records that were outstanding at each of them are delivered a \
           part at a time; the one that ends its process alone is a dead letter, and skipped. Its \
           neighbours count nothing.",
    stands: Comparison::Differs("a poison record must not stop a partition for ever"),
};

#[test]
fn q22_only_the_crashing_record_becomes_a_dead_letter() {
    const NAME: &str = "parity::process::q22_only_the_crashing_record_becomes_a_dead_letter";
    if is_consumer(Handler { poison: Some(5), commits_every: None }) {
        return;
    }
    let server =
        orders("retry: {max_reconsume_times: 1, isolation_timeout: 300ms, give_up_after: 1s}", 12);
    let (mut killed, mut committed) = (0, 0);
    while committed < 12 {
        assert!(killed < 30, "it is given out for ever");
        let mut process = Process::start(&server, NAME);
        let ended = process.says.by_ref().find(|(word, offset)| {
            if word == "committed" {
                committed = *offset;
            }
            committed == 12 || (word == "given" && *offset == 5)
        });
        assert!(ended.is_some(), "the process ended by itself");
        process.kill();
        killed += 1;
    }
    let dead = server.client().read_all("reprise.dlq.shop");
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@5");
    assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "crashed");
    assert!((1..=2).contains(&dead[0].reconsume_times()));
    assert!(killed > 4, "not after {killed} deaths");
    for neighbour in [4, 6] {
        let told = server.get(&format!("/api/v1/explain?record=orders-0@{neighbour}&group=shop"));
        assert!(!told.contains("a failure is inferred"), "{told}");
    }
}

pub(crate) const Q23: Row = Row {
    id: "Q23",
    theirs: "A consumer is killed after 800 successes at 100 a second: 42 come again (offsets \
             are kept every 5 s).",
    ours: "Only what was not committed comes again: a commit that is answered is on the disk.",
    stands: Comparison::Differs("Kafka's clients commit when they choose to, not every 5 s"),
};

#[test]
fn q23_only_uncommitted_records_come_again_after_a_kill() {
    const NAME: &str = "parity::process::q23_only_uncommitted_records_come_again_after_a_kill";
    if is_consumer(Handler { poison: None, commits_every: Some(10) }) {
        return;
    }
    let server = orders("", 1_000);
    let mut first = Process::start(&server, NAME);
    let mut said: Vec<(String, i64)> = Vec::new();
    while said.last() != Some(&("given".to_owned(), 800)) {
        said.push(first.says.next().expect("800 successes"));
    }
    said.extend(first.kill());
    let last = |of: &str| said.iter().rev().find(|(word, _)| word == of).unwrap().1;
    let (given, committed) = (last("given"), last("committed"));
    let mut second = Process::start(&server, NAME);
    let begins = second.says.by_ref().find(|(word, _)| word == "given").unwrap().1;
    // one commit may be under way
    assert!(begins == committed || begins == committed + 10, "{begins} {committed}");
    assert!(begins <= given + 1, "nothing is passed over: {begins} {given}");
    assert!(second.says.any(|said| said == ("committed".to_owned(), 1_000)));
}
