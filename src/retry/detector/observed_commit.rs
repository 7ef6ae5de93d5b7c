//! Commits (evidence `commit` and `lost-delivery`): their effect on the windows of a group.

use crate::model::{Moment, MonoMs, TopicPartition};
use crate::retry::detector::Detector;

impl Detector {
    /// A commit acknowledges all records below it and ends suspicions of them.
    pub(in crate::retry) fn on_committed(&mut self, now: Moment, of: &TopicPartition, offset: i64) {
        let window = self.windows.entry(of.clone()).or_default();
        let began = window.holder.as_ref().map(|_| window.from);
        let before = window.committed.replace(offset);
        let passes_records = before.or(began).is_some_and(|before| offset > before);
        window.furthest = window.furthest.max(offset);
        if offset > window.end {
            // The record that the holder went back to is done.
            window.waits_until = MonoMs::default();
        }
        // A commit does not end an explicit failure.
        window.suspects.retain(|suspect, known| *suspect >= offset || known.is_awaited);
        window.skipped.retain(|skipped| *skipped >= offset);
        window.nacked.retain(|nacked| *nacked >= offset);
        window.hidden.forget_below(offset);
        window.seek_backs.forget_below(offset);
        window.done.clear();
        window.given_up.take_if(|given_up| given_up.start < offset);
        window.reached = window.reached.max(offset);
        window.wait_on(now.mono);
        // A pending Fetch may wait until nothing else is outstanding.
        if self.troubled.is_empty() {
            self.keep(of);
        } else {
            self.changed(of);
        }
        self.acquit(now, of, offset, passes_records);
    }

    /// A client that is no member set the group's offset: lost deliveries of the past concerned
    /// other records.
    pub(in crate::retry) fn on_reset(&mut self, now: Moment, of: &TopicPartition) {
        let Some(window) = self.windows.get_mut(of) else { return };
        window.passed_over = 0..0;
        self.drop_suspects(now, of, i64::MIN..i64::MAX);
    }
}
