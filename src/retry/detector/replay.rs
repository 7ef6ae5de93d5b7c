//! Offset resets by a client that is no member: the group's records are delivered again.

use crate::model::{Moment, TopicPartition};
use crate::retry::detector::{DeliveredRange, Detector, DetectorOutput, Window};

impl Detector {
    /// A client that is no member set the group's offset. The records between the two offsets are
    /// delivered again, and lost deliveries of the past concerned other records.
    pub(in crate::retry) fn on_reset(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        (offset, before): (i64, Option<i64>),
    ) {
        let Some(window) = self.windows.get_mut(of) else { return };
        window.replay = before.filter(|before| offset < *before).map(|before| offset..before);
        window.passed_over = 0..0;
        self.drop_suspects(now, of, i64::MIN..i64::MAX);
    }

    /// Whether the detector knows more than a new one would: records to deliver again after a
    /// reset, or entries that no commit has passed.
    pub fn is_needed(&self) -> bool {
        let is_needed = |window: &Window| window.replay.is_some() || !window.nacked.is_empty();
        self.windows.values().any(is_needed)
    }

    /// Reports delivered records that a reset brought back.
    pub(in crate::retry) fn on_replay_handed(&mut self, left: &DeliveredRange) {
        let Some(window) = self.windows.get_mut(&left.partition) else { return };
        let Some(replay) = window.replay.clone() else { return };
        let offsets = replay.start.max(left.from)..replay.end.min(left.end);
        if offsets.is_empty() {
            return;
        }
        // Each record is reported once: a failure from now on comes after the reset.
        window.replay = Some(offsets.end..replay.end).filter(|rest| !rest.is_empty());
        let partition = left.partition.clone();
        self.push(DetectorOutput::Replayed { partition, offsets });
    }
}
