//! Unreadable bytes: the journal cannot read an entry's record. The entry becomes a dead letter, so
//! that operators see the origin and the cause.

use crate::model::EntryId;
use crate::retry::{Disposition, Entries, Evidence, Ledger, PayloadChange, RetryState};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_damaged(&mut self, id: EntryId, why: &str) {
        let Some(mut entry) = self.store.get(id) else { return };
        if !matches!(entry.state, RetryState::Waiting { .. }) {
            return;
        }
        entry.explain(Some(why));
        let bytes = self.store.record_bytes(id);
        let entry = self.end(entry, Disposition::Undecodable, false, bytes);
        self.note_end(&entry, bytes);
        self.record(entry, Evidence::Damaged, None, PayloadChange::Keeps);
    }
}
