//! The end of the ladder: a dead letter, nothing, or held while the dead letters have no room.
//!
//! What is held is exhausted and not handed out again, and its last failure is not charged yet:
//! the count rises when it becomes a dead letter.

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::ledger::room::{LOOK_MS, Look};
use crate::retry::{Disposition, Entries, Entry, Evidence, Ledger, PayloadChange, State};

/// Held records looked at in one go.
const LOOK_MAX: usize = 256;
/// Bytes of records that leave in one go, and one record: they are one atomic group of the log.
const LOOK_BYTES_MAX: u64 = 4 << 20;
/// Between two goes while there is more to do: others get their turn.
const SOON_MS: u64 = 1;

impl<S: Entries> Ledger<S> {
    /// Ends an exhausted entry, or holds it; `charged` = its end is a failure more.
    pub(in crate::retry) fn end(
        &self,
        mut entry: Entry,
        disposition: Disposition,
        charged: bool,
        record_bytes: u64,
    ) -> Entry {
        entry.state = State::Held { since: self.wall(), disposition, charged };
        entry.expires = None;
        match self.ended(&entry, record_bytes) {
            Some(ended) => ended,
            None => entry,
        }
    }

    /// The held entry at its end; `None` while there is no room for it.
    fn ended(&self, held: &Entry, record_bytes: u64) -> Option<Entry> {
        let State::Held { since, disposition, charged } = held.state else { return None };
        let keep = self.ladder(held).keep_dead_letters;
        if keep && !self.has_room(&held.group, record_bytes) {
            return None;
        }
        let mut entry = held.clone();
        if charged {
            entry.failed(since, disposition);
        } else {
            entry.dispose(since, disposition);
        }
        let at = self.wall();
        entry.state = if keep { State::Dead { at } } else { State::Discarded { at } };
        entry.expires = self.memory_ends(&entry);
        Some(entry)
    }

    /// Remembers what the state an entry gets now means for the room.
    pub(in crate::retry) fn note_end(&mut self, entry: &Entry, record_bytes: u64) {
        let is_bounded = self.policy(&entry.group).dead_letters_bytes_max.is_some();
        match entry.state {
            State::Dead { .. } if is_bounded => self.room.take(&entry.group, record_bytes),
            State::Held { .. } => self.room.hold(&entry.group, self.wall()),
            _ => {}
        }
    }

    /// Groups whose held records the next `handle_timeout` at `now` looks at: tell what their
    /// dead letters take before.
    pub fn looks_due(&self, now: WallMs) -> Vec<GroupId> {
        self.room.due(now).map(|(group, _)| group.clone()).collect()
    }

    /// Looks at held records whose time has come.
    pub(in crate::retry) fn on_looks(&mut self) {
        for (group, look) in self.room.take_due(self.wall()) {
            if let Some(next) = self.look_at(&group, look.after) {
                self.room.look(&group, next);
            }
        }
    }

    /// Ends what has room now; when to look again, unless nothing is held any more.
    fn look_at(&mut self, group: &GroupId, after: Option<EntryId>) -> Option<Look> {
        let later = self.wall().plus(LOOK_MS);
        let is_full = self.policy(group).keep_dead_letters && !self.has_room(group, 0);
        if is_full {
            return self.is_holding(group).then_some(Look { at: later, after });
        }
        let ids = self.store.held(group, after, LOOK_MAX);
        let (mut last, mut ended, mut bytes) = (after, false, 0_u64);
        for id in &ids {
            last = Some(*id);
            let Some(held) = self.store.get(*id) else { continue };
            let record_bytes = self.store.record_bytes(*id);
            let Some(entry) = self.ended(&held, record_bytes) else { continue };
            ended = true;
            self.note_end(&entry, record_bytes);
            self.record(entry, Evidence::HeldEnded, None, PayloadChange::Keeps);
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
        Some(Look { at, after })
    }

    fn is_holding(&self, group: &GroupId) -> bool {
        !self.store.held(group, None, 1).is_empty()
    }

    pub(super) fn has_room(&self, group: &GroupId, record_bytes: u64) -> bool {
        let bytes_max = self.policy(group).dead_letters_bytes_max;
        bytes_max.is_none_or(|most| self.room.is_for(group, record_bytes, most))
    }
}
