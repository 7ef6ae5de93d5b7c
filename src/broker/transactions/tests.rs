//! Transactions over power cuts, on a manual clock: answered requests persist, others have no
//! effect.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::broker::offsets::CommitItem;
use crate::broker::settings::{TopicSettings, TopicSpec};
use crate::broker::topics::Topics;
use crate::broker::{CommittedRead, OffsetOutcome};
use crate::clock::{Clock, Hand};
use crate::journal::{Journal, JournalOptions, MemDisk, ReadSize, Writer};
use crate::model::WallMs;
use crate::wire::batch::marker_batch;
use crate::wire::batch::{
    Headers, ProducerStamp, RawRecord, TimestampType, batches, produce_batch,
};

mod books;
mod deleted;
mod expiry;
mod journalled;
mod overtaken;
mod readers;
mod steps;

const MINUTE_MS: i32 = 60_000;

impl Transaction {
    /// The state after an addition.
    pub(super) fn joined(
        &self,
        by: Incarnation,
        joining: Joining,
        now: WallMs,
    ) -> Result<Option<Self>, TransactionError> {
        let next = self.joining(by, joining, now)?;
        Ok(next.map(|next| match next {
            AdditionOutcome::Opened(next) => *next,
            AdditionOutcome::Step(step) => self.after(step),
        }))
    }

    /// The state after a step.
    pub(super) fn after(&self, step: TransactionStep) -> Self {
        let mut next = self.clone();
        next.take(step);
        next
    }
}

/// A broker with topic `t` of two partitions, on a disk that loses what was not synced.
struct House {
    disk: MemDisk,
    writer: Writer,
    broker: Broker,
    hand: Hand,
}

impl House {
    fn new() -> Self {
        Self::with_seed(5)
    }

    /// The seed decides what is left of a torn write.
    fn with_seed(seed: u64) -> Self {
        let mut house = Self::on(MemDisk::new(seed), WallMs(1_000));
        let spec = TopicSpec { name: "t".into(), partitions: 2, settings: Vec::new() };
        house.broker.topics.create(&spec, Uuid::from_u128(1)).unwrap();
        house.writer.step();
        house
    }

    fn on(disk: MemDisk, now: WallMs) -> Self {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let (clock, hand) = Clock::told(now);
        let defaults =
            TopicSettings { retention_ms: None, retention_bytes: None, max_message_bytes: 9_999 };
        let topics = Topics::new(journal.clone(), defaults, 99_999);
        let broker = Broker::recovered(journal, &recovery, topics, clock);
        Self { disk, writer, broker, hand }
    }

    fn power_cut(self) -> Self {
        let now = self.broker.clock.now().wall;
        let Self { disk, writer, broker, .. } = self;
        disk.power_cut();
        drop((writer, broker));
        Self::on(disk, now)
    }

    /// Journals the producer snapshots and makes a checkpoint.
    fn keep(&mut self) {
        let (broker, writer) = (&self.broker, &mut self.writer);
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| {
                broker.keep_producers().unwrap();
                broker.journal.checkpoint()
            });
            while !kept.is_finished() {
                writer.step();
            }
            kept.join().unwrap().unwrap();
        });
    }

    fn topic(&self) -> Arc<Topic> {
        self.broker.topics.find(&"t".into()).unwrap()
    }

    fn begin(&self, id: &str) -> Incarnation {
        self.broker.begin_producer(id, None, MINUTE_MS).unwrap().producer
    }

    fn join(&self, id: &str, by: Incarnation, index: i32) {
        let topic = self.topic();
        let parts = vec![part(&topic, topic.partition(index).unwrap())];
        let joining = Joining { parts, ..Joining::default() };
        self.broker.join_transaction(id, by, joining).unwrap();
    }

    /// Produces one record with this sequence number in a transaction.
    fn put(&self, id: &str, by: Incarnation, index: i32, sequence: i32) -> Result<i64, String> {
        let topic = self.topic();
        let place = (&*topic, topic.partition(index).unwrap());
        let produced = self.broker.produce_transactional(id, false, place, &batch(by, sequence));
        produced.map(|produced| produced.base_offset).map_err(|error| error.to_string())
    }

    fn offset(&self, by: Incarnation, group: &str, offset: i64) {
        let joining = Joining { group: Some(group.into()), ..Joining::default() };
        self.broker.join_transaction("x", by, joining.clone()).unwrap();
        let item = CommitItem {
            topic: "t".into(),
            partition: 0,
            offset,
            leader_epoch: -1,
            metadata: String::new(),
        };
        let joining = Joining { items: vec![item], ..joining };
        self.broker.commit_in_transaction("x", by, joining, false).unwrap();
    }

    fn committed(&self, group: &str) -> Option<i64> {
        self.broker.offsets.committed(&group.into(), &"t".into(), 0).map(|known| known.offset)
    }

    fn end(&self, id: &str, by: Incarnation, commits: bool) -> Result<EndResult, BrokerError> {
        self.broker.end_transaction(id, by, commits, false)
    }

    /// The last stable offset and the high watermark of a partition.
    fn ends(&self, index: i32) -> (i64, i64) {
        let topic = self.topic();
        let partition = topic.partition(index).unwrap();
        (self.broker.stable_end(partition), self.broker.bounds(partition).visible_end)
    }

    /// A `read_committed` fetch from offset 0: each offset with whether it is aborted, and the
    /// aborted list.
    fn read(&self, index: i32) -> (Vec<(i64, bool)>, Vec<AbortedRange>) {
        let topic = self.topic();
        let partition = topic.partition(index).unwrap();
        let start = self.broker.bounds(partition).start;
        let all = self.broker.read_committed(partition, start, ReadSize::any(1 << 20)).unwrap();
        let CommittedRead { read, aborted, .. } = all;
        let mut rest = read.records;
        let mut offsets = Vec::new();
        while let Ok(batch) = Batch::parse(&rest) {
            offsets.push((batch.header.base_offset, batch.header.is_control()));
            rest = rest.slice(batch.bytes.len()..);
        }
        (offsets, aborted)
    }
}

/// One record in a transaction.
fn batch(by: Incarnation, sequence: i32) -> Batch {
    // transactional, and the checksum of that
    let mut bytes = plain(by, sequence).bytes.to_vec();
    bytes[22] |= 1 << 4;
    let crc = crate::wire::batch::crc_of(&bytes).unwrap();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    batches(bytes.into(), 9_999).next().unwrap().unwrap()
}

/// One record outside a transaction.
fn plain(by: Incarnation, sequence: i32) -> Batch {
    let record = RawRecord {
        timestamp_ms: 5,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(Bytes::from_static(b"x")),
        headers: Headers::default(),
    };
    let stamp = ProducerStamp { id: by.0, epoch: by.1, sequence };
    batches(produce_batch(&[record], Some(stamp)).unwrap(), 9_999).next().unwrap().unwrap()
}

#[test]
fn committed_records_are_readable_once_the_end_is_durable() {
    let mut house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    assert_eq!(house.put("x", by, 0, 0), Ok(0));
    assert!(house.put("x", by, 1, 0).is_err(), "a partition nobody has named");
    house.writer.step();
    assert_eq!(house.ends(0), (0, 1));
    assert_eq!(house.read(0), (vec![], vec![]));
    house.end("x", by, true).unwrap();
    assert_eq!(house.ends(0), (0, 1), "it could still be lost");
    house.writer.step();
    assert_eq!(house.ends(0), (2, 2));
    assert_eq!(house.read(0), (vec![(0, false), (1, true)], vec![]));
    assert!(house.put("x", by, 0, 1).is_err(), "nothing is open");
    assert_eq!(house.put("x", by, 0, 0), Ok(0), "a repeated batch is the same for ever");
}

#[test]
fn an_end_that_was_answered_survives_a_power_cut_whole() {
    for commits in [true, false] {
        let mut house = House::new();
        let by = house.begin("x");
        for index in [0, 1] {
            house.join("x", by, index);
            house.put("x", by, index, 0).unwrap();
        }
        house.offset(by, "g", 9);
        house.end("x", by, commits).unwrap();
        house.writer.step();
        let house = house.power_cut();
        for index in [0, 1] {
            let (given, aborted) = house.read(index);
            assert_eq!(given, [(0, false), (1, true)]);
            let expected = AbortedRange { producer_id: by.0, first: 0, last: 1 };
            assert_eq!(aborted, if commits { vec![] } else { vec![expected] });
        }
        assert_eq!(house.committed("g"), commits.then_some(9));
        assert_eq!(house.end("x", by, commits).unwrap().committed, [], "said twice, done once");
        assert!(house.end("x", by, !commits).is_err());
    }
}

#[test]
fn an_open_transaction_ends_either_way_after_a_power_cut() {
    for commits in [true, false] {
        let mut house = House::new();
        let by = house.begin("x");
        house.join("x", by, 0);
        house.put("x", by, 0, 0).unwrap();
        house.offset(by, "g", 9);
        house.writer.step();
        house.end("x", by, commits).unwrap();
        // The end never reached the disk, so no client got an answer.
        let mut house = house.power_cut();
        assert_eq!(house.ends(0), (0, 1));
        assert_eq!(house.committed("g"), None);
        assert!(house.broker.is_unstable(&"g".into(), &"t".into(), 0));
        assert_eq!(house.put("x", by, 0, 1), Ok(1), "its producer goes on");
        house.end("x", by, commits).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (3, 3));
        assert_eq!(house.committed("g"), commits.then_some(9));
        assert!(!house.broker.is_unstable(&"g".into(), &"t".into(), 0));
    }
}

#[test]
fn a_snapshot_of_producers_holds_their_transactions() {
    let mut house = House::new();
    let (by, other) = (house.begin("x"), house.begin("y"));
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.end("x", by, false).unwrap();
    house.join("y", other, 0);
    house.put("y", other, 0, 0).unwrap();
    house.writer.step();
    let before = house.read(0);
    house.keep();
    let mut house = house.power_cut();
    assert_eq!(house.read(0), before);
    assert_eq!(house.ends(0), (2, 3));
    house.end("y", other, true).unwrap();
    house.writer.step();
    assert_eq!(house.ends(0), (4, 4));
}

#[test]
fn a_new_producer_fences_the_old_and_aborts_its_transaction() {
    let mut house = House::new();
    let old = house.begin("x");
    house.join("x", old, 0);
    house.put("x", old, 0, 0).unwrap();
    let begun = house.broker.begin_producer("x", None, MINUTE_MS).unwrap();
    assert!(!begun.committed);
    assert_eq!(begun.producer, (old.0, old.1 + 1));
    house.writer.step();
    assert_eq!(house.read(0).1.len(), 1);
    let fenced = BrokerError::Transaction(TransactionError::Fenced).to_string();
    assert_eq!(house.put("x", old, 0, 1).unwrap_err(), fenced);
    assert_eq!(house.end("x", old, true).unwrap_err().to_string(), fenced);
    house.join("x", begun.producer, 0);
    assert_eq!(house.put("x", begun.producer, 0, 0), Ok(2), "its numbers begin anew");
}

#[test]
fn an_overdue_transaction_is_aborted_also_after_a_power_cut() {
    let mut house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.writer.step();
    let due = house.broker.transactions.next_due().unwrap();
    house.hand.advance(59_999);
    assert_eq!(house.broker.abort_overdue().unwrap(), None);
    let mut house = house.power_cut();
    assert_eq!(house.broker.transactions.next_due(), Some(due), "a restart gives no more time");
    house.hand.advance(1);
    assert_eq!(house.broker.abort_overdue().unwrap().unwrap().0, "x");
    house.writer.step();
    assert_eq!(house.read(0).1.len(), 1);
    assert_eq!(house.broker.transactions.next_due(), None);
    let fenced = BrokerError::Transaction(TransactionError::Fenced).to_string();
    assert_eq!(house.put("x", by, 0, 1).unwrap_err(), fenced);
    assert_eq!(house.end("x", by, true).unwrap_err().to_string(), fenced);
}

#[test]
fn a_producer_inside_a_transaction_writes_nothing_outside_it() {
    let house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    let topic = house.topic();
    let refused = house.broker.produce(&topic, topic.partition(0).unwrap(), &plain(by, 1));
    assert!(matches!(refused, Err(BrokerError::Transaction(TransactionError::InvalidState))));
}

#[test]
fn retention_passes_open_and_aborted_transactions() {
    let mut house = House::new();
    let (by, other) = (house.begin("x"), house.begin("y"));
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.end("x", by, false).unwrap();
    house.join("y", other, 0);
    house.put("y", other, 0, 0).unwrap();
    house.put("y", other, 0, 1).unwrap();
    house.writer.step();
    let topic = house.topic();
    house.broker.delete_records(topic.partition(0).unwrap(), 3).unwrap();
    assert_eq!(house.ends(0), (3, 4));
    house.end("y", other, false).unwrap();
    house.writer.step();
    assert_eq!(house.ends(0), (5, 5));
    let aborted = AbortedRange { producer_id: other.0, first: 2, last: 4 };
    assert_eq!(house.read(0), (vec![(3, false), (4, true)], vec![aborted]));
}

#[test]
fn a_readable_marker_closes_its_transaction_for_woken_readers() {
    let House { disk: _disk, mut writer, broker, .. } = House::new();
    let topic = broker.topics.find(&"t".into()).unwrap();
    let partition = topic.partition(0).unwrap();
    let by = broker.begin_producer("x", None, MINUTE_MS).unwrap().producer;
    let parts = vec![part(&topic, partition)];
    let joining = Joining { parts, ..Joining::default() };
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            for sequence in 0..3_000 {
                broker.join_transaction("x", by, joining.clone()).unwrap();
                let batch = batch(by, sequence);
                broker.produce_transactional("x", false, (&topic, partition), &batch).unwrap();
                broker.end_transaction("x", by, true, false).unwrap();
            }
        });
        while !rounds.is_finished() {
            writer.step();
            // Records and markers alternate: once a marker is readable, no transaction before it is
            // open.
            let visible = broker.bounds(partition).visible_end;
            let stable = broker.stable_end(partition);
            assert!(visible % 2 == 1 || visible <= stable, "{stable} of {visible}");
        }
    });
}

#[test]
fn a_marker_is_the_batch_a_client_expects() {
    let mut house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.end("x", by, false).unwrap();
    house.writer.step();
    let topic = house.topic();
    let read = house.broker.read(topic.partition(0).unwrap(), 1, ReadSize::any(1)).unwrap().records;
    let made = marker_batch(by.0, by.1, false, house.broker.clock.now().wall.0);
    assert_eq!(read[16..], made[16..]);
}
