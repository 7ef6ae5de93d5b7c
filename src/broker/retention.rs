//! Retention of local topics, batch by batch: by arrival and by bytes; and `DeleteRecords`.
//!
//! Retention uses the arrival time, because a producer may set any timestamp. A backfill of old
//! records would otherwise be deleted before a consumer reads it.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::topic::{Partition, Topic};

/// The `DeleteRecords` offset for all records.
const TO_THE_END: i64 = -1;

/// The result of one retention pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionResult {
    /// Partitions that lost batches.
    pub partitions: usize,
    /// Records that these partitions lost.
    pub records: u64,
}

impl Broker {
    /// Runs one retention pass over all topics. An error of one partition is returned after all
    /// others are done. Dead-letter topics are skipped: the retry engine has its own rules for
    /// them.
    pub fn expire(&self) -> Result<RetentionResult, BrokerError> {
        let now = self.clock.now().wall;
        let mut expired = RetentionResult::default();
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
                    // A fault of one partition does not stop retention of the others.
                    Err(error) if self.is_there(partition) => failed = failed.or(Some(error)),
                    Err(_) => {}
                }
            }
        }
        let transactions = self.expire_transactions();
        failed.map_or(Ok(()), Err).and(transactions)?;
        Ok(expired)
    }

    /// Records that all batches of these topics have arrived by now.
    fn mark_arrivals(&self, topics: &[Arc<Topic>]) -> Result<(), BrokerError> {
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let newest = |partition: &Partition| self.journal.stream_newest(partition.stream);
        // A partition that cannot be read, or was deleted meanwhile, has no newest entry.
        let newest = partitions.filter_map(|partition| newest(partition).ok().flatten()).max();
        // The clock is read after the newest batch. An earlier reading would make the batch look
        // older.
        let now = self.clock.now().wall;
        newest.map_or(Ok(()), |newest| Ok(self.arrivals.mark(newest, now)?))
    }

    /// Returns the number of deleted records. `arrived` is the newest entry older than the topic's
    /// retention time.
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

    /// Moves the log start of a partition up to `offset`, or to its end for −1; never down. Returns
    /// the new log start and the entry to wait for. Reads every batch that is deleted.
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
