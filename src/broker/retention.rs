//! What leaves local topics: what is older or more than its topic keeps, batch by batch, and what
//! somebody deletes.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::topic::Partition;
use crate::model::WallMs;

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
        let mut failed = None;
        for topic in self.topics.list() {
            if topic.dead_letters {
                continue;
            }
            let settings = &topic.settings;
            let oldest = settings.retention_ms.map(|keep| {
                WallMs(now.0.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX))).0
            });
            for partition in &topic.partitions {
                match self.expire_partition(partition, settings.retention_bytes, oldest) {
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

    /// How many records went.
    fn expire_partition(
        &self,
        partition: &Partition,
        bytes_max: Option<u64>,
        oldest: Option<i64>,
    ) -> Result<u64, BrokerError> {
        let to = self.journal.stream_expired(partition.stream, bytes_max, oldest)?;
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
