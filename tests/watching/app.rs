//! An application with a plain consumer, and one record it cannot handle.

use std::collections::BTreeMap;

use kafka_protocol::messages::CreatePartitionsRequest;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use reprise::wire::batch::{Batch, records};

use crate::support::client::s;
use crate::support::{Got, Member, Rec, Server, until, wall_ms};

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
/// `fetch.max.wait.ms`
const WAIT_MS: i32 = 100;
/// Polls until whatever is to happen has happened: a minute.
const POLLS_MAX: usize = 600;

pub(crate) struct App<'a> {
    server: &'a Server,
    topics: Vec<&'a str>,
    instance: Option<&'a str>,
    /// The record that cannot be handled.
    poison: i64,
    /// Records behind which a commit was accepted, in that order.
    pub(crate) done: Vec<i64>,
    /// How often each record was delivered.
    pub(crate) deliveries: BTreeMap<i64, usize>,
    process: Option<Process>,
}

/// One run of it.
struct Process {
    member: Member,
    /// Where it goes on.
    position: i64,
    /// Fetched ahead.
    given: Option<Given>,
}

/// What one Fetch brought.
struct Given {
    records: Vec<(i64, String)>,
    /// Where a client goes on, behind empty batches too.
    end: i64,
    has_batches: bool,
}

/// What the application does about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Dies.
    Crash,
    /// Commits what came before and seeks to it.
    SeekBack,
}

impl<'a> App<'a> {
    pub(crate) fn new(server: &'a Server, poison: i64) -> Self {
        let (done, deliveries) = (Vec::new(), BTreeMap::new());
        let topics = vec!["orders"];
        Self { server, topics, instance: None, poison, done, deliveries, process: None }
    }

    /// Under that name (`group.instance.id`) in every process.
    pub(crate) fn fixed(mut self, instance: &'a str) -> Self {
        self.instance = Some(instance);
        self
    }

    /// It subscribes to that topic too, and leaves it unread.
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

    /// Reads and commits until `until` is committed, failing where it cannot do better.
    pub(crate) fn run(&mut self, failing: Failing, until: i64) {
        let mut polls = 0;
        while self.poll(failing) < until {
            self.goes_on(&mut polls);
        }
    }

    /// Lives until it has died so often.
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

    /// One poll. The next Fetch is on its way before its records are handled, as clients do. Where
    /// it has got to; −1: nowhere, it has died.
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
    fn fetch(&mut self) -> Given {
        let data = self.member.client.fetch("orders", 0, self.position, WAIT_MS);
        assert_eq!(data.error_code, 0, "at {}", self.position);
        let mut rest = data.records.unwrap();
        let mut given =
            Given { records: Vec::new(), end: self.position, has_batches: !rest.is_empty() };
        while let Ok(batch) = Batch::parse(&rest) {
            batch.check_crc().unwrap();
            given.end = batch.header.last_offset() + 1;
            if batch.header.is_control() {
                rest = rest.slice(batch.bytes.len()..);
                continue;
            }
            let Ok(all) = records(&batch, usize::MAX) else {
                // As clients do, it fails where it stands.
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
        // A batch may begin before what was asked for.
        given.records.retain(|(offset, _)| *offset >= self.position);
        given
    }
}

/// `orders` with so many records, each its own offset, in batches of four.
pub(crate) fn orders(server: &Server, count: i64) {
    let mut tool = server.client();
    tool.create("orders", 1);
    let all: Vec<Rec> = (0..count).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
    for batch in all.chunks(4) {
        tool.put("orders", 0, batch);
    }
}

/// One more.
pub(crate) fn orders_more(server: &Server) {
    server.client().put("orders", 0, &[Rec::new("more").at(wall_ms())]);
}

/// The dead letters of the group.
pub(crate) fn dead_letters(server: &Server) -> Vec<Got> {
    server.client().read_all("reprise.dlq.shop")
}

/// The group has committed in these partitions, each at its begin.
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

/// The member fetches the record at `offset` of partition 0 again and again, and commits records of
/// partition 1 in between, until the record is a dead letter.
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
