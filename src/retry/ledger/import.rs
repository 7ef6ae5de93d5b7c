//! Import: entries of another sidecar continue here with their failures and due times.
//!
//! An origin that the group knows here wins over the import. The exception is an entry that was
//! exported before: the import replaces it.

use crate::model::GroupId;
use crate::retry::{
    BadImport, DELAY_MS_MAX, Disposition, Entries, Entry, Evidence, Import, ImportOutcome, Ledger,
    LedgerAnswer, PayloadChange, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_import(&mut self, group: &GroupId, imports: Vec<Import>) {
        let mut outcomes = Vec::with_capacity(imports.len());
        for (index, import) in (0_u32..).zip(imports) {
            outcomes.push(self.import(group, index, import));
        }
        self.answer(LedgerAnswer::Imported(outcomes));
    }

    fn import(&mut self, group: &GroupId, index: u32, import: Import) -> ImportOutcome {
        let origin = import.origin.as_ref();
        let known = origin.and_then(|origin| self.store.by_origin(group, origin));
        let known = known.and_then(|id| self.store.get(id));
        if known.as_ref().is_some_and(|known| !is_away(known)) {
            return ImportOutcome::Known;
        }
        let (delay_ms, record_bytes) = (import.delay_ms, import.record_bytes);
        let mut entry = self.imported(group, import);
        if let Err(why) = self.admits(&entry, delay_ms, record_bytes) {
            return ImportOutcome::Refused(why);
        }
        if let Some(known) = known {
            entry.reconsume_times = entry.reconsume_times.max(known.reconsume_times);
            self.forget(known.id, Evidence::Imported);
        }
        let id = entry.id;
        self.note_end(&entry, record_bytes);
        self.record(entry, Evidence::Imported, None, PayloadChange::Begins(index));
        ImportOutcome::Imported { id }
    }

    fn admits(&self, entry: &Entry, delay_ms: u64, record_bytes: u64) -> Result<(), BadImport> {
        match entry.state {
            RetryState::Dead { .. } if !self.ladder(entry).keep_dead_letters => {
                Err(BadImport::KeepsNone)
            }
            RetryState::Dead { .. } if !self.has_room(&entry.group, record_bytes) => {
                Err(BadImport::NoRoom)
            }
            RetryState::Dead { .. } => Ok(()),
            _ if !self.policy(&entry.group).has_retries => Err(BadImport::RetriesOff),
            _ if delay_ms > DELAY_MS_MAX => Err(BadImport::DelayTooLong),
            _ => Ok(()),
        }
    }

    /// The entry as exported, without deliveries of the other sidecar. A level that is missing in
    /// this delay table becomes an exact delay.
    fn imported(&self, group: &GroupId, import: Import) -> Entry {
        let now = self.wall();
        let unborn = RetryState::Discarded { at: now };
        let mut entry = Entry::new(self.next_id(), group, import.origin, unborn);
        entry.reconsume_times = import.reconsume_times;
        let levels = self.ladder(&entry).delays.levels.len();
        let level = import.level.filter(|level| (1..=levels).contains(level));
        entry.state = match import.died {
            Some(at) => RetryState::Dead { at: at.min(now) },
            None => self.closer(&entry, import.due, import.delay_ms, level),
        };
        entry.redrives = import.redrives;
        entry.max_reconsume_times = import.max_reconsume_times;
        entry.handouts = import.handouts;
        entry.first_failed = import.first_failed;
        entry.last_failed = import.last_failed;
        entry.disposition = import.disposition;
        entry.explain(import.reason.as_deref());
        entry.remember(import.history);
        entry.passed = import.passed.then_some(now);
        entry
    }
}

/// The entry was exported to another sidecar.
fn is_away(entry: &Entry) -> bool {
    matches!(entry.state, RetryState::Discarded { .. })
        && entry.disposition == Some(Disposition::Manual)
}
