//! An operator moves what waits to another sidecar: set aside first, ended when it is there.
//!
//! Between the two nobody gets it, here or there, and a start changes nothing about that. What is
//! handed out is not set aside: its member may still acknowledge it.

use crate::model::EntryId;
use crate::retry::{
    Answer, Disposition, Entries, Entry, Evidence, ExportOutcome, ExportStep, Machine,
    PayloadChange, State, Token,
};

impl<S: Entries> Machine<S> {
    pub(in crate::retry) fn on_export(&mut self, token: Token, step: ExportStep, ids: &[EntryId]) {
        let outcomes = ids.iter().map(|id| self.export(step, *id)).collect();
        self.answer(token, Answer::Exported(outcomes));
    }

    fn export(&mut self, step: ExportStep, id: EntryId) -> ExportOutcome {
        let Some(entry) = self.store.get(id) else {
            // Not known any more: it is settled, and so is its export.
            let is_settled = step == ExportStep::End && id.0 < self.marks().next_id;
            return if is_settled { ExportOutcome::Already } else { ExportOutcome::Left };
        };
        match (step, entry.state) {
            (ExportStep::Begin, State::Waiting { due, delay_ms, level }) => {
                let since = self.wall();
                let state = State::Exported { since, due, delay_ms, level };
                self.exported(Entry { state, ..entry }, Evidence::Exported)
            }
            (ExportStep::Undo, State::Exported { due, delay_ms, level, .. }) => {
                let state = self.closer(&entry, due, delay_ms, level);
                self.exported(Entry { state, ..entry }, Evidence::ExportUndone)
            }
            (ExportStep::End, State::Exported { .. }) => {
                let moved = self.moved(entry);
                self.exported(moved, Evidence::ExportEnded)
            }
            (ExportStep::Begin, State::Exported { .. })
            | (ExportStep::Undo, State::Waiting { .. }) => ExportOutcome::Already,
            (ExportStep::End, _) if entry.is_settled() => ExportOutcome::Already,
            _ => ExportOutcome::Left,
        }
    }

    /// Remembered as settled: its origin does not begin anew here.
    fn moved(&self, mut entry: Entry) -> Entry {
        let at = self.wall();
        entry.state = State::Discarded { at };
        entry.dispose(at, Disposition::Manual);
        entry.expires = self.memory_ends(&entry);
        entry
    }

    fn exported(&mut self, entry: Entry, evidence: Evidence) -> ExportOutcome {
        self.record(entry, evidence, None, PayloadChange::Keeps);
        ExportOutcome::Done
    }
}
