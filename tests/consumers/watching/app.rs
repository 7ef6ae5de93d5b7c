//! An application with a plain consumer, and one record that it cannot handle.

use std::collections::BTreeMap;

use kafka_protocol::messages::CreatePartitionsRequest;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use reprise::wire::batch::{Batch, records};

use crate::support::client::s;
use crate::support::{Got, Member, Rec, Server, until, wall_ms};

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
/// `fetch.max.wait.ms` of the client.
const WAIT_MS: i32 = 100;
/// Polls of a minute, after which the test gives up.
const POLLS_MAX: usize = 600;

pub(crate) struct App<'a> {
    server: &'a Server,
    topics: Vec<&'a str>,
    instance: Option<&'a str>,
    /// The record that cannot be handled.
    poison: i64,
    /// Records behind which a commit was accepted, in the order of the commits.
    pub(crate) done: Vec<i64>,
    /// Number of deliveries of each record.
    pub(crate) deliveries: BTreeMap<i64, usize>,
    process: Option<Process>,
}

/// One process of the application.
struct Process {
    member: Member,
    /// The next fetch offset.
    position: i64,
    /// The answer to the Fetch sent ahead.
    given: Option<FetchAnswer>,
}

/// The answer to one Fetch.
struct FetchAnswer {
    records: Vec<(i64, String)>,
    /// The next fetch offset, which lies behind empty batches as well.
    end: i64,
    has_batches: bool,
}

/// The application's reaction to the record it cannot handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The process dies.
    Crash,
    /// The client commits the records before it and seeks back to it.
    SeekBack,
}

impl<'a> App<'a> {
    pub(crate) fn new(server: &'a Server, poison: i64) -> Self {
        let (done, deliveries) = (Vec::new(), BTreeMap::new());
        let topics = vec!["orders"];
        Self { server, topics, instance: None, poison, done, deliveries, process: None }
    }

    /// Uses this `group.instance.id` in every process.
    pub(crate) fn fixed(mut self, instance: &'a str) -> Self {
        self.instance = Some(instance);
        self
    }

    /// Subscribes to this topic as well, and leaves it unread.
    pub(crate) fn subscribed_to(mut self, topic: &'a str) -> Self {
        self.topics.push(topic);
        self
    }

    fn start(&self) -> Process {
        let mut member = Member::new(self.server, "shop", &self.topics);
        member.session_ms = 1_000;
        member.instance = self.instance.map(str::to_owned);
        member.join(ORDERS);
        let position = member.position_of("orders", 0).max(0);
        Process { member, position, given: None }
    }

    /// Polls until `until` is committed, and fails at the poison record.
    pub(crate) fn run(&mut self, failing: Failing, until: i64) {
        let mut polls = 0;
        while self.poll(failing) < until {
            self.goes_on(&mut polls);
        }
    }

    /// Polls until the process has died `times` times.
    pub(crate) fn dies(&mut self, times: usize) {
        for _ in 0..times {
            let mut polls = 0;
            while self.poll(Failing::Crash) >= 0 {
                self.goes_on(&mut polls);
            }
        }
    }

    fn goes_on(&self, polls: &mut usize) {
        *polls += 1;
        assert!(*polls < POLLS_MAX, "done {:?}, delivered {:?}", self.done, self.deliveries);
    }

    /// One poll. The next Fetch is sent before the records are handled, as clients do. Returns the
    /// position; −1: the process has died.
    fn poll(&mut self, failing: Failing) -> i64 {
        let mut process = self.process.take().unwrap_or_else(|| self.start());
        assert_eq!(process.member.heartbeat(), 0);
        let given = process.given.take().unwrap_or_else(|| process.fetch());
        process.position = given.end;
        process.given = given.has_batches.then(|| process.fetch());
        for (offset, text) in &given.records {
            assert_eq!(*text, offset.to_string());
            *self.deliveries.entry(*offset).or_default() += 1;
            if *offset == self.poison {
                if failing == Failing::Crash {
                    return -1;
                }
                (process.position, process.given) = (self.poison, None);
                break;
            }
        }
        let reached = process.position;
        if given.has_batches {
            assert_eq!(process.member.commit("orders", 0, reached), 0);
            let before = given.records.iter().map(|(offset, _)| *offset);
            self.done.extend(before.filter(|offset| *offset < reached));
        }
        self.process = Some(process);
        reached
    }
}

impl Process {
    fn fetch(&mut self) -> FetchAnswer {
        let data = self.member.client.fetch("orders", 0, self.position, WAIT_MS);
        assert_eq!(data.error_code, 0, "at {}", self.position);
        let mut rest = data.records.unwrap();
        let mut given =
            FetchAnswer { records: Vec::new(), end: self.position, has_batches: !rest.is_empty() };
        while let Ok(batch) = Batch::parse(&rest) {
            batch.check_crc().unwrap();
            given.end = batch.header.last_offset() + 1;
            if batch.header.is_control() {
                rest = rest.slice(batch.bytes.len()..);
                continue;
            }
            let Ok(all) = records(&batch, usize::MAX) else {
                // A client fails at its position when it cannot decode a batch.
                let first = batch.header.base_offset.max(self.position);
                given.records.push((first, first.to_string()));
                rest = rest.slice(batch.bytes.len()..);
                continue;
            };
            for record in all {
                let record = record.unwrap();
                let text = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                given.records.push((record.offset, text));
            }
            rest = rest.slice(batch.bytes.len()..);
        }
        // A batch may begin below the fetch offset.
        given.records.retain(|(offset, _)| *offset >= self.position);
        given
    }
}

/// `orders` with `count` records, each with its own offset as value, in batches of four.
pub(crate) fn orders(server: &Server, count: i64) {
    let mut tool = server.client();
    tool.create("orders", 1);
    let all: Vec<Rec> = (0..count).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
    for batch in all.chunks(4) {
        tool.put("orders", 0, batch);
    }
}

pub(crate) fn orders_more(server: &Server) {
    server.client().put("orders", 0, &[Rec::new("more").at(wall_ms())]);
}

/// The dead letters of the group.
pub(crate) fn dead_letters(server: &Server) -> Vec<Got> {
    server.client().read_all("reprise.dlq.shop")
}

/// Commits offset 0 in these partitions.
pub(crate) fn began(server: &Server, topics: &[(&str, i32)]) {
    let names: Vec<&str> = topics.iter().map(|(topic, _)| *topic).collect();
    let mut member = Member::new(server, "shop", &names);
    member.join(topics);
    for (topic, partitions) in topics {
        for index in 0..*partitions {
            assert_eq!(member.commit(topic, index, 0), 0);
        }
    }
    assert_eq!(member.leave(), 0);
}

/// Fetches the record at `offset` of partition 0 repeatedly until it is a dead letter. Commits
/// records of partition 1 in between.
pub(crate) fn goes_back_until_dead(server: &Server, member: &mut Member, offset: i64) {
    let mut topic = CreatePartitionsTopic::default();
    (topic.name, topic.count, topic.assignments) = (s("orders"), 2, None);
    let grown = CreatePartitionsRequest::default().with_topics(vec![topic]);
    assert_eq!(server.client().call(3, &grown).results[0].error_code, 0);
    let (before, mut at) = (dead_letters(server).len(), 0);
    until("it goes back often enough", || {
        assert_eq!(member.heartbeat(), 0);
        let given = member.client.fetch("orders", 0, offset, 100).records;
        if given.is_some_and(|given| !given.is_empty()) {
            // The member goes back, and handles the other partition.
            member.client.fetch("orders", 0, offset, 0);
        }
        member.client.put("orders", 1, &[Rec::new("other").at(wall_ms())]);
        if member.client.fetch("orders", 1, at, 100).records.is_some_and(|all| !all.is_empty()) {
            at += 1;
            assert_eq!(member.commit("orders", 1, at), 0);
        }
        dead_letters(server).len() > before
    });
}
