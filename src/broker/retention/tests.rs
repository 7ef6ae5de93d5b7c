//! Retention by arrival time, on a manual clock.

use uuid::Uuid;

use super::*;
use crate::broker::settings::{TopicSettings, TopicSpec};
use crate::broker::topics::Topics;
use crate::clock::{Clock, Hand};
use crate::journal::{Journal, JournalOptions, MemDisk, Writer};
use crate::model::WallMs;
use crate::wire::batch::{Headers, RawRecord, TimestampType, batches, produce_batch};

const START: WallMs = WallMs(1_700_000_000_000);
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

struct House {
    disk: MemDisk,
    writer: Writer,
    broker: Broker,
    hand: Hand,
    clock: Clock,
}

impl House {
    fn on(disk: MemDisk, wall: WallMs) -> Self {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let (clock, hand) = Clock::told(wall);
        let max_message_bytes = 1 << 20;
        let defaults =
            TopicSettings { retention_ms: None, retention_bytes: None, max_message_bytes };
        let topics = Topics::new(journal.clone(), defaults, max_message_bytes);
        let broker = Broker::recovered(journal, &recovery, topics, clock);
        Self { disk, writer, broker, hand, clock }
    }

    /// Makes topic `t` with a retention of one hour.
    fn new() -> Self {
        let mut house = Self::on(MemDisk::new(7), START);
        let settings = vec![("retention.ms".to_owned(), HOUR_MS.to_string())];
        let spec = TopicSpec { name: "t".into(), partitions: 1, settings };
        house.broker.topics.create(&spec, Uuid::from_u128(1)).unwrap();
        house.writer.step();
        house
    }

    /// Restarts at the same time, with or without the journal's index.
    fn restarted(self, with_index: bool) -> Self {
        let wall = self.clock.now().wall;
        let Self { disk, writer, broker, .. } = self;
        if with_index {
            broker.journal.checkpoint().unwrap();
        }
        disk.process_crash();
        drop((writer, broker));
        if !with_index {
            disk.disk().remove("index.redb").unwrap();
        }
        Self::on(disk, wall)
    }

    fn put(&mut self, timestamp_ms: i64) {
        let record = RawRecord {
            timestamp_ms,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some("x".into()),
            headers: Headers::default(),
        };
        let bytes = produce_batch(&[record], None).unwrap();
        let batch = batches(bytes, 1 << 20).next().unwrap().unwrap();
        let topic = self.broker.topics.find(&"t".into()).unwrap();
        self.broker.produce(&topic, topic.partition(0).unwrap(), &batch).unwrap();
        self.writer.step();
    }

    fn pass(&mut self, ms: u64) {
        self.hand.advance(ms);
    }

    /// Runs one retention pass; returns the number of deleted records.
    fn look(&mut self) -> u64 {
        let expired = self.broker.expire().unwrap();
        self.writer.step();
        expired.records
    }
}

#[test]
fn an_old_record_is_kept_for_the_retention_after_arrival() {
    let mut house = House::new();
    let days = 30 * 24 * i64::try_from(HOUR_MS).unwrap();
    house.put(START.0 - days);
    house.put(START.0);
    assert_eq!(house.look(), 0);
    for _ in 0..59 {
        house.pass(MINUTE_MS);
        house.put(5);
        assert_eq!(house.look(), 0, "{:?}", house.clock.now().wall);
    }
    house.pass(MINUTE_MS - 1);
    assert_eq!(house.look(), 0);
    house.pass(1);
    assert_eq!(house.look(), 2, "an hour after both");
    house.pass(MINUTE_MS);
    assert_eq!(house.look(), 1, "each by its own arrival");
}

#[test]
fn a_restart_does_not_change_the_age_of_a_record() {
    for with_index in [true, false] {
        let mut house = House::new();
        house.put(5);
        assert_eq!(house.look(), 0);
        house.pass(HOUR_MS - 1);
        let mut house = house.restarted(with_index);
        assert_eq!(house.look(), 0, "with the index: {with_index}");
        house.pass(1);
        assert_eq!(house.look(), 1, "with the index: {with_index}");
    }
}

#[test]
fn records_without_marks_count_from_the_first_look() {
    let mut house = House::new();
    house.put(5);
    house.pass(9 * HOUR_MS);
    let mut house = house.restarted(true);
    assert_eq!(house.look(), 0);
    house.pass(HOUR_MS - 1);
    assert_eq!(house.look(), 0);
    house.pass(1);
    assert_eq!(house.look(), 1);
}

#[test]
fn a_look_writes_nothing_while_nothing_arrives() {
    let mut house = House::new();
    house.put(5);
    assert_eq!(house.look(), 0);
    let before = house.broker.journal.appended_seq();
    for _ in 0..10 {
        house.pass(MINUTE_MS);
        assert_eq!(house.look(), 0);
    }
    let mut house = house.restarted(true);
    assert_eq!(house.look(), 0);
    assert_eq!(house.broker.journal.appended_seq(), before);
}
