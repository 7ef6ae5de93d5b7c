//! What binds whoever asks: what is held or settled is so for its group, not for one member. Who is
//! out of the group, as far as is known here, may be in it for all that: a coordinator that is away
//! for longer than a session misses nobody.

use crate::retry::detector::{Asked, Detector, Plan, Rules, Serve, Window};

impl Detector {
    /// What a member is given that is gone: what nothing is known of. None of that is its hand-out.
    pub(super) fn plan_of_gone(&self, asked: &[Asked]) -> Plan {
        let is_shut = !self.breaker.is_closed();
        let serve = asked.iter().map(|ask| match self.windows.get(&ask.partition) {
            _ if is_shut => Serve::Nothing,
            _ if self.suspects.is_tested(&ask.partition, ask.offset) => Serve::Nothing,
            Some(window) => window.unheld(&self.rules, ask.offset),
            None => Serve::Open,
        });
        Plan { serve: serve.collect(), until: None }
    }
}

impl Window {
    /// What may be given of it, from an offset on, to who does not hold it.
    fn unheld(&self, rules: &Rules, offset: i64) -> Serve {
        let is_suspected = self.suspects.range(offset..).next().is_some();
        let waits = rules.in_order && self.waits_before(offset);
        if is_suspected || waits {
            return Serve::Nothing;
        }
        let without: Vec<i64> = self.skipped.range(offset..).copied().collect();
        if without.is_empty() { Serve::Open } else { Serve::Without(without) }
    }
}
