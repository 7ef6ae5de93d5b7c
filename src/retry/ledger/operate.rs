//! Operator actions on dead letters and waiting retries.
//!
//! ```text
//!            redrive, edit              discard, send
//!  Waiting ◀───────── Dead ───────────────────────────────▶ Discarding ──▶ Discarded
//!     └──────────────▶   ◀───────────────────────────────────┘
//!       dead letter now              restore, for RESTORE_MS
//! ```

use crate::model::{EntryId, GroupId};
use crate::retry::{
    Action, ActionOutcome, DELAY_MS_MAX, Disposition, Entries, Entry, Evidence, Ledger,
    LedgerAnswer, PayloadChange, RetryState,
};

/// Time for which a discarded dead letter can be restored.
pub const RESTORE_MS: u64 = 24 * 3_600_000;

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_operate(
        &mut self,
        group: &GroupId,
        action: Action,
        ids: &[EntryId],
    ) {
        let each = (0_u32..).zip(ids);
        let outcomes = each.map(|(index, id)| self.operate(group, action, index, *id)).collect();
        self.answer(LedgerAnswer::Operated(outcomes));
    }

    fn operate(
        &mut self,
        group: &GroupId,
        action: Action,
        index: u32,
        id: EntryId,
    ) -> ActionOutcome {
        let entry = self.store.get(id).filter(|entry| entry.group == *group);
        let Some(entry) = entry.filter(|entry| !entry.group.is_reserved()) else {
            return ActionOutcome::Unknown;
        };
        let record_bytes = self.store.record_bytes(id);
        let kind = entry.state.kind();
        let (entry, evidence, payload) = match (action, entry.state) {
            (Action::Redrive | Action::Edit, RetryState::Dead { .. }) => {
                let is_edit = action == Action::Edit;
                let evidence = if is_edit { Evidence::Edit } else { Evidence::Redrive };
                (self.redriven(entry, 0), evidence, PayloadChange::Begins(index))
            }
            (Action::Redrive | Action::Edit, _) if entry.redrives > 0 && !entry.is_settled() => {
                return ActionOutcome::Already;
            }
            (Action::Discard | Action::Send, RetryState::Dead { at }) => {
                let is_send = action == Action::Send;
                let evidence = if is_send { Evidence::Send } else { Evidence::Discard };
                let state = RetryState::Discarding { since: self.wall(), died: at };
                (self.settled(entry, state), evidence, PayloadChange::Keeps)
            }
            (Action::Delete, RetryState::Dead { .. } | RetryState::Discarding { .. }) => {
                let entry = self.settled(entry, RetryState::Discarded { at: self.wall() });
                (entry, Evidence::LetterDeleted, PayloadChange::Keeps)
            }
            (Action::Restore, RetryState::Discarding { died, .. }) => {
                let entry = self.settled(entry, RetryState::Dead { at: died });
                (entry, Evidence::Restore, PayloadChange::Keeps)
            }
            (Action::Discard, RetryState::Discarding { .. } | RetryState::Discarded { .. })
            | (Action::Restore | Action::DeadLetterNow, RetryState::Dead { .. }) => {
                return ActionOutcome::Already;
            }
            (Action::RetryNow, RetryState::Waiting { due, .. }) if due <= self.wall() => {
                return ActionOutcome::Already;
            }
            (Action::RetryNow, RetryState::Waiting { .. }) => {
                (self.wait(entry, 0, None), Evidence::RetryNow, PayloadChange::Keeps)
            }
            (Action::DelayUntil(due), RetryState::Waiting { .. }) => {
                let delay_ms = due.since(self.wall()).min(DELAY_MS_MAX);
                (self.wait(entry, delay_ms, None), Evidence::DelayUntil, PayloadChange::Keeps)
            }
            (Action::DeadLetterNow, RetryState::Waiting { .. }) => {
                let ended = self.end(entry, Disposition::Manual, false, record_bytes);
                (ended, Evidence::DeadLetterNow, PayloadChange::Keeps)
            }
            (
                Action::Redrive
                | Action::Edit
                | Action::Send
                | Action::Discard
                | Action::Delete
                | Action::Restore
                | Action::RetryNow
                | Action::DelayUntil(_)
                | Action::DeadLetterNow,
                _,
            ) => return ActionOutcome::Refused(kind),
        };
        self.note_end(&entry, record_bytes);
        self.record(entry, evidence, None, payload);
        ActionOutcome::Done
    }

    /// Makes a dead letter wait for attempt 1 after a redrive. Its history stays.
    pub(super) fn redriven(&self, mut entry: Entry, delay_ms: u64) -> Entry {
        entry.redrives = entry.redrives.saturating_add(1);
        entry.max_reconsume_times = self.ladder(&entry).max_reconsume_times;
        entry.reconsume_times = 0;
        entry.first_failed = None;
        entry.disposition = Some(Disposition::Manual);
        self.wait(entry, delay_ms, None)
    }

    fn settled(&self, entry: Entry, state: RetryState) -> Entry {
        let mut entry = Entry { state, ..entry };
        entry.expires = self.memory_ends(&entry);
        entry
    }

    /// The time to restore a discarded dead letter is over.
    pub(super) fn end_restore(&mut self, entry: Entry) {
        let RetryState::Discarding { since, .. } = entry.state else { return };
        let entry = self.settled(entry, RetryState::Discarded { at: since });
        self.record(entry, Evidence::RestoreEnded, None, PayloadChange::Keeps);
    }
}
