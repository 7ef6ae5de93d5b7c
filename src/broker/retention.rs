//! Retention of local topics, batch by batch: by arrival and by bytes; and `DeleteRecords`.
//!
//! The time inside a record is its producer's: a backfill would be gone before its reader comes.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::topic::{Partition, Topic};

const DAY_MS: u64 = 24 * 3_600_000;
/// `DeleteRecords`: everything there is.
const TO_THE_END: i64 = -1;

/// What one round of retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Partitions that lost batches.
    pub partitions: usize,
    /// Records they lost.
    pub records: u64,
}

/// When producers nobody hears of are forgotten, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// By the partitions they wrote to (Kafka: `producer.id.expiration.ms`).
    pub producer_id_ms: u64,
    /// By their transactional id (Kafka: `transactional.id.expiration.ms`).
    pub transactional_id_ms: u64,
}

impl Default for Expiration {
    fn default() -> Self {
        Self { producer_id_ms: DAY_MS, transactional_id_ms: 7 * DAY_MS }
    }
}

impl Broker {
    /// One round over all topics; an error of one partition is told when all others are done. Dead
    /// letters are kept by the retry engine's rules instead.
    pub fn expire(&self) -> Result<Expired, BrokerError> {
        let now = self.clock.now().wall;
        let mut expired = Expired::default();
        let mut topics = self.topics.list();
        topics.retain(|topic| !topic.dead_letters);
        let mut failed = self.mark_arrivals(&topics).err();
        for topic in topics {
            let settings = &topic.settings;
            let arrived = settings.retention_ms.and_then(|keep| {
                let keep = i64::try_from(keep).unwrap_or(i64::MAX);
                self.arrivals.arrived_by(now.0.saturating_sub(keep))
            });
            for partition in &topic.partitions {
                match self.expire_partition(partition, settings.retention_bytes, arrived) {
                    Ok(0) => {}
                    Ok(records) => {
                        expired.partitions += 1;
                        expired.records += records;
                    }
                    // One is in nobody else's way.
                    Err(error) if self.is_there(partition) => failed = failed.or(Some(error)),
                    // Its topic was deleted meanwhile.
                    Err(_) => {}
                }
            }
        }
        let transactions = self.expire_transactions();
        failed.map_or(Ok(()), Err).and(transactions)?;
        Ok(expired)
    }

    /// Writes down that all batches of these topics have arrived by now.
    fn mark_arrivals(&self, topics: &[Arc<Topic>]) -> Result<(), BrokerError> {
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let newest = |partition: &Partition| self.journal.stream_newest(partition.stream);
        // A partition that cannot be read, or was deleted meanwhile, loses nothing by age.
        let newest = partitions.filter_map(|partition| newest(partition).ok().flatten()).max();
        // Read behind the newest batch: a clock from before would make that older than it is.
        let now = self.clock.now().wall;
        newest.map_or(Ok(()), |newest| Ok(self.arrivals.mark(newest, now)?))
    }

    /// Returns how many records went. `arrived`: the newest entry that is older than the topic
    /// keeps.
    fn expire_partition(
        &self,
        partition: &Partition,
        bytes_max: Option<u64>,
        arrived: Option<u64>,
    ) -> Result<u64, BrokerError> {
        let to = self.journal.stream_expired(partition.stream, bytes_max, arrived)?;
        let before = self.bounds(partition).start;
        if to > before {
            self.journal.stream_trim(partition.stream, to)?;
        }
        Ok(u64::try_from(to - before).unwrap_or(0))
    }

    /// Moves the start of a partition to `offset`, or to its end for −1; never back. Returns the
    /// first offset kept, and the entry to wait for. Looks at every batch that goes.
    pub fn delete_records(
        &self,
        partition: &Partition,
        offset: i64,
    ) -> Result<(i64, u64), BrokerError> {
        let end = self.bounds(partition).visible_end;
        let to = if offset == TO_THE_END { end } else { offset };
        if !(0..=end).contains(&to) {
            return Err(BrokerError::OffsetOutOfRange);
        }
        let start = self.journal.stream_trim(partition.stream, to)?;
        Ok((start, self.journal.appended_seq()))
    }
}

#[cfg(test)]
mod tests;
