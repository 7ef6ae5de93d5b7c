//! Late deliveries: they returned to the queue while their member may still process them. A commit
//! of that member past a delivery acknowledges it, if the entry was not delivered again.
//!
//! Late deliveries are not journalled: after a restart each entry is delivered again. The list ends
//! with the member: the slot's next member commits past deliveries that it never had.
//!
//! The list also ends when the member restarts: it sends an `OffsetFetch`, or fetches at or below
//! the delivery. A restarted consumer processes no earlier delivery.

use std::collections::BTreeMap;

use crate::model::{EntryId, GroupId, LaneOffset, RetryPartition};

/// Most late deliveries remembered; the entry of any other is delivered again.
const REMEMBERED: usize = 100_000;

/// By group and delivery.
#[derive(Debug, Default)]
pub(in crate::retry::ledger) struct LateDeliveries(BTreeMap<(GroupId, LaneOffset), EntryId>);

impl LateDeliveries {
    /// Remembers a delivery that returned to the queue while its member may be alive.
    pub(in crate::retry::ledger) fn went_back(
        &mut self,
        group: &GroupId,
        lane: LaneOffset,
        id: EntryId,
    ) {
        if self.0.len() < REMEMBERED {
            self.0.insert((group.clone(), lane), id);
        }
    }

    /// Removes and returns the slot's late deliveries below an offset.
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

    /// The delivery failed: a later commit does not acknowledge it.
    pub(in crate::retry::ledger) fn failed(&mut self, group: &GroupId, lane: LaneOffset) {
        self.0.remove(&(group.clone(), lane));
    }

    /// The member fetches from this offset: it has no deliveries from there on.
    pub(in crate::retry::ledger) fn fetched(&mut self, group: &GroupId, from: LaneOffset) {
        let end = LaneOffset { slot: from.slot, sequence: u64::MAX };
        let known = self.0.range((group.clone(), from)..=(group.clone(), end));
        let known: Vec<_> = known.map(|(of, _)| of.clone()).collect();
        for of in known {
            self.0.remove(&of);
        }
    }

    /// The member left the slot, or restarted.
    pub(in crate::retry::ledger) fn gone(&mut self, group: &GroupId, slot: RetryPartition) {
        self.below(group, LaneOffset { slot, sequence: u64::MAX });
    }
}
