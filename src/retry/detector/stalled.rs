//! Records that a live member has not committed for `consume_timeout`. They are counted; with
//! `on_consume_timeout: retry` each is a failure. A consumer that commits every 1 000 records looks
//! the same.

use crate::model::{Moment, TopicPartition};
use crate::retry::detector::{Detector, ExhaustedRecord, Window};
use crate::retry::{Disposition, Evidence, SignalRule};

impl Detector {
    /// Partitions whose first outstanding record is stalled. A group without a commit, or with its
    /// breaker open, has none.
    pub fn stalled(&self, now: Moment) -> u64 {
        u64::try_from(self.stalled_records(now).count()).unwrap_or(u64::MAX)
    }

    /// The stalled records that have failed. Their members read the retries of their topics, and no
    /// partition waits for a record.
    pub fn timed_out(&self, now: Moment) -> Vec<ExhaustedRecord> {
        if self.rules.on_consume_timeout == SignalRule::Observe || self.rules.in_order {
            return Vec::new();
        }
        let failed = self.stalled_records(now).filter_map(|(of, window, offset)| {
            let member = self.members.get(&window.holder.as_ref()?.member)?;
            if !self.rules.has_queue || !member.retries.takes(&of.topic) {
                return None;
            }
            Some(ExhaustedRecord {
                partition: of.clone(),
                offset,
                reconsume_times: 0,
                disposition: Disposition::TimedOut,
                evidence: Evidence::ConsumeTimeout,
                history: vec![(now.wall, Disposition::TimedOut)],
                is_retried: true,
                window: window.record_after(offset),
            })
        });
        failed.collect()
    }

    fn stalled_records(
        &self,
        now: Moment,
    ) -> impl Iterator<Item = (&TopicPartition, &Window, i64)> {
        let timeout_ms = self.rules.consume_timeout_ms;
        let is_paused = !self.breaker.is_closed();
        self.windows.iter().filter(move |_| !is_paused).filter_map(move |(of, window)| {
            window.holder.as_ref().filter(|_| window.committed.is_some())?;
            let awaited = window.awaited?;
            let is_stalled = now.mono.since(awaited.since) >= timeout_ms;
            is_stalled.then_some((of, window, awaited.offset))
        })
    }
}

impl Window {
    /// The current state of a record that has timed out; `None`: it has an outcome.
    pub(in crate::retry) fn present_timeout(
        &self,
        settling: &ExhaustedRecord,
    ) -> Option<ExhaustedRecord> {
        let offset = settling.offset;
        let is_awaited = self.awaited.is_some_and(|awaited| awaited.offset == offset);
        let window = self.record_after(offset);
        is_awaited.then(|| ExhaustedRecord { window, ..settling.clone() })
    }
}
