//! A producer and a consumer in one. It produces, fails some records, commits past its nacks
//! without waiting for them, and goes on after a crash as a real client does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use fastrand::Rng;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    BrokerId, FetchRequest, GroupId, InitProducerIdRequest, JoinGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, ProducerId, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use reprise::model::TopicName as Name;
use reprise::wire::assignment::Assignment;
use reprise::wire::batch::{Batch, RecordView, records};

use crate::ledger::{Item, Ledger, Redelivery, now_ms};
use crate::wire::{NewRecord, Wire, batch};

const ORDERS: &str = "orders";
const RETRY: &str = "reprise.retry.shop";
const DEAD: &str = "reprise.dlq.shop";
const PRODUCE: i16 = 9;
const FETCH: i16 = 12;
const COMMIT: i16 = 8;
/// Unanswered batches of a producer: a broker recognizes this many repeated ones (KIP-98).
const IN_FLIGHT: usize = 5;

/// A batch sent and not answered.
#[derive(Clone)]
struct SentBatch {
    topic: &'static str,
    sequence: i32,
    bytes: Bytes,
    /// Indexes of the batch's records; for nacks, with the failures counted before.
    items: Vec<(usize, u32)>,
}

/// An idempotent producer to one topic.
struct Producer {
    id: i64,
    next: i32,
    unanswered: Vec<SentBatch>,
}

/// A delivered and handled record.
struct Work {
    item: usize,
    count: u32,
    /// Topic and offset as delivered.
    place: (&'static str, i64),
    value: String,
}

pub struct Application {
    pub ledger: Ledger,
    rng: Rng,
    orders: Producer,
    nacks: Producer,
    member: String,
    generation: i32,
    /// Next fetch offsets: orders, retry partition.
    next: (i64, i64),
    /// The acknowledged and the highest sent commit of orders.
    committed: (i64, i64),
    /// Records whose commit is not answered yet: record, topic, offset.
    in_doubt: Vec<(usize, &'static str, i64)>,
    /// Acknowledged operations over all lives of the sidecar.
    pub acknowledged: Arc<AtomicU64>,
    /// The application produces no new records.
    pub draining: bool,
}

pub fn s(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn name(text: &str) -> TopicName {
    s(text).into()
}

fn group() -> GroupId {
    s("shop").into()
}

pub fn ok(code: i16, what: &str) {
    assert_eq!(code, 0, "{what} was refused");
}

impl Application {
    pub fn new(seed: u64) -> Self {
        let producer = || Producer { id: -1, next: 0, unanswered: Vec::new() };
        Self {
            ledger: Ledger::default(),
            rng: Rng::with_seed(seed),
            orders: producer(),
            nacks: producer(),
            member: String::new(),
            generation: -1,
            next: (0, 0),
            committed: (0, 0),
            in_doubt: Vec::new(),
            acknowledged: Arc::default(),
            draining: false,
        }
    }

    fn counted(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// Works until the connection breaks or `until` says so.
    pub fn live(&mut self, to: SocketAddr, until: impl Fn(&Self) -> bool) -> io::Result<()> {
        self.ledger.life += 1;
        let mut wire = Wire::connect(to)?;
        if self.generation < 0 {
            self.join(&mut wire)?;
        }
        self.resume(&mut wire)?;
        while !until(self) {
            self.round(&mut wire)?;
        }
        Ok(())
    }

    fn join(&mut self, wire: &mut Wire) -> io::Result<()> {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(s("range"))
            .with_metadata(subscription(&[ORDERS, RETRY]));
        let mut request = JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(86_400_000)
            .with_rebalance_timeout_ms(1_000)
            .with_protocol_type(s("consumer"))
            .with_protocols(vec![protocol]);
        let first = wire.ask(7, &request)?;
        request.member_id = first.member_id;
        let joined = wire.ask(7, &request)?;
        ok(joined.error_code, "JoinGroup");
        self.member = request.member_id.to_string();
        let mut assignment = Assignment::empty();
        assignment.append(&Name::new(ORDERS), 0);
        assignment.append(&Name::new(RETRY), 0);
        let given = SyncGroupRequestAssignment::default()
            .with_member_id(request.member_id.clone())
            .with_assignment(assignment.to_bytes());
        let synced = wire.ask(
            5,
            &SyncGroupRequest::default()
                .with_group_id(group())
                .with_generation_id(joined.generation_id)
                .with_member_id(request.member_id)
                .with_protocol_type(Some(s("consumer")))
                .with_protocol_name(Some(s("range")))
                .with_assignments(vec![given]),
        )?;
        ok(synced.error_code, "SyncGroup");
        self.generation = joined.generation_id;
        Ok(())
    }

    /// Reconnects: sends unanswered batches again, and fetches the positions of the group. In half
    /// of the cases the application has restarted too, and has forgotten its unanswered nacks.
    fn resume(&mut self, wire: &mut Wire) -> io::Result<()> {
        if self.orders.id < 0 {
            self.orders.id = new_producer(wire)?;
        }
        for sent in self.orders.unanswered.clone() {
            wire.put(PRODUCE, &produce(&sent));
        }
        if self.nacks.id < 0 || (!self.nacks.unanswered.is_empty() && self.rng.bool()) {
            self.nacks.unanswered.clear();
            wire.flush()?;
            self.answers(wire, true)?;
            self.nacks = Producer { id: new_producer(wire)?, next: 0, unanswered: Vec::new() };
        } else {
            for sent in self.nacks.unanswered.clone() {
                wire.put(PRODUCE, &produce(&sent));
            }
            wire.flush()?;
            self.answers(wire, true)?;
            self.answers(wire, false)?;
        }
        let topic = |topic| {
            OffsetFetchRequestTopics::default()
                .with_name(name(topic))
                .with_partition_indexes(vec![0])
        };
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group())
            .with_member_id(Some(s(&self.member)))
            .with_member_epoch(self.generation)
            .with_topics(Some(vec![topic(ORDERS), topic(RETRY)]));
        let answer = wire.ask(9, &OffsetFetchRequest::default().with_groups(vec![asked]))?;
        let answer = &answer.groups[0];
        ok(answer.error_code, "OffsetFetch");
        let position = |at: usize| answer.topics[at].partitions[0].committed_offset;
        self.next = (position(0).max(0), position(1));
        assert!(self.next.1 >= 0, "no position in the retry topic: {:?}", self.next);
        // The unanswered commit took effect if the group's offset is past it.
        for (item, topic, offset) in std::mem::take(&mut self.in_doubt) {
            if offset < if topic == RETRY { self.next.1 } else { self.next.0 } {
                self.ledger.settled(item);
            }
        }
        let (acknowledged, sent) = self.committed;
        assert!(self.next.0 <= sent, "a commit that was never sent");
        if self.next.0 < acknowledged {
            println!("a commit was lost: {:?} {:?}", self.next, self.committed);
            self.ledger.verdict.duplicates += u64::try_from(acknowledged - self.next.0).unwrap();
        }
        Ok(())
    }

    /// Reads the answers to all pending batches, oldest first.
    fn answers(&mut self, wire: &mut Wire, orders: bool) -> io::Result<()> {
        let count = if orders { &self.orders } else { &self.nacks }.unanswered.len();
        for _ in 0..count {
            let answer = wire.get::<ProduceRequest>(PRODUCE)?;
            let answer = &answer.responses[0].partition_responses[0];
            let producer = if orders { &mut self.orders } else { &mut self.nacks };
            let sent = producer.unanswered.remove(0);
            assert_eq!(answer.error_code, 0, "{:?} {answer:?}", sent.items);
            for (item, count) in sent.items {
                if orders {
                    self.ledger.items[item].produced = true;
                } else {
                    self.ledger.failed(item, count);
                }
            }
            self.counted();
        }
        Ok(())
    }

    fn round(&mut self, wire: &mut Wire) -> io::Result<()> {
        for _ in 0..if self.draining { 0 } else { 4 } {
            self.produce_some();
        }
        for sent in &self.orders.unanswered {
            wire.put(PRODUCE, &produce(sent));
        }
        let (orders, retries) = self.next;
        wire.put(FETCH, &fetch(&[(ORDERS, orders), (RETRY, retries)], self.draining));
        wire.flush()?;
        self.answers(wire, true)?;
        let fetched = wire.get::<FetchRequest>(FETCH)?;
        let came_ms = now_ms();
        let mut done = Vec::new();
        for topic in &fetched.responses {
            let partition = &topic.partitions[0];
            assert_eq!(partition.error_code, 0, "{:?} {:?} {partition:?}", topic.topic, self.next);
            let bytes = partition.records.clone().unwrap_or_default();
            done.extend(self.take(topic.topic.as_str() == RETRY, bytes, came_ms));
        }
        self.work(done);
        for sent in &self.nacks.unanswered {
            wire.put(PRODUCE, &produce(sent));
        }
        let commits = self.next != (orders, retries);
        if commits {
            self.committed.1 = self.committed.1.max(self.next.0);
            wire.put(COMMIT, &self.commit());
        }
        wire.flush()?;
        self.answers(wire, false)?;
        if commits {
            let answer = wire.get::<OffsetCommitRequest>(COMMIT)?;
            for topic in &answer.topics {
                ok(topic.partitions[0].error_code, "OffsetCommit");
            }
            self.counted();
            self.committed.0 = self.next.0;
            for (item, ..) in std::mem::take(&mut self.in_doubt) {
                self.ledger.settled(item);
            }
        }
        Ok(())
    }

    fn produce_some(&mut self) {
        let mut items = Vec::new();
        let mut produced = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let fails = match self.rng.u8(..10) {
                0..=5 => 0,
                6..=7 => 1,
                8 => self.rng.u32(2..4),
                _ => 99,
            };
            let item = self.ledger.items.len();
            self.ledger.items.push(Item::new(fails));
            let value = format!("{item}:{}", "x".repeat(self.rng.usize(..600)));
            items.push((item, 0));
            produced.push(NewRecord { value, headers: Vec::new() });
        }
        self.orders.send(ORDERS, items, &produced);
    }

    /// Handles the records of a fetched partition.
    fn take(&mut self, retries: bool, bytes: Bytes, came_ms: i64) -> Vec<Work> {
        let mut work = Vec::new();
        let (records, end) = read(bytes);
        for record in records {
            let next = if retries { &mut self.next.1 } else { &mut self.next.0 };
            if record.offset < *next {
                continue;
            }
            *next = record.offset + 1;
            let value = String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap();
            let item: usize = value.split(':').next().unwrap().parse().unwrap();
            let topic = if retries { RETRY } else { ORDERS };
            let mut count = 0;
            if retries {
                count = u32::try_from(header(&record, "RECONSUME_TIME")).unwrap();
                let due_ms = header(&record, "x-retry-due-ms");
                self.ledger.redelivery(Redelivery { item, count, due_ms, came_ms });
            } else {
                self.ledger.first_delivery(item, record.offset);
            }
            work.push(Work { item, count, place: (topic, record.offset), value });
        }
        let next = if retries { &mut self.next.1 } else { &mut self.next.0 };
        *next = end.max(*next);
        work
    }

    /// Nacks the records that are to fail, and is done with the rest.
    fn work(&mut self, work: Vec<Work>) {
        let mut failed = Vec::new();
        for Work { item, count, place: (topic, offset), value } in work {
            if count >= self.ledger.items[item].fails {
                self.in_doubt.push((item, topic, offset));
                continue;
            }
            self.ledger.failing(item, count);
            let headers = vec![("x-retry-origin", format!("{topic}-0@{offset}"))];
            failed.push(((item, count), NewRecord { value, headers }));
        }
        let most = failed.len().div_ceil(IN_FLIGHT).max(1);
        while !failed.is_empty() {
            let batch = failed.drain(..most.min(failed.len()));
            let (items, records): (Vec<_>, Vec<_>) = batch.unzip();
            self.nacks.send(RETRY, items, &records);
        }
    }

    fn commit(&self) -> OffsetCommitRequest {
        let topic = |topic, offset| {
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
            OffsetCommitRequestTopic::default()
                .with_name(name(topic))
                .with_partitions(vec![partition])
        };
        OffsetCommitRequest::default()
            .with_group_id(group())
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(s(&self.member))
            .with_topics(vec![topic(ORDERS, self.next.0), topic(RETRY, self.next.1)])
    }

    /// Reads all dead letters.
    pub fn bury(&mut self, to: SocketAddr) -> io::Result<()> {
        let mut wire = Wire::connect(to)?;
        let mut next = 0;
        loop {
            let answer = wire.ask(FETCH, &fetch(&[(DEAD, next)], false))?;
            let partition = &answer.responses[0].partitions[0];
            ok(partition.error_code, "Fetch of the dead letters");
            let before = next;
            for record in read(partition.records.clone().unwrap_or_default()).0 {
                if record.offset >= next {
                    next = record.offset + 1;
                    let value = String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap();
                    let item = value.split(':').next().unwrap().parse().unwrap();
                    let failures = header(&record, "__dlq.errors.delivery.count");
                    self.ledger.dead_letter(item, u32::try_from(failures).unwrap());
                }
            }
            if next == before {
                return Ok(());
            }
        }
    }
}

impl Producer {
    fn send(&mut self, topic: &'static str, items: Vec<(usize, u32)>, records: &[NewRecord]) {
        let bytes = batch(self.id, self.next, records);
        let sequence = self.next;
        self.next += i32::try_from(records.len()).unwrap();
        self.unanswered.push(SentBatch { topic, sequence, bytes, items });
    }
}

/// The consumer protocol's metadata, version 0: topics, no user data.
fn subscription(topics: &[&str]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    out.put_i32(i32::try_from(topics.len()).unwrap());
    for topic in topics {
        out.put_i16(i16::try_from(topic.len()).unwrap());
        out.put_slice(topic.as_bytes());
    }
    out.put_i32(-1);
    out.freeze()
}

fn new_producer(wire: &mut Wire) -> io::Result<i64> {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let answer = wire.ask(4, &request)?;
    ok(answer.error_code, "InitProducerId");
    Ok(answer.producer_id.0)
}

fn produce(sent: &SentBatch) -> ProduceRequest {
    assert!(sent.sequence >= 0);
    let partition = PartitionProduceData::default().with_records(Some(sent.bytes.clone()));
    let topic = TopicProduceData::default()
        .with_name(name(sent.topic))
        .with_partition_data(vec![partition]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

fn fetch(places: &[(&str, i64)], wait: bool) -> FetchRequest {
    let topic = |(topic, offset): &(&str, i64)| {
        let partition =
            FetchPartition::default().with_fetch_offset(*offset).with_partition_max_bytes(1 << 20);
        FetchTopic::default().with_topic(name(topic)).with_partitions(vec![partition])
    };
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(if wait { 20 } else { 0 })
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_session_epoch(-1)
        .with_topics(places.iter().map(topic).collect())
}

/// A Fetch of one partition that does not wait.
pub fn fetch_one(topic: &str, index: i32, offset: i64) -> FetchRequest {
    let mut request = fetch(&[(topic, offset)], true);
    request.topics[0].partitions[0].partition = index;
    request
}

/// The records of an answer, and the offset behind its batches: a batch may be cut to nothing.
fn read(mut bytes: Bytes) -> (Vec<RecordView>, i64) {
    let (mut all, mut end) = (Vec::new(), 0);
    while !bytes.is_empty() {
        let batch = Batch::parse(&bytes).unwrap();
        for record in records(&batch, 16 << 20).unwrap() {
            all.push(record.unwrap());
        }
        end = batch.header.last_offset() + 1;
        bytes = bytes.slice(batch.bytes.len()..);
    }
    (all, end)
}

fn header(record: &RecordView, name: &str) -> i64 {
    let value = record.headers.last(name).flatten();
    let value = value.unwrap_or_else(|| panic!("no header {name} at {}", record.offset));
    String::from_utf8(value.to_vec()).unwrap().parse().unwrap()
}
