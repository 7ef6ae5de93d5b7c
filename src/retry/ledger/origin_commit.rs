//! Committed offsets of real partitions. A commit past an origin starts the time after which a
//! final entry is forgotten. A commit back below an origin, or a new topic by the same name, ends
//! that memory at once.

use crate::model::{EntryId, GroupId, TopicName};
use crate::retry::{DELAYED, Entries, Evidence, Ledger, PayloadChange, StateKind};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_origin_commit(
        &mut self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) {
        if group.as_str() == DELAYED {
            return;
        }
        for id in self.store.not_passed_below(group, topic, partition, offset) {
            let Some(mut entry) = self.store.get(id) else { continue };
            entry.passed = Some(self.wall());
            if entry.is_settled() {
                entry.expires = self.memory_ends(&entry);
            }
            self.record(entry, Evidence::OriginCommit, None, PayloadChange::Keeps);
        }
        for id in self.store.passed_from(group, topic, partition, offset) {
            self.reset(id);
        }
    }

    /// A new topic may reuse these origins: pending retries are kept, and a failure at the same
    /// offset begins a new entry.
    pub(in crate::retry) fn on_topic_gone(&mut self, topic: &TopicName) {
        // A record that waits to enter a topic stores its journal stream, which no other topic
        // reuses.
        let groups = self.store.groups().into_iter().filter(|group| group.as_str() != DELAYED);
        for group in groups {
            for id in self.store.of_topic(&group, topic) {
                let Some(mut entry) = self.store.get(id) else { continue };
                let is_settled =
                    matches!(entry.state.kind(), StateKind::Committed | StateKind::Discarded);
                if is_settled {
                    self.forget(id, Evidence::Reset);
                    continue;
                }
                entry.superseded = true;
                // No commit will pass the old origin any more.
                entry.passed = Some(self.wall());
                self.record(entry, Evidence::Reset, None, PayloadChange::Keeps);
            }
        }
    }

    /// The original will be read again. A final entry is forgotten, a dead letter stays without its
    /// origin, a pending retry is kept.
    fn reset(&mut self, id: EntryId) {
        let Some(mut entry) = self.store.get(id) else { return };
        match entry.state.kind() {
            StateKind::Committed | StateKind::Discarded => {
                return self.forget(id, Evidence::Reset);
            }
            StateKind::Dead => entry.superseded = true,
            StateKind::Waiting | StateKind::Unread | StateKind::Blocked => entry.passed = None,
        }
        self.record(entry, Evidence::Reset, None, PayloadChange::Keeps);
    }

    /// Forgets a deleted dead letter. Its room in the quota may fit a withheld record.
    pub(in crate::retry) fn on_dead_letter_gone(&mut self, id: EntryId) {
        let entry = self.store.get(id).filter(|entry| entry.state.kind() == StateKind::Dead);
        let Some(entry) = entry else { return };
        self.forget(id, Evidence::DeadLetterGone);
        if self.store.counts(&entry.group).of(StateKind::Blocked) > 0 {
            self.room.hasten(&entry.group, self.wall());
        }
    }
}
