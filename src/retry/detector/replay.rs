//! A reset of the group's offset by a client that is no member: its records are delivered again.

use crate::model::{Now, TopicPartition};
use crate::retry::detector::{Detector, Handed, Output, Window};

impl Detector {
    /// The group's offset was set by nobody's member: what lies between is read once more, and who
    /// was lost before was lost with something else in hand.
    pub(in crate::retry) fn on_reset(
        &mut self,
        now: Now,
        of: &TopicPartition,
        (offset, before): (i64, Option<i64>),
    ) {
        let Some(window) = self.windows.get_mut(of) else { return };
        window.replay = before.filter(|before| offset < *before).map(|before| offset..before);
        window.passed_over = 0..0;
        self.drop_suspects(now, of, i64::MIN..i64::MAX);
    }

    /// Whether it knows more than a new one would: of records that are still to be read once more,
    /// or that have entries and no commit has passed.
    pub fn is_needed(&self) -> bool {
        let is_needed = |window: &Window| window.replay.is_some() || !window.nacked.is_empty();
        self.windows.values().any(is_needed)
    }

    /// Records leave: perhaps not for the first time.
    pub(in crate::retry) fn on_replay_handed(&mut self, left: &Handed) {
        let Some(window) = self.windows.get_mut(&left.partition) else { return };
        let Some(replay) = window.replay.clone() else { return };
        let offsets = replay.start.max(left.from)..replay.end.min(left.end);
        if offsets.is_empty() {
            return;
        }
        // Each once: what fails of it from now on has failed since.
        window.replay = Some(offsets.end..replay.end).filter(|rest| !rest.is_empty());
        let partition = left.partition.clone();
        self.push(Output::Replayed { partition, offsets });
    }
}
