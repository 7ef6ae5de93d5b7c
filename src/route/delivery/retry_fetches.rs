//! Observations of retry-topic Fetches for the detector.

use crate::engine::RetryBatch;
use crate::model::{GroupId, LaneOffset, RetryPartition};
use crate::retry::OtherDeliveries;
use crate::retry::detector::{GroupObservation, LaneGiven};
use crate::route::Router;

impl Router {
    /// The number of retries that a retry partition may receive now (`None`: no bound), and whether
    /// its member has other outstanding records.
    pub(in crate::route) fn lane_room(
        &self,
        group: &GroupId,
        slot: RetryPartition,
    ) -> (Option<usize>, OtherDeliveries) {
        let Some(of) = self.detector_of(group) else { return (None, OtherDeliveries::Old) };
        self.tell(group, &of, |detector, now| {
            let held = detector.lane_room(now);
            let (turn, company) = detector.lane_turn(now, slot);
            (held.into_iter().chain(turn).min(), company)
        })
    }

    /// Records the answer to a Fetch of a retry topic, before its bytes leave.
    pub(in crate::route) fn lane_taken(
        &self,
        group: &GroupId,
        from: LaneOffset,
        room: Option<usize>,
        taken: &RetryBatch,
    ) {
        let Some(of) = self.detector_of(group) else { return };
        // An open delivery below `from` was made earlier, maybe before a restart.
        let below = Some(taken.position).filter(|position| *position < from);
        let given = taken.records.iter().filter_map(|one| LaneOffset::from_kafka(one.offset));
        let out: Vec<LaneOffset> = below.into_iter().chain(given).collect();
        let waits = room == Some(0) && taken.is_due;
        self.tell(group, &of, |detector, now| {
            if let Some(member) = taken.member.clone() {
                let (slot, single) = (from.slot, taken.single);
                let told = LaneGiven { member, slot, out, waits, single };
                detector.handle(now, GroupObservation::LaneGiven(told));
            }
        });
    }
}
