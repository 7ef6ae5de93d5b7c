//! Retention of local topics: what is older or more than its topic keeps goes, batch by batch.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::model::WallMs;

/// What one round of retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Partitions that lost batches.
    pub partitions: usize,
    /// Records they lost.
    pub records: u64,
}

impl Broker {
    /// One round over all topics. Dead letters are kept by the retry engine's rules instead.
    pub fn expire(&self) -> Result<Expired, BrokerError> {
        let now = self.clock.now().wall;
        let mut expired = Expired::default();
        for topic in self.topics.list() {
            if topic.dead_letters {
                continue;
            }
            let settings = &topic.settings;
            let oldest = settings.retention_ms.map(|keep| {
                WallMs(now.0.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX))).0
            });
            for partition in &topic.partitions {
                let to = self.journal.stream_expired(
                    partition.stream,
                    settings.retention_bytes,
                    oldest,
                )?;
                let before = self.bounds(partition).start;
                if to > before {
                    self.journal.stream_trim(partition.stream, to)?;
                    expired.partitions += 1;
                    expired.records += u64::try_from(to - before).unwrap_or(0);
                }
            }
        }
        Ok(expired)
    }
}
