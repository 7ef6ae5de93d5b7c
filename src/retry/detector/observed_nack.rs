//! Nacks (`commit-nack`, `produced-nack`): a nacked record is no suspect any more; its entry keeps
//! the count. A record that waits behind another one of its key is no suspect either.

use std::ops::Range;

use crate::model::{Moment, TopicPartition};
use crate::retry::FailureHistory;
use crate::retry::detector::{Detector, DetectorOutput};

/// Nacked records of a window that are remembered; the lowest go first.
pub const NACKED_MAX: usize = 4_096;

impl Detector {
    /// Failures that the detector has counted against a record so far: those that were reported
    /// while its partition waits for it, and lost deliveries of it alone.
    pub fn charged(&self, of: &TopicPartition, offset: i64) -> FailureHistory {
        let mut charged = FailureHistory { spared: self.is_paused(), ..FailureHistory::default() };
        let suspect = self.windows.get(of).and_then(|window| window.suspects.get(&offset));
        if let Some(suspect) = suspect {
            charged.reconsume_times = suspect.reconsume_times;
            charged.history.clone_from(&suspect.history);
        }
        if let Some(record) = self.suspects.isolated_record(of, offset) {
            let (disposition, _) = record.cause();
            charged.reconsume_times = charged.reconsume_times.saturating_add(record.failures);
            charged.history.extend(record.failed_at.into_iter().map(|at| (at, disposition)));
            charged.history.sort_by_key(|(at, _)| *at);
        }
        charged
    }

    /// Offsets of a partition that were delivered to its member and not committed.
    pub fn in_hand(&self, of: &TopicPartition) -> Range<i64> {
        self.windows.get(of).map_or(0..0, |window| window.first_open()..window.end)
    }

    /// Records with entries from before the start that no commit has passed: the detector never
    /// counts failures against them.
    pub fn known(&mut self, of: &TopicPartition, offsets: impl IntoIterator<Item = i64>) {
        let window = self.windows.entry(of.clone()).or_default();
        window.nacked.extend(offsets);
        while window.nacked.len() > NACKED_MAX {
            window.nacked.pop_first();
        }
        for offset in &window.nacked {
            window.suspects.remove(offset);
        }
    }

    /// Deliveries of the retry topic that were nacked: they are skipped until a commit passes them.
    /// The ledger remembers them, so nothing is journalled at once.
    pub fn settled_before(&mut self, of: &TopicPartition, offsets: impl IntoIterator<Item = i64>) {
        let window = self.windows.entry(of.clone()).or_default();
        let committed = window.committed.unwrap_or(0);
        let open = offsets.into_iter().filter(|offset| committed <= *offset);
        window.skipped.extend(open);
        while window.skipped.len() > NACKED_MAX {
            window.skipped.pop_first();
        }
        if window.is_troubled() {
            self.troubled.insert(of.clone());
        }
        self.push(DetectorOutput::Wake);
    }

    /// A record has a durable entry now: the detector never counts failures against it.
    pub(in crate::retry) fn on_nacked(&mut self, now: Moment, of: &TopicPartition, offset: i64) {
        let Some(window) = self.windows.get_mut(of) else { return };
        if window.committed.is_some_and(|committed| offset < committed) {
            self.count_belied(now);
            let Some(window) = self.windows.get_mut(of) else { return };
            if window.suspects.remove(&offset).is_some() {
                self.changed(of);
            }
            return;
        }
        let failed = if self.rules.in_order && !window.is_beyond(offset) {
            // A member that comes back goes on behind the record.
            &mut window.skipped
        } else {
            &mut window.nacked
        };
        if failed.insert(offset) {
            window.failed = window.failed.saturating_add(1);
        }
        if window.nacked.len() > NACKED_MAX {
            window.nacked.pop_first();
        }
        window.suspects.remove(&offset);
        window.wait_on(now.mono);
        self.drop_suspects(now, of, offset..offset.saturating_add(1));
        self.changed(of);
    }
}
