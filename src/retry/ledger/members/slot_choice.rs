//! Slot of a member: the one it has, else the lowest free one, else a new one.

use crate::model::{GroupId, LANE_SEQUENCE_MAX, MemberId, RetryPartition};
use crate::retry::{Entries, Ledger, LedgerAnswer, SlotRecord};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_join(&mut self, group: &GroupId, member: MemberId) {
        if let Some(record) = self.slot_of(group, &member) {
            let view = self.view(group, &record);
            return self.answer(LedgerAnswer::Slot(view));
        }
        let Some(mut record) = self.free_slot(group) else {
            return self.answer(LedgerAnswer::NoSlot);
        };
        record.member = Some(member);
        let view = self.view(group, &record);
        self.record_slot(group, record);
        self.answer(LedgerAnswer::Slot(view));
    }

    fn free_slot(&self, group: &GroupId) -> Option<SlotRecord> {
        let slots = self.store.slots(group);
        let usable = |record: &&SlotRecord| {
            record.member.is_none() && record.next_sequence <= LANE_SEQUENCE_MAX
        };
        if let Some(record) = slots.iter().find(usable) {
            return Some(record.clone());
        }
        let slot = match slots.last() {
            Some(last) => RetryPartition(last.slot.0.checked_add(1)?),
            None => RetryPartition(0),
        };
        Some(SlotRecord { slot, member: None, next_sequence: 0 })
    }
}
