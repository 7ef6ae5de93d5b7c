//! Open and aborted transactions.
//!
//! An abort returns the transaction's uncommitted retries to the queue. A key-blocked record of an
//! aborted transaction ends, and one of an open transaction is not delivered.

use crate::model::{GroupId, LaneOffset, Origin};
use crate::retry::{Entries, Evidence, INFLIGHT_MAX, Ledger, PayloadChange, RetryState};

/// Time after which the transaction of an undelivered record is checked again.
const LOOK_AGAIN_MS: u64 = 1_000;

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

    /// A record with a reported failure stays: a member has received it, and the application wants
    /// a retry.
    pub(in crate::retry) fn on_taken_back(&mut self, group: &GroupId, origin: &Origin) {
        let id = self.store.by_origin(group, origin);
        let Some(mut entry) = id.and_then(|id| self.store.get(id)) else { return };
        if entry.is_settled() || entry.disposition.is_some() {
            return;
        }
        let at = self.wall();
        entry.state = RetryState::Committed { at };
        entry.passed = entry.passed.or(Some(at));
        entry.expires = self.memory_ends(&entry);
        self.record(entry, Evidence::Aborted, None, PayloadChange::Keeps);
    }

    /// Takes back a delivery that did not leave. A record with a reported failure is delivered
    /// regardless of its transaction.
    pub(in crate::retry) fn on_undecided(&mut self, group: &GroupId, origin: &Origin) {
        let id = self.store.by_origin(group, origin);
        let Some(mut entry) = id.and_then(|id| self.store.get(id)) else { return };
        if entry.inflight().is_none() || entry.disposition.is_some() {
            return;
        }
        entry.stayed();
        let entry = self.wait(entry, LOOK_AGAIN_MS, None);
        self.record(entry, Evidence::Undecided, None, PayloadChange::Keeps);
    }
}
