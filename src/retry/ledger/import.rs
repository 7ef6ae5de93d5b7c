//! Import: dead letters of another sidecar, with their failures. An origin that the group knows
//! here wins over the import.

use crate::model::GroupId;
use crate::retry::{
    BadImport, Disposition, Entries, Entry, Evidence, Import, ImportOutcome, Ledger, LedgerAnswer,
    PayloadChange, RetryState,
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
        if origin.and_then(|origin| self.store.by_origin(group, origin)).is_some() {
            return ImportOutcome::Known;
        }
        let record_bytes = import.record_bytes;
        let mut entry = self.imported(group, import);
        if !self.ladder(&entry).keep_dead_letters {
            return ImportOutcome::Refused(BadImport::KeepsNone);
        }
        if !self.has_room(group, record_bytes) {
            return ImportOutcome::Refused(BadImport::NoRoom);
        }
        let id = entry.id;
        if self.policies.has_letters_behind() {
            let since = entry.last_failed.unwrap_or(self.wall());
            let disposition = entry.disposition.unwrap_or(Disposition::ExplicitDlq);
            entry.state = RetryState::Blocked { since, disposition, charged: false };
        }
        self.note_end(&entry, record_bytes);
        self.record(entry, Evidence::Imported, None, PayloadChange::Begins(index));
        ImportOutcome::Imported { id }
    }

    /// The dead letter, without deliveries of the other sidecar.
    pub(super) fn imported(&self, group: &GroupId, import: Import) -> Entry {
        let now = self.wall();
        let state = RetryState::Dead { at: import.died.min(now) };
        let mut entry = Entry::new(self.next_id(), group, import.origin, state);
        entry.reconsume_times = import.reconsume_times;
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
