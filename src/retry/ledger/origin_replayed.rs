//! Originals delivered again after a reset: the original wins, and a waiting retry of it is
//! discarded.
//!
//! A backward commit alone discards nothing: threads of one consumer may commit out of order. The
//! reset must come from outside of the group's members, and the original must be delivered. Until
//! then a retry may be the only copy of its record.

use std::ops::Range;

use crate::model::{GroupId, TopicName};
use crate::retry::{Entries, Evidence, Ledger, PayloadChange, RetryState, StateKind};

impl<S: Entries> Ledger<S> {
    /// Originals at these offsets were delivered after a reset below them. Inflight and final
    /// entries stay as they are.
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
            if !is_of_it || entry.state.kind() != StateKind::Waiting {
                continue;
            }
            entry.state = RetryState::Discarded { at };
            entry.superseded = true;
            entry.passed = Some(at);
            entry.expires = self.memory_ends(&entry);
            self.record(entry, Evidence::Reset, None, PayloadChange::Keeps);
        }
    }
}
