//! Deliveries that timed out and are committed after all.

use reprise::model::{GroupId, LaneOffset};

use crate::model::{Model, ModelState, memory_ends};

impl Model {
    /// Acknowledges timed-out deliveries, unless their record was delivered again.
    pub fn commit_late(&mut self, group: &GroupId, up_to: LaneOffset) -> usize {
        let from = LaneOffset { slot: up_to.slot, sequence: 0 };
        let below = self.late.range((group.clone(), from)..(group.clone(), up_to));
        let below: Vec<_> = below.map(|(key, id)| (key.clone(), *id)).collect();
        let mut acknowledged = 0;
        for (key, id) in below {
            self.late.remove(&key);
            let Some(record) = self.records.get_mut(&id) else { continue };
            let is_the_last = record.lanes.last() == Some(&key.1);
            if is_the_last && matches!(record.stands, ModelState::Waiting { .. }) {
                record.stands = ModelState::Committed(self.now);
                record.settle_letter();
                record.expires = memory_ends(record);
                acknowledged += 1;
            }
        }
        acknowledged
    }
}
