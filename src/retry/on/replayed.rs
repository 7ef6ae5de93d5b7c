//! A group was reset, and is given again what it had passed: the original wins over a retry of it
//! that waits. Where the record's key is kept in order the retry wins: the original is cut from
//! what is handed out, and the line of its key stays as it is.
//!
//! A commit that goes back says by itself nothing of the kind: workers of one consumer commit
//! backwards all day. So it takes a reset by nobody's member, and then the hand-out: until then a
//! retry may be all there is of its record.

use std::ops::Range;

use crate::model::{GroupId, Now, TopicName, TopicPartition};
use crate::retry::watch::{Handed, Output, Watch, Window};
use crate::retry::{Entries, Evidence, Machine, PayloadChange, State, StateKind};

impl<S: Entries> Machine<S> {
    /// Originals at these offsets were handed out after a reset below them. What has left already
    /// ends by what its member says; what is at its end stays so.
    pub(in crate::retry) fn on_replayed(
        &mut self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offsets: &Range<i64>,
    ) {
        if !self.policy(group).supersedes {
            return;
        }
        let at = self.wall();
        for id in self.store.not_passed_below(group, topic, partition, offsets.end) {
            let Some(mut entry) = self.store.get(id) else { continue };
            let is_of_it = entry.origin.as_ref().is_some_and(|o| offsets.contains(&o.offset));
            let is_in_line = entry.key.is_some();
            if !is_of_it || is_in_line || entry.state.kind() != StateKind::Waiting {
                continue;
            }
            entry.state = State::Discarded { at };
            entry.superseded = true;
            entry.passed = Some(at);
            entry.expires = self.memory_ends(&entry);
            self.record(entry, Evidence::Reset, None, PayloadChange::Keeps);
        }
    }
}

impl Watch {
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
