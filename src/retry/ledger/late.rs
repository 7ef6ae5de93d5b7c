//! Hand-outs that went back to the queue while their member may still be at work on them: a commit
//! of that member that passes one before it has left again says that it is done.
//!
//! Nothing here is journalled: after a restart what went back comes back. It ends with the member,
//! since whoever has its slot next commits beyond what it never had. And it ends where the member
//! begins anew, with the position it asks for or with a Fetch at or before the hand-out: a consumer
//! that has restarted under its id is not at work on deliveries of before.

use std::collections::BTreeMap;

use crate::model::{EntryId, GroupId, LaneOffset, Slot};

/// Remembered at most; what is forgotten comes back.
const REMEMBERED: usize = 100_000;

/// By group and hand-out.
#[derive(Debug, Default)]
pub(super) struct Late(BTreeMap<(GroupId, LaneOffset), EntryId>);

impl Late {
    /// It went back, and its member lives as far as anybody knows.
    pub(super) fn went_back(&mut self, group: &GroupId, lane: LaneOffset, id: EntryId) {
        if self.0.len() < REMEMBERED {
            self.0.insert((group.clone(), lane), id);
        }
    }

    /// Takes out what of a slot lies below an offset.
    pub(super) fn below(
        &mut self,
        group: &GroupId,
        up_to: LaneOffset,
    ) -> Vec<(LaneOffset, EntryId)> {
        let from = (group.clone(), LaneOffset { slot: up_to.slot, sequence: 0 });
        let known = self.0.range(from..(group.clone(), up_to));
        let known: Vec<_> = known.map(|((_, lane), id)| (*lane, *id)).collect();
        for (lane, _) in &known {
            self.0.remove(&(group.clone(), *lane));
        }
        known
    }

    /// Its member says that it has failed: no commit takes that back.
    pub(super) fn failed(&mut self, group: &GroupId, lane: LaneOffset) {
        self.0.remove(&(group.clone(), lane));
    }

    /// The member fetches from this offset: it has nothing at or behind that.
    pub(super) fn fetched(&mut self, group: &GroupId, from: LaneOffset) {
        let end = LaneOffset { slot: from.slot, sequence: u64::MAX };
        let known = self.0.range((group.clone(), from)..=(group.clone(), end));
        let known: Vec<_> = known.map(|(of, _)| of.clone()).collect();
        for of in known {
            self.0.remove(&of);
        }
    }

    /// The member of the slot is gone, or begins anew.
    pub(super) fn gone(&mut self, group: &GroupId, slot: Slot) {
        self.below(group, LaneOffset { slot, sequence: u64::MAX });
    }
}
