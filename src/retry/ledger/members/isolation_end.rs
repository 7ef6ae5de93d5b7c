//! End of an isolation: another record is delivered to the member of an isolated retry.

use crate::model::{GroupId, LaneOffset, RetryPartition};
use crate::retry::{Entries, Evidence, Ledger, PayloadChange, RetryState};

impl<S: Entries> Ledger<S> {
    /// The isolated delivery counts as an ordinary one from now on.
    pub(in crate::retry) fn on_joined(&mut self, group: &GroupId, lane: LaneOffset) {
        let known = self.store.inflight(group, lane, 1);
        let entry = known.first().and_then(|id| self.store.get(*id));
        let Some(mut entry) = entry.filter(|entry| entry.inflight() == Some(lane)) else { return };
        let RetryState::Alone { since, .. } = entry.state else { return };
        entry.state = RetryState::Inflight { lane, since };
        self.record(entry, Evidence::Joined, None, PayloadChange::Keeps);
    }

    /// Further deliveries to a slot. An isolated entry is always the slot's first inflight one.
    pub(in crate::retry) fn join_first(&mut self, group: &GroupId, slot: RetryPartition) {
        if let Some(lane) = self.store.first_open(group, slot) {
            self.on_joined(group, lane);
        }
    }
}
