//! E7: a member went; what it had open was lost, not failed.

use crate::model::{EntryId, GroupId, LaneOffset, MemberId};
use crate::retry::{
    Disposition, Entries, Entry, Evidence, Ledger, Next, PayloadChange, SlotRecord, State, Want,
};

/// The back-off after the first lost hand-out of an entry; it doubles with each further one.
const LOST_BACK_OFF_MS: u64 = 1_000;
/// The longest back-off.
const LOST_BACK_OFF_MS_MAX: u64 = 30_000;

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_member_lost(&mut self, group: &GroupId, member: &MemberId) {
        let Some(record) = self.slot_of(group, member) else { return };
        self.all_lost(group, &record);
        self.late.gone(group, record.slot);
        self.record_slot(group, SlotRecord { member: None, ..record });
    }

    /// It may be heard of again, at the same offsets: the slot is not given to anybody else.
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

    /// Back to the group's queue after a back-off, with its failure count; unless it was alone, and
    /// is charged.
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
        entry.state = State::Waiting { due, delay_ms, level: None };
        entry.expires = None;
        self.record(entry, evidence, None, PayloadChange::Keeps);
    }

    /// It was out alone when its member was lost, and the time before: it has failed, both times if
    /// that is not charged yet. It goes on alone.
    fn charge_loss(&mut self, mut entry: Entry, evidence: Evidence) {
        let bytes = self.store.record_bytes(entry.id);
        let times = if entry.has_crashed() { 1 } else { 2 };
        let losses = entry.losses.saturating_add(1);
        for _ in 0..times {
            if matches!(entry.state, State::Alone { .. } | State::Waiting { .. }) {
                entry = self.fail_by_loss(entry, bytes);
            }
        }
        entry.losses = losses;
        self.note_end(&entry, bytes);
        self.record(entry, evidence, None, PayloadChange::Keeps);
    }

    /// One failure more: it waits at its level, or is at its end.
    fn fail_by_loss(&self, mut entry: Entry, record_bytes: u64) -> Entry {
        let ladder = self.ladder(&entry);
        let before = entry.reconsume_times;
        match ladder.delays.levels.next(Want::default(), before) {
            Next::After { .. } if ladder.is_over(entry.first_failed, self.wall()) => {
                self.end(entry, Disposition::Expired, true, record_bytes)
            }
            Next::After { delay_ms, level } if before < entry.max_reconsume_times => {
                entry.failed(self.wall(), Disposition::Crashed);
                self.wait(entry, delay_ms, level)
            }
            Next::After { .. } | Next::Never => {
                self.end(entry, Disposition::Crashed, true, record_bytes)
            }
        }
    }
}

/// 1 s, 2 s, 4 s … 30 s for an entry lost 0, 1, 2 … times before.
fn back_off_ms(losses: u32) -> u64 {
    let factor = 1_u64.checked_shl(losses).unwrap_or(u64::MAX);
    LOST_BACK_OFF_MS.saturating_mul(factor).min(LOST_BACK_OFF_MS_MAX)
}
