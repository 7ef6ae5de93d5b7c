//! A group was reset, and is given again what it had passed: the original wins over a retry of it
//! that waits. Where the record's key is kept in order the retry wins: the original is cut from
//! what is handed out, and the line of its key stays as it is.
//!
//! A commit that goes back says by itself nothing of the kind: workers of one consumer commit
//! backwards all day. So it takes a reset by nobody's member, and then the hand-out: until then a
//! retry may be all there is of its record.

use std::ops::Range;

use crate::model::{GroupId, TopicName};
use crate::retry::{Entries, Evidence, Ledger, PayloadChange, State, StateKind};

impl<S: Entries> Ledger<S> {
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
