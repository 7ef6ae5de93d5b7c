//! `commit` of a retry partition: acknowledges the slot's inflight entries below the offset, and
//! late ones.

use crate::model::{EntryId, GroupId, LaneOffset};
use crate::retry::{
    Entries, Evidence, INFLIGHT_MAX, Ledger, LedgerAnswer, PayloadChange, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_lane_commit(&mut self, group: &GroupId, up_to: LaneOffset) {
        let record = self.store.slot(group, up_to.slot);
        let Some(record) = record.filter(|record| up_to.sequence <= record.next_sequence) else {
            return self.answer(LedgerAnswer::CommitRefused);
        };
        let first = LaneOffset { slot: up_to.slot, sequence: 0 };
        let at = self.wall();
        let mut acknowledged = Vec::new();
        for id in self.store.inflight(group, first, INFLIGHT_MAX) {
            let Some(mut entry) = self.store.get(id) else { continue };
            if entry.inflight().is_none_or(|lane| lane >= up_to) {
                break;
            }
            entry.state = RetryState::Committed { at };
            entry.expires = self.memory_ends(&entry);
            acknowledged.push(id);
            self.record(entry, Evidence::LaneCommit, None, PayloadChange::Keeps);
        }
        for (lane, id) in self.late.below(group, up_to) {
            acknowledged.extend(self.done_late(lane, id));
        }
        let position = self.view(group, &record).position;
        // The commit may have made room below `INFLIGHT_MAX`.
        if !acknowledged.is_empty() {
            self.wake_if_due(group);
        }
        self.answer(LedgerAnswer::Committed { acknowledged, position });
    }

    /// Acknowledges an entry that had returned to the queue by timeout or silence. An entry that
    /// failed or was delivered since is not acknowledged.
    fn done_late(&mut self, lane: LaneOffset, id: EntryId) -> Option<EntryId> {
        let mut entry = self.store.get(id)?;
        let is_the_last = entry.lanes.last() == Some(&lane);
        if !is_the_last || !matches!(entry.state, RetryState::Waiting { .. }) {
            return None;
        }
        entry.state = RetryState::Committed { at: self.wall() };
        entry.expires = self.memory_ends(&entry);
        self.record(entry, Evidence::LaneCommit, None, PayloadChange::Keeps);
        Some(id)
    }
}
