//! Read access for the admin API and the retry topic.

use crate::model::{EntryId, GroupId, MemberId, RetryPartition, WallMs};
use crate::retry::{Entries, Entry, EntryCounts, Ledger, SlotRecord, SlotView};

impl<S: Entries> Ledger<S> {
    /// Every group with an entry or a slot, in order.
    pub fn groups(&self) -> Vec<GroupId> {
        self.store.groups()
    }

    pub fn entry(&self, id: EntryId) -> Option<Entry> {
        self.store.get(id)
    }

    /// Waiting entries of the group, earliest due time first: the retry topic as seen by a reader
    /// without a slot.
    pub fn snapshot(&self, group: &GroupId, limit: usize) -> Vec<Entry> {
        let ids = self.store.due(group, WallMs(i64::MAX), limit);
        ids.into_iter().filter_map(|id| self.store.get(id)).collect()
    }

    /// The group's entries by state, waiting ones also by level.
    pub fn counts(&self, group: &GroupId) -> EntryCounts {
        self.store.counts(group)
    }

    /// The group's slots, assigned or free.
    pub fn slots(&self, group: &GroupId) -> Vec<SlotRecord> {
        self.store.slots(group)
    }

    /// The slot of a member, with its position and log end offset.
    pub fn member_slot(&self, group: &GroupId, member: &MemberId) -> Option<SlotView> {
        self.slot_of(group, member).map(|record| self.view(group, &record))
    }

    /// The slot of a member that requests its position (`OffsetFetch`), so that its late deliveries
    /// end.
    pub fn resume(&mut self, group: &GroupId, member: &MemberId) -> Option<SlotView> {
        let record = self.slot_of(group, member)?;
        self.late.gone(group, record.slot);
        Some(self.view(group, &record))
    }

    /// Position and log end offset of a slot, assigned or free; `None` if it never existed.
    pub fn slot_view(&self, group: &GroupId, slot: RetryPartition) -> Option<SlotView> {
        self.store.slot(group, slot).map(|record| self.view(group, &record))
    }
}
