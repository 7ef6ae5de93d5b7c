//! Stored due times after a restart or a reload: no later than the clock, the delay table and the
//! consume timeout allow.

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::ledger::AT_ONCE;
use crate::retry::{Entries, Entry, Evidence, Ledger, PayloadChange, RetryState};

/// Progress of a check of all entries, some per call: millions of entries must not delay other work
/// or fill the memory. A restart before the end begins again.
#[derive(Debug)]
pub(in crate::retry) struct Rescheduling {
    /// Groups still to check, the next one last.
    groups: Vec<GroupId>,
    /// Last checked entry of that group.
    after: Option<EntryId>,
    /// Hash of the delay tables to check against.
    tables: u64,
}

impl<S: Entries> Ledger<S> {
    /// Checks every entry, but only when the wall clock went back or a table changed.
    pub(in crate::retry) fn reschedule(&mut self) {
        let (marks, tables) = (self.marks(), self.policies.tables_mark());
        let clock_went_back = marks.latest > Some(self.wall());
        if !clock_went_back && marks.tables == Some(tables) {
            self.rescheduling = None;
            return;
        }
        let groups = self.store.groups();
        self.rescheduling = Some(Rescheduling { groups, after: None, tables });
        self.go_on_rescheduling();
    }

    /// Checks the next `AT_ONCE` entries.
    pub(in crate::retry) fn go_on_rescheduling(&mut self) {
        let Some(mut left) = self.rescheduling.take() else { return };
        let mut room = AT_ONCE;
        while let Some(group) = left.groups.last() {
            let ids = self.store.page(group, left.after, room);
            left.after = ids.last().copied();
            if ids.is_empty() {
                left.groups.pop();
            }
            room = room.saturating_sub(ids.len());
            for id in ids {
                self.reschedule_entry(id);
            }
            if room == 0 {
                self.rescheduling = Some(left);
                return;
            }
        }
        self.record_tables(left.tables);
    }

    fn reschedule_entry(&mut self, id: EntryId) {
        let Some(before) = self.store.get(id) else { return };
        let mut entry = before.clone();
        if let RetryState::Waiting { due, delay_ms, level } = entry.state {
            entry.state = self.closer(&entry, due, delay_ms, level);
        }
        let timeout_ms = self.policy(&entry.group).consume_timeout_ms;
        entry.expires = entry.expires.map(|at| at.min(self.wall().plus(timeout_ms)));
        if entry != before {
            self.record(entry, Evidence::Rescheduled, None, PayloadChange::Keeps);
        }
    }

    /// `min(stored due, now + delay)`. The delay is the level's present one, but never longer than
    /// the stored one.
    pub(in crate::retry) fn closer(
        &self,
        entry: &Entry,
        due: WallMs,
        delay_ms: u64,
        level: Option<u32>,
    ) -> RetryState {
        let delays = self.ladder(entry).delays;
        let present = level.and_then(|level| delays.levels.get(level));
        let present = present.map(|present_ms| delays.spread(entry, present_ms));
        let shorter_ms = present.map_or(delay_ms, |present_ms| present_ms.min(delay_ms));
        let latest = self.wall().plus(shorter_ms);
        if due <= latest {
            return RetryState::Waiting { due, delay_ms, level };
        }
        RetryState::Waiting { due: latest, delay_ms: shorter_ms, level }
    }
}
