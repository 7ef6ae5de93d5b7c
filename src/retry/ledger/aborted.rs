//! Aborted transactions: an abort returns the uncommitted retries to the queue.

use crate::model::{GroupId, LaneOffset};
use crate::retry::{Entries, Evidence, INFLIGHT_MAX, Ledger, PayloadChange, RetryState};

impl<S: Entries> Ledger<S> {
    /// Outstanding retries below `up_to` are due at once, for any member of the group.
    pub(in crate::retry) fn on_aborted(&mut self, group: &GroupId, up_to: LaneOffset) {
        let first = LaneOffset { slot: up_to.slot, sequence: 0 };
        let due = self.wall();
        for id in self.store.inflight(group, first, INFLIGHT_MAX) {
            let Some(mut entry) = self.store.get(id) else { continue };
            if entry.inflight().is_none_or(|lane| lane >= up_to) {
                break;
            }
            entry.state = RetryState::Waiting { due, delay_ms: 0, level: None };
            entry.expires = None;
            self.record(entry, Evidence::Aborted, None, PayloadChange::Keeps);
        }
    }
}
