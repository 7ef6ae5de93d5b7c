//! Export: an operator moves waiting entries to another sidecar. `Begin` sets them aside, `End`
//! discards them once they are there.
//!
//! Between the two steps neither sidecar delivers them, not even after a restart. Inflight entries
//! are not exported: their member may still acknowledge them.

use crate::model::{EntryId, TopicPartition};
use crate::retry::{
    Answer, Disposition, Entries, Entry, Evidence, ExportOutcome, ExportStep, Ledger,
    PayloadChange, Rank, State,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_export(&mut self, step: ExportStep, ids: &[EntryId]) {
        let outcomes = ids.iter().map(|id| self.export(step, *id)).collect();
        self.answer(Answer::Exported(outcomes));
    }

    fn export(&mut self, step: ExportStep, id: EntryId) -> ExportOutcome {
        let Some(entry) = self.store.get(id) else {
            // A forgotten entry was final, so its export has ended.
            let is_settled = step == ExportStep::End && id.0 < self.marks().next_id;
            return if is_settled { ExportOutcome::Already } else { ExportOutcome::Left };
        };
        // An entry of a reserved group waits to enter a topic of this node: not exportable.
        if entry.group.is_reserved() || self.parts_its_key(step, &entry) {
            return ExportOutcome::Left;
        }
        match (step, entry.state) {
            (
                ExportStep::Begin,
                State::Waiting { due, delay_ms, level }
                | State::Behind { due, delay_ms, level, .. },
            ) => {
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

    /// Keeps an export in the order of a key: an entry is set aside after all earlier ones. The
    /// export ends when no key-blocked entry is left here.
    fn parts_its_key(&self, step: ExportStep, entry: &Entry) -> bool {
        let Some((origin, key, _)) = entry.lined() else { return false };
        let of = TopicPartition { topic: origin.topic.clone(), partition: origin.partition };
        let first = |rank| self.store.of_key(&entry.group, &of, key, rank, 1).pop();
        let behind = first(Rank::Behind);
        match step {
            ExportStep::Begin => {
                let is_before = |(offset, id): &(i64, EntryId)| {
                    let state = self.store.get(*id).map(|entry| entry.state);
                    *offset < origin.offset && !matches!(state, Some(State::Exported { .. }))
                };
                [first(Rank::Ahead), behind].iter().flatten().any(is_before)
            }
            ExportStep::End => behind.is_some() && !entry.is_settled(),
            ExportStep::Undo => false,
        }
    }

    /// Remembered as final, so that a nack of its origin begins no new entry.
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
