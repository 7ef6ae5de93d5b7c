//! Export: an operator moves waiting entries to another sidecar. `Begin` sets them aside, `End`
//! discards them once they are there.
//!
//! Between the two steps neither sidecar delivers them, not even after a restart. Inflight entries
//! are not exported: their member may still acknowledge them.

use crate::model::EntryId;
use crate::retry::{
    Disposition, Entries, Entry, Evidence, ExportOutcome, ExportStep, Ledger, LedgerAnswer,
    PayloadChange, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_export(&mut self, step: ExportStep, ids: &[EntryId]) {
        let outcomes = ids.iter().map(|id| self.export(step, *id)).collect();
        self.answer(LedgerAnswer::Exported(outcomes));
    }

    fn export(&mut self, step: ExportStep, id: EntryId) -> ExportOutcome {
        let Some(entry) = self.store.get(id) else {
            // A forgotten entry was final, so its export has ended.
            let is_settled = step == ExportStep::End && id.0 < self.marks().next_id;
            return if is_settled { ExportOutcome::Already } else { ExportOutcome::Left };
        };
        // An entry of a reserved group waits to enter a topic of this node: not exportable.
        if entry.group.is_reserved() {
            return ExportOutcome::Left;
        }
        match (step, entry.state) {
            (ExportStep::Begin, RetryState::Waiting { due, delay_ms, level }) => {
                let since = self.wall();
                let state = RetryState::Exported { since, due, delay_ms, level };
                self.exported(Entry { state, ..entry }, Evidence::Exported)
            }
            (ExportStep::Undo, RetryState::Exported { due, delay_ms, level, .. }) => {
                let state = self.closer(&entry, due, delay_ms, level);
                self.exported(Entry { state, ..entry }, Evidence::ExportUndone)
            }
            (ExportStep::End, RetryState::Exported { .. }) => {
                let moved = self.moved(entry);
                self.exported(moved, Evidence::ExportEnded)
            }
            (ExportStep::Begin, RetryState::Exported { .. })
            | (ExportStep::Undo, RetryState::Waiting { .. }) => ExportOutcome::Already,
            (ExportStep::End, _) if entry.is_settled() => ExportOutcome::Already,
            _ => ExportOutcome::Left,
        }
    }

    /// Remembered as final, so that a nack of its origin begins no new entry.
    fn moved(&self, mut entry: Entry) -> Entry {
        let at = self.wall();
        entry.state = RetryState::Discarded { at };
        entry.dispose(at, Disposition::Manual);
        entry.expires = self.memory_ends(&entry);
        entry
    }

    fn exported(&mut self, entry: Entry, evidence: Evidence) -> ExportOutcome {
        self.record(entry, evidence, None, PayloadChange::Keeps);
        ExportOutcome::Done
    }
}
