//! Partitions on a full disk, and partitions that are deleted during a pass.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::broker::settings::{TopicSettings, TopicSpec};
use crate::broker::topics::Topics;
use crate::clock::Clock;
use crate::journal::{AppendError, Journal, JournalOptions, MemDisk, Writer};
use crate::model::WallMs;
use crate::wire::batch::{
    Headers, ProducerStamp, RawRecord, TimestampType, batches, produce_batch,
};

const SEGMENT_BYTES: u32 = 8 << 20;
const VALUE_BYTES: usize = 900 << 10;
/// The `DeleteRecords` offset for all records.
const TO_THE_END: i64 = -1;

struct House {
    disk: MemDisk,
    writer: Writer,
    broker: Broker,
    next: i32,
}

impl House {
    fn on(disk: MemDisk, next: i32) -> Self {
        let config = JournalOptions { segment_bytes: SEGMENT_BYTES, ..JournalOptions::default() };
        let (journal, writer, recovery) = Journal::open(disk.disk(), config).unwrap();
        let (clock, _) = Clock::told(WallMs(1_000));
        let max_message_bytes = 1 << 20;
        let defaults =
            TopicSettings { retention_ms: None, retention_bytes: None, max_message_bytes };
        let topics = Topics::new(journal.clone(), defaults, max_message_bytes);
        let broker = Broker::recovered(journal, &recovery, topics, clock);
        Self { disk, writer, broker, next }
    }

    /// Makes topic `t` with two partitions.
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut house = Self::on(MemDisk::new(7), 0);
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let spec = TopicSpec { name: "t".into(), partitions: 2, settings: settings.collect() };
        house.broker.topics.create(&spec, Uuid::from_u128(1)).unwrap();
        house.writer.step();
        house
    }

    fn restarted(self) -> Self {
        let Self { disk, writer, broker, next } = self;
        disk.process_crash();
        drop((writer, broker));
        Self::on(disk, next)
    }

    fn topic(&self) -> Arc<Topic> {
        self.broker.topics.find(&"t".into()).unwrap()
    }

    fn put(&mut self) -> Result<(), BrokerError> {
        self.put_in(0)
    }

    fn put_in(&mut self, index: i32) -> Result<(), BrokerError> {
        let record = RawRecord {
            timestamp_ms: 5,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(vec![b'x'; VALUE_BYTES].into()),
            headers: Headers::default(),
        };
        let stamp = ProducerStamp { id: 7, epoch: 0, sequence: self.next };
        let bytes = produce_batch(&[record], Some(stamp)).unwrap();
        let batch = batches(bytes, 1 << 20).next().unwrap().unwrap();
        let topic = self.topic();
        self.broker.produce(&topic, topic.partition(index).unwrap(), &batch)?;
        self.next += 1;
        self.writer.step();
        Ok(())
    }

    fn keep(&mut self) -> Result<(), BrokerError> {
        let (broker, writer) = (&self.broker, &mut self.writer);
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| broker.keep_producers());
            while !kept.is_finished() {
                writer.step();
            }
            kept.join().unwrap()
        })
    }

    /// One small record.
    fn small() -> Batch {
        let record = RawRecord {
            timestamp_ms: 5,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(Bytes::from_static(b"x")),
            headers: Headers::default(),
        };
        batches(produce_batch(&[record], None).unwrap(), 1 << 20).next().unwrap().unwrap()
    }

    /// Runs the housekeeper until nothing is left to do.
    fn tidy(&mut self) {
        let mut housekeeper = self.broker.journal.housekeeper();
        for _ in 0..100 {
            housekeeper.step().unwrap();
            self.writer.step();
        }
    }
}

#[test]
fn deletion_frees_a_full_disk_also_over_a_restart() {
    let mut house = House::new(&[]);
    house.put().unwrap();
    // From now on only the producers' state keeps the log on the disk.
    house.keep().unwrap();
    let room = u64::from(SEGMENT_BYTES) * 5;
    house.disk.set_capacity(Some(house.disk.used_bytes() + room));
    for restarts in [false, true] {
        let full = std::iter::repeat_with(|| house.put()).find_map(Result::err).unwrap();
        assert!(matches!(full, BrokerError::Append(AppendError::DiskFull { .. })), "{full}");
        // The smallest record does not fit either.
        house.disk.set_capacity(Some(house.disk.used_bytes() + u64::from(SEGMENT_BYTES)));
        house.broker.journal.housekeeper().step().unwrap();
        let topic = house.topic();
        house.broker.delete_records(topic.partition(0).unwrap(), TO_THE_END).unwrap();
        house.writer.step();
        if restarts {
            house = house.restarted();
        }
        house.keep().unwrap();
        house.tidy();
        house.put().unwrap();
    }
}

#[test]
fn a_partition_deleted_meanwhile_does_not_stop_retention_of_others() {
    let mut house = House::new(&[("retention.bytes", "0")]);
    for index in [0, 1] {
        house.put_in(index).unwrap();
    }
    let topic = house.topic();
    house.broker.journal.stream_drop(topic.partition(0).unwrap().stream).unwrap();
    let expired = house.broker.expire().unwrap();
    assert_eq!((expired.partitions, expired.records), (1, 1));
}

#[test]
fn a_topic_with_a_written_end_is_gone_despite_failures() {
    let house = House::new(&[]);
    let journal = house.broker.journal.clone();
    let deleted = house.broker.topics.delete(&"t".into(), |end| {
        let seq = journal.append_reserved(vec![end])?.seq();
        journal.close();
        Ok(seq)
    });
    deleted.unwrap_err();
    assert!(house.broker.topics.find(&"t".into()).is_none());
}

#[test]
fn no_batch_is_read_past_the_reported_visible_end() {
    let House { disk: _disk, mut writer, broker, .. } = House::new(&[]);
    let topic = broker.topics.find(&"t".into()).unwrap();
    let partition = topic.partition(0).unwrap();
    let batch = House::small();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            for _ in 0..40_000 {
                let from = (broker.bounds(partition).visible_end - 1).max(0);
                let LogRead { records, bounds } =
                    broker.read(partition, from, ReadSize::any(1 << 20)).unwrap();
                let given = batches(records, usize::MAX).last().transpose().unwrap();
                let last = given.map_or(from, |batch| batch.header.base_offset);
                let told = bounds.start..=bounds.visible_end.max(1) - 1;
                assert!(told.contains(&last), "{last} of {told:?}");
            }
        });
        while !reads.is_finished() {
            broker.produce(&topic, partition, &batch).unwrap();
            writer.step();
        }
    });
}
