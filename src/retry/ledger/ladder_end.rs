//! End of the ladder: a dead letter, a dropped record, or a blocked record.
//!
//! A blocked record is not delivered again. Its last failure is charged when it becomes a dead
//! letter: once the quota has room for it, or once its dead-letter topic in the cluster behind has
//! it.

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::ledger::dead_letter_quota::{LOOK_MS, QuotaCheck};
use crate::retry::{Disposition, Entries, Entry, Evidence, Ledger, PayloadChange, RetryState};

/// Most blocked records checked in one call.
const LOOK_MAX: usize = 256;
/// Record bytes that may become dead letters in one call, plus one record: all are one atomic group
/// of the journal.
const LOOK_BYTES_MAX: u64 = 4 << 20;
/// Time until the next call while more is to do, so that other work runs in between.
const SOON_MS: u64 = 1;

impl<S: Entries> Ledger<S> {
    /// Ends an exhausted entry, or blocks it. `charged`: the end counts as one more failure.
    pub(in crate::retry) fn end(
        &self,
        mut entry: Entry,
        disposition: Disposition,
        charged: bool,
        record_bytes: u64,
    ) -> Entry {
        entry.state = RetryState::Blocked { since: self.wall(), disposition, charged };
        entry.expires = None;
        match self.ended(&entry, record_bytes) {
            Some(ended) => ended,
            None => entry,
        }
    }

    /// The blocked entry in its final state; `None` while its dead letter has to wait.
    fn ended(&self, held: &Entry, record_bytes: u64) -> Option<Entry> {
        let waits = self.ladder(held).keep_dead_letters
            && (self.policies.has_letters_behind() || !self.has_room(&held.group, record_bytes));
        if waits { None } else { self.final_of(held) }
    }

    /// The dead letter that a blocked entry becomes; `None` if its group keeps none.
    pub fn letter_of(&self, id: EntryId) -> Option<Entry> {
        let held = self.store.get(id)?;
        if self.ladder(&held).keep_dead_letters { self.final_of(&held) } else { None }
    }

    /// The blocked entry in its final state.
    pub(super) fn final_of(&self, held: &Entry) -> Option<Entry> {
        let RetryState::Blocked { since, disposition, charged } = held.state else { return None };
        let keep = self.ladder(held).keep_dead_letters;
        let mut entry = held.clone();
        if charged {
            entry.failed(since, disposition);
        } else if entry.history.last() != Some(&(since, disposition)) {
            // An imported dead letter has the end of its ladder in its history.
            entry.dispose(since, disposition);
        }
        let at = self.wall();
        entry.state = if keep { RetryState::Dead { at } } else { RetryState::Discarded { at } };
        entry.expires = self.memory_ends(&entry);
        Some(entry)
    }

    /// Updates the use of the quota for an entry's new state.
    pub(in crate::retry) fn note_end(&mut self, entry: &Entry, record_bytes: u64) {
        let is_bounded = self.policy(&entry.group).dead_letters_bytes_max.is_some();
        match entry.state {
            RetryState::Dead { .. } if is_bounded => self.room.take(&entry.group, record_bytes),
            RetryState::Blocked { .. } => self.room.hold(&entry.group, self.wall()),
            _ => {}
        }
    }

    /// Groups whose blocked records the next `handle_timeout` at `now` checks. Pass the present
    /// size of their dead letters before.
    pub fn looks_due(&self, now: WallMs) -> Vec<GroupId> {
        self.room.due(now).map(|(group, _)| group.clone()).collect()
    }

    /// Checks the blocked records that are due for a check.
    pub(in crate::retry) fn on_looks(&mut self) {
        for (group, look) in self.room.take_due(self.wall()) {
            if let Some(next) = self.look_at(&group, look.after) {
                self.room.look(&group, next);
            }
        }
    }

    /// Ends the entries that fit the quota. Returns the next check, or `None` if none is blocked.
    fn look_at(&mut self, group: &GroupId, after: Option<EntryId>) -> Option<QuotaCheck> {
        let later = self.wall().plus(LOOK_MS);
        let waits = self.policies.has_letters_behind() || !self.has_room(group, 0);
        if self.policy(group).keep_dead_letters && waits {
            return self.is_holding(group).then_some(QuotaCheck { at: later, after });
        }
        let ids = self.store.blocked(group, after, LOOK_MAX);
        let (mut last, mut ended, mut bytes) = (after, false, 0_u64);
        for id in &ids {
            last = Some(*id);
            let Some(held) = self.store.get(*id) else { continue };
            let record_bytes = self.store.record_bytes(*id);
            let Some(entry) = self.ended(&held, record_bytes) else { continue };
            ended = true;
            self.note_end(&entry, record_bytes);
            self.record(entry, Evidence::Unblocked, None, PayloadChange::Keeps);
            bytes = bytes.saturating_add(record_bytes);
            if bytes >= LOOK_BYTES_MAX {
                break;
            }
        }
        if !self.is_holding(group) {
            return None;
        }
        let all_seen = last == ids.last().copied().or(after) && ids.len() < LOOK_MAX;
        let after = last.filter(|_| !all_seen);
        let at = if ended && !all_seen { self.wall().plus(SOON_MS) } else { later };
        Some(QuotaCheck { at, after })
    }

    fn is_holding(&self, group: &GroupId) -> bool {
        !self.store.blocked(group, None, 1).is_empty()
    }

    /// Whether the group's dead letters have room for one more of this size.
    pub fn has_room(&self, group: &GroupId, record_bytes: u64) -> bool {
        let bytes_max = self.policy(group).dead_letters_bytes_max;
        bytes_max.is_none_or(|most| self.room.is_for(group, record_bytes, most))
    }
}
