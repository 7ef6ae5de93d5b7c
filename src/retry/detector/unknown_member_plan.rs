//! Plans for members that are not in the group, as far as the sidecar knows. Suspects and settled
//! records belong to the group, so they limit every member. Such a member may still be in the
//! group: an unreachable coordinator expires nobody.

use crate::retry::detector::{Detector, FetchDecision, FetchPosition, Plan, Rules, Window};

impl Detector {
    /// The plan for a removed member. Nothing in it counts as a delivery to that member.
    pub(super) fn plan_of_gone(&self, asked: &[FetchPosition]) -> Plan {
        let is_shut = !self.breaker.is_closed();
        let serve = asked.iter().map(|ask| match self.windows.get(&ask.partition) {
            _ if is_shut => FetchDecision::Nothing,
            _ if self.suspects.is_tested(&ask.partition, ask.offset) => FetchDecision::Nothing,
            Some(window) => window.unheld(&self.rules, ask.offset),
            None => FetchDecision::Open,
        });
        Plan { serve: serve.collect(), until: None }
    }
}

impl Window {
    /// The records from `offset` on that a member may get without owning the partition.
    fn unheld(&self, rules: &Rules, offset: i64) -> FetchDecision {
        let is_suspected = self.suspects.range(offset..).next().is_some();
        let waits = rules.in_order && self.waits_before(offset);
        if is_suspected || waits {
            return FetchDecision::Nothing;
        }
        let without: Vec<i64> = self.skipped.range(offset..).copied().collect();
        if without.is_empty() { FetchDecision::Open } else { FetchDecision::Without(without) }
    }
}
