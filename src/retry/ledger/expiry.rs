//! Expiry: final entries are forgotten.

use crate::model::EntryId;
use crate::retry::ledger::AT_ONCE;
use crate::retry::{Entries, Evidence, Ledger, RetryState};

impl<S: Entries> Ledger<S> {
    /// At most `AT_ONCE` entries a call; the rest stays due.
    pub(in crate::retry) fn on_expiry(&mut self) {
        for id in self.store.expired(self.wall(), AT_ONCE) {
            self.expire(id);
        }
    }

    fn expire(&mut self, id: EntryId) {
        let Some(entry) = self.store.get(id) else { return };
        if matches!(entry.state, RetryState::Discarding { .. }) {
            self.end_restore(entry);
        } else {
            self.forget(id, Evidence::MemoryEnded);
        }
    }
}
