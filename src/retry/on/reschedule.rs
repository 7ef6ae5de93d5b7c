//! Stored times after a restart or a reload: never further off than the clock, the delay table and
//! the consume timeout explain, never stranded.

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::{Entries, Entry, Evidence, Machine, PayloadChange, State};

/// Entries read from the store at once.
const PAGE: usize = 256;

impl<S: Entries> Machine<S> {
    /// Looks at every entry, but only when the wall clock went back or a table changed.
    pub(in crate::retry) fn reschedule(&mut self) {
        let (marks, tables) = (self.marks(), self.policies.tables_mark());
        let clock_went_back = marks.latest > Some(self.wall());
        if !clock_went_back && marks.tables == Some(tables) {
            return;
        }
        for group in self.store.groups() {
            self.reschedule_group(&group);
        }
        self.record_tables(tables);
    }

    fn reschedule_group(&mut self, group: &GroupId) {
        let mut after = None;
        loop {
            let ids = self.store.page(group, after, PAGE);
            let Some(last) = ids.last() else { return };
            after = Some(*last);
            for id in ids {
                self.reschedule_entry(id);
            }
        }
    }

    fn reschedule_entry(&mut self, id: EntryId) {
        let Some(before) = self.store.get(id) else { return };
        let mut entry = before.clone();
        if let State::Waiting { due, delay_ms, level } = entry.state {
            entry.state = self.closer(&entry, due, delay_ms, level);
        }
        let timeout_ms = self.policy(&entry.group).consume_timeout_ms;
        entry.expires = entry.expires.map(|at| at.min(self.wall().plus(timeout_ms)));
        if entry != before {
            self.record(entry, Evidence::Rescheduled, None, PayloadChange::Keeps);
        }
    }

    /// `min(stored due, now + delay)`, with the table's present delay where it has the level and
    /// the stored one where it has not or where the level's delay grew.
    pub(in crate::retry) fn closer(
        &self,
        entry: &Entry,
        due: WallMs,
        delay_ms: u64,
        level: Option<u32>,
    ) -> State {
        let delays = self.ladder(entry).delays;
        let present = level.and_then(|level| delays.levels.get(level));
        let present = present.map(|present_ms| delays.spread(entry, present_ms));
        let shorter_ms = present.map_or(delay_ms, |present_ms| present_ms.min(delay_ms));
        let latest = self.wall().plus(shorter_ms);
        if due <= latest {
            return State::Waiting { due, delay_ms, level };
        }
        State::Waiting { due: latest, delay_ms: shorter_ms, level }
    }
}
