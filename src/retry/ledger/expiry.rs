//! Expiry: overdue deliveries return to the queue, final entries are forgotten.

use crate::model::EntryId;
use crate::retry::ledger::AT_ONCE;
use crate::retry::{Entries, Evidence, Ledger, RetryState, StateKind};

impl<S: Entries> Ledger<S> {
    /// At most `AT_ONCE` entries a call; the rest stays due.
    pub(in crate::retry) fn on_expiry(&mut self) {
        for id in self.store.expired(self.wall(), AT_ONCE) {
            self.expire(id);
        }
    }

    fn expire(&mut self, id: EntryId) {
        let Some(entry) = self.store.get(id) else { return };
        match entry.state.kind() {
            StateKind::Inflight => {
                let (group, lane) = (entry.group.clone(), entry.inflight());
                self.hand_out_lost(id, Evidence::Timeout);
                if let Some(lane) = lane {
                    self.late.went_back(&group, lane, id);
                }
            }
            _ if matches!(entry.state, RetryState::Discarding { .. }) => self.end_restore(entry),
            _ => self.forget(id, Evidence::MemoryEnded),
        }
    }
}
