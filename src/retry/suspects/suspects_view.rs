//! The suspects of a group, for the detector and the admin API.

use std::collections::BTreeSet;

use crate::model::{Origin, TopicPartition, WallMs};
use crate::retry::suspects::{IsolatedStage, LossCause, SuspectSet, Suspects, is_in};

/// A record that becomes an entry: the last delivery that counts has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRecord {
    pub offset: i64,
    /// Failed deliveries that count.
    pub failures: u32,
    /// The times of the latest ones, latest last.
    pub failed_at: Vec<WallMs>,
    /// A live member fetched the record again; else its member ended.
    pub is_seek_back: bool,
}

impl Suspects {
    /// The first record at or above `from` that becomes an entry.
    pub fn ended(&self, partition: &TopicPartition, from: i64) -> Option<EndedRecord> {
        let of_partition = self.sets.iter().filter(|set| set.isolation.is_ended());
        let records = of_partition.filter_map(|set| set.record_in(partition));
        records.filter(|record| record.offset >= from).min_by_key(|record| record.offset)
    }

    /// Partitions with a record that becomes an entry.
    pub fn partitions_with_ended(&self) -> impl Iterator<Item = &TopicPartition> {
        let ended = self.sets.iter().filter(|set| set.isolation.is_ended());
        let partitions: BTreeSet<&TopicPartition> =
            ended.flat_map(|set| set.remaining.partitions()).collect();
        partitions.into_iter()
    }

    /// The withheld record of a partition: it is a dead letter before a commit passes it.
    pub fn withheld(&self, partition: &TopicPartition) -> Option<i64> {
        let withheld = self.sets.iter().filter(|set| set.binds_commits());
        let records = withheld.filter_map(|set| set.record_in(partition));
        records.map(|record| record.offset).min()
    }

    /// The withheld records below an offset become entries, because a commit is about to pass them.
    pub fn end_withheld(&mut self, partition: &TopicPartition, below: i64) {
        for set in self.sets.iter_mut().filter(|set| set.binds_commits()) {
            if set.record_in(partition).is_some_and(|record| record.offset < below) {
                // The entry may come late: until then no commit passes the record.
                set.isolation.is_skipped = true;
                set.isolation.stage = IsolatedStage::Ended;
            }
        }
    }

    /// An isolated record, with its failed deliveries that count.
    pub fn isolated_record(&self, partition: &TopicPartition, offset: i64) -> Option<EndedRecord> {
        let mut records = self.sets.iter().filter_map(|set| set.record_in(partition));
        records.find(|record| record.offset == offset)
    }

    /// The only suspect of its set in a partition, with its failed deliveries that count.
    pub fn isolated_in(&self, partition: &TopicPartition) -> Option<EndedRecord> {
        self.sets.iter().find_map(|set| set.record_in(partition))
    }

    /// Whether a record at or above `from` is tested, or becomes an entry.
    pub fn is_tested(&self, partition: &TopicPartition, from: i64) -> bool {
        let tested = self.sets.iter().filter(|set| set.is_tested);
        let mut ranges = tested.filter_map(|set| set.remaining.get(partition));
        ranges.any(|range| from < range.end)
    }

    /// Whether a Fetch at an offset gets records of a granted part, or the record behind a withheld
    /// one.
    pub fn is_under_test(&self, partition: &TopicPartition, offset: i64) -> bool {
        self.sets.iter().any(|set| {
            let is_granted = set.part.get(partition).is_some_and(|range| range.contains(&offset));
            let record = set.isolated().filter(|_| set.is_probe_out());
            let is_behind = |of: Origin| is_in(partition, &of) && of.offset == offset;
            is_granted || record.is_some_and(is_behind)
        })
    }
}

impl SuspectSet {
    fn record_in(&self, partition: &TopicPartition) -> Option<EndedRecord> {
        let record = self.isolated().filter(|record| is_in(partition, record))?;
        let (failures, failed_at) = (self.isolation.failures, self.isolation.failed_at.clone());
        let is_seek_back = self.isolation.cause == LossCause::SeekBack;
        Some(EndedRecord { offset: record.offset, failures, failed_at, is_seek_back })
    }
}
