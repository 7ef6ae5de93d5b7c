//! Records that a live member has not committed for `consume_timeout`. They are counted and nothing
//! more: a consumer that commits every 1 000 records looks the same.

use crate::model::Moment;
use crate::retry::detector::{Detector, Window};

impl Detector {
    /// Partitions whose first outstanding record is stalled. A group without a commit, or with its
    /// breaker open, has none.
    pub fn stalled(&self, now: Moment) -> u64 {
        if !self.breaker.is_closed() {
            return 0;
        }
        let timeout_ms = self.rules.consume_timeout_ms;
        let is_stalled = |window: &&Window| {
            let awaited = window.awaited.filter(|_| window.committed.is_some());
            window.holder.is_some()
                && awaited.is_some_and(|awaited| now.mono.since(awaited.since) >= timeout_ms)
        };
        let stalled = self.windows.values().filter(is_stalled).count();
        u64::try_from(stalled).unwrap_or(u64::MAX)
    }
}
