//! `lost-delivery` of retries: a member left, and its outstanding retries are lost, not failed.

use crate::model::{EntryId, GroupId, LaneOffset, MemberId};
use crate::retry::{
    Disposition, Entries, Entry, Evidence, FailureOutcome, Ledger, PayloadChange, RequestedDelay,
    RetryState, SlotRecord,
};

/// Back-off after an entry's first lost delivery; doubles with each further one.
const LOST_BACK_OFF_MS: u64 = 1_000;
const LOST_BACK_OFF_MS_MAX: u64 = 30_000;

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_member_lost(&mut self, group: &GroupId, member: &MemberId) {
        let Some(record) = self.slot_of(group, member) else { return };
        self.all_lost(group, &record);
        self.late.gone(group, record.slot);
        self.record_slot(group, SlotRecord { member: None, ..record });
    }

    /// The member may return at the same offsets, so it keeps the slot.
    pub(in crate::retry) fn on_member_silent(&mut self, group: &GroupId, member: &MemberId) {
        let Some(record) = self.slot_of(group, member) else { return };
        for (lane, id) in self.all_lost(group, &record) {
            self.late.went_back(group, lane, id);
        }
    }

    fn all_lost(&mut self, group: &GroupId, record: &SlotRecord) -> Vec<(LaneOffset, EntryId)> {
        let first = LaneOffset { slot: record.slot, sequence: 0 };
        let mut lost = Vec::new();
        for id in self.store.inflight(group, first, usize::MAX) {
            lost.extend(self.store.get(id).and_then(|entry| Some((entry.inflight()?, id))));
            self.hand_out_lost(id, Evidence::MemberLost);
        }
        lost
    }

    /// Returns an entry to the queue after a back-off, without a charge. A second lost isolated
    /// delivery in a row is charged.
    pub(in crate::retry) fn hand_out_lost(&mut self, id: EntryId, evidence: Evidence) {
        let Some(mut entry) = self.store.get(id) else { return };
        if !entry.is_lost_alone(self.policy(&entry.group), evidence) {
            entry.clear();
        } else if entry.is_suspect() {
            return self.charge_loss(entry, evidence);
        } else {
            entry.suspect();
        }
        let delay_ms = back_off_ms(entry.losses);
        let due = self.wall().plus(delay_ms);
        entry.losses = entry.losses.saturating_add(1);
        entry.state = RetryState::Waiting { due, delay_ms, level: None };
        entry.expires = None;
        self.record(entry, evidence, None, PayloadChange::Keeps);
    }

    /// Charges a lost isolated delivery, and the one before unless it is charged already. The entry
    /// stays isolated.
    fn charge_loss(&mut self, mut entry: Entry, evidence: Evidence) {
        let bytes = self.store.record_bytes(entry.id);
        let times = if entry.has_crashed() { 1 } else { 2 };
        let losses = entry.losses.saturating_add(1);
        for _ in 0..times {
            if matches!(entry.state, RetryState::Alone { .. } | RetryState::Waiting { .. }) {
                entry = self.fail_by_loss(entry, bytes);
            }
        }
        entry.losses = losses;
        self.note_end(&entry, bytes);
        self.record(entry, evidence, None, PayloadChange::Keeps);
    }

    /// Charges one failure: the entry waits at its level, or ends.
    fn fail_by_loss(&self, mut entry: Entry, record_bytes: u64) -> Entry {
        let ladder = self.ladder(&entry);
        let before = entry.reconsume_times;
        match ladder.delays.levels.next(RequestedDelay::default(), before) {
            FailureOutcome::After { .. } if ladder.is_over(entry.first_failed, self.wall()) => {
                self.end(entry, Disposition::Expired, true, record_bytes)
            }
            FailureOutcome::After { delay_ms, level } if before < entry.max_reconsume_times => {
                entry.failed(self.wall(), Disposition::Crashed);
                self.wait(entry, delay_ms, level)
            }
            FailureOutcome::After { .. } | FailureOutcome::Never => {
                self.end(entry, Disposition::Crashed, true, record_bytes)
            }
        }
    }
}

/// 1 s, 2 s, 4 s … 30 s for an entry with 0, 1, 2 … earlier losses.
fn back_off_ms(losses: u32) -> u64 {
    let factor = 1_u64.checked_shl(losses).unwrap_or(u64::MAX);
    LOST_BACK_OFF_MS.saturating_mul(factor).min(LOST_BACK_OFF_MS_MAX)
}
