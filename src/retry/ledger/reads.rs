//! What admin and lanes read without changing anything.

use crate::model::{EntryId, GroupId, MemberId, Now, Slot, WallMs};
use crate::retry::{Counts, Entries, Entry, Ledger, SlotRecord, SlotView, StateKind};

/// Entries read from the store at once while filtering.
const PAGE: usize = 256;

impl<S: Entries> Ledger<S> {
    /// Every group with an entry or a slot, in order.
    pub fn groups(&self) -> Vec<GroupId> {
        self.store.groups()
    }

    /// One entry.
    pub fn entry(&self, id: EntryId) -> Option<Entry> {
        self.store.get(id)
    }

    /// The group's entries with an id above `after`, by id, at most `limit`; of one state, or all.
    pub fn list(
        &self,
        group: &GroupId,
        kind: Option<StateKind>,
        after: Option<EntryId>,
        limit: usize,
    ) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut after = after;
        while found.len() < limit {
            let ids = self.store.page(group, after, PAGE);
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            let entries = ids.into_iter().filter_map(|id| self.store.get(id));
            let wanted = entries.filter(|entry| kind.is_none_or(|kind| entry.state.kind() == kind));
            found.extend(wanted.take(limit.saturating_sub(found.len())));
        }
        found
    }

    /// What waits in the group, oldest due first: the snapshot of its retry topic that readers
    /// without a slot see.
    pub fn snapshot(&self, group: &GroupId, limit: usize) -> Vec<Entry> {
        let ids = self.store.due(group, WallMs(i64::MAX), limit);
        ids.into_iter().filter_map(|id| self.store.get(id)).collect()
    }

    /// The group's entries by state, waiting ones by level.
    pub fn counts(&self, group: &GroupId) -> Counts {
        self.store.counts(group)
    }

    /// Entries that are due and have no live member to go to.
    pub fn parked(&self, group: &GroupId, now: Now) -> u64 {
        if self.has_member(group) { 0 } else { self.store.count_due(group, now.wall) }
    }

    /// A member of the group holds a slot.
    pub fn has_member(&self, group: &GroupId) -> bool {
        self.store.slots(group).iter().any(|record| record.member.is_some())
    }

    /// The group's slots, held or not.
    pub fn slots(&self, group: &GroupId) -> Vec<SlotRecord> {
        self.store.slots(group)
    }

    /// The slot a member holds, with its position and log end.
    pub fn member_slot(&self, group: &GroupId, member: &MemberId) -> Option<SlotView> {
        self.slot_of(group, member).map(|record| self.view(group, &record))
    }

    /// The slot of a member that asks where to go on.
    pub fn resume(&mut self, group: &GroupId, member: &MemberId) -> Option<SlotView> {
        let record = self.slot_of(group, member)?;
        self.late.gone(group, record.slot);
        Some(self.view(group, &record))
    }

    /// A slot's position and log end, held or not; `None` when it was never given.
    pub fn slot_view(&self, group: &GroupId, slot: Slot) -> Option<SlotView> {
        self.store.slot(group, slot).map(|record| self.view(group, &record))
    }
}
