//! A transaction with offsets of the lane was aborted: nothing of it happened, nothing failed.

use crate::model::{GroupId, LaneOffset};
use crate::retry::{Entries, Evidence, INFLIGHT_MAX, Machine, PayloadChange, State};

impl<S: Entries> Machine<S> {
    /// What is open below `up_to` is due at once, for whichever member asks first.
    pub(in crate::retry) fn on_aborted(&mut self, group: &GroupId, up_to: LaneOffset) {
        let first = LaneOffset { slot: up_to.slot, sequence: 0 };
        let due = self.wall();
        for id in self.store.inflight(group, first, INFLIGHT_MAX) {
            let Some(mut entry) = self.store.get(id) else { continue };
            if entry.inflight().is_none_or(|lane| lane >= up_to) {
                break;
            }
            entry.state = State::Waiting { due, delay_ms: 0, level: None };
            entry.expires = None;
            self.record(entry, Evidence::Aborted, None, PayloadChange::Keeps);
        }
    }
}
