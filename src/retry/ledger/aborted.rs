//! A transaction was aborted: nothing of it happened, nothing failed. The offsets of the lane in it
//! are given back; a record in it that waited behind another one of its key is nobody's. While it
//! is open that record is given to nobody.

use crate::model::{GroupId, LaneOffset, Origin};
use crate::retry::{Entries, Evidence, INFLIGHT_MAX, Ledger, PayloadChange, State};

/// How long an open transaction is left before it is looked at again.
const LOOK_AGAIN_MS: u64 = 1_000;

impl<S: Entries> Ledger<S> {
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

    /// What was said to have failed stays: somebody was given it, and wants it again.
    pub(in crate::retry) fn on_taken_back(&mut self, group: &GroupId, origin: &Origin) {
        let id = self.store.by_origin(group, origin);
        let Some(mut entry) = id.and_then(|id| self.store.get(id)) else { return };
        if entry.is_settled() || entry.disposition.is_some() {
            return;
        }
        let at = self.wall();
        entry.state = State::Committed { at };
        entry.passed = entry.passed.or(Some(at));
        entry.expires = self.memory_ends(&entry);
        self.record(entry, Evidence::Aborted, None, PayloadChange::Keeps);
    }

    /// It was taken for a member, and did not leave: no hand-out. What was said to have failed is
    /// given all the same.
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
