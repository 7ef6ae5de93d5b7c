//! The outage breaker: what it counts, and what is given while the group is held.

use crate::model::{Now, TopicPartition};
use crate::retry::watch::{Asked, BreakerView, Handed, Output, Plan, Probe, Serve, Watch, Window};

impl Watch {
    /// A commit ends first deliveries: those that were nacked, or are at their end, have failed.
    pub(in crate::retry) fn count_committed(&mut self, now: Now, of: &TopicPartition, offset: i64) {
        let Some(rules) = self.rules.breaker else { return };
        let Some(window) = self.windows.get_mut(of) else { return };
        let first = window.first_open().max(window.counted);
        let last = offset.min(window.end);
        window.counted = window.counted.max(last);
        let counted = window.counted_failed.split_off(&offset);
        let counted = std::mem::replace(&mut window.counted_failed, counted);
        let oldest = last.saturating_sub(i64::from(rules.window)).max(first);
        let ended = (oldest..last).filter(|offset| !counted.contains(offset));
        let outcomes: Vec<bool> = ended.map(|offset| window.has_failed(offset)).collect();
        for has_failed in outcomes {
            self.count(now, has_failed);
        }
        let is_it = |probe: &Probe| match probe {
            Probe::Record(partition, probe) => partition == of && *probe < offset,
            Probe::Lane => false,
        };
        if self.breaker.has(is_it) {
            self.breaker.probe_succeeded();
            self.push(Output::Held(false));
            self.push(Output::Wake);
        }
    }

    /// Inference is about to charge a record for the first time; whether it may.
    pub(in crate::retry) fn counts(&mut self, now: Now, of: &TopicPartition, offset: i64) -> bool {
        if self.breaker.is_held() {
            return false;
        }
        let Some(window) = self.windows.get_mut(of) else { return true };
        let is_first = !window.has_failed(offset) && offset >= window.counted;
        if self.rules.breaker.is_some() && is_first && window.counted_failed.insert(offset) {
            self.count(now, true);
        }
        true
    }

    fn count(&mut self, now: Now, has_failed: bool) {
        let Some(rules) = self.rules.breaker else { return };
        if self.breaker.note(now.mono, rules, self.rules.interval_ms, has_failed) {
            self.push(Output::Held(true));
            self.push(Output::Wake);
        }
    }

    /// A probe has failed, if it is one of these.
    pub(in crate::retry) fn on_probe_failed(&mut self, now: Now, is_it: impl Fn(&Probe) -> bool) {
        if self.breaker.has(is_it) {
            self.breaker.probe_failed(now.mono, self.rules.interval_ms);
        }
    }

    /// What a member is given while the group is held: nothing, or one record.
    pub(in crate::retry) fn held(&self, now: Now, asked: &[Asked]) -> Plan {
        let next = self.breaker.next();
        if next.is_some_and(|next| next > now.mono) {
            let serve = asked.iter().map(|_| Serve::Nothing).collect();
            return Plan { serve, until: next };
        }
        let serve = asked.iter().enumerate().map(|(place, ask)| {
            let skipped = self.windows.get(&ask.partition).map(|window| &window.skipped);
            let without = skipped.map(|skipped| skipped.range(ask.offset..).copied().collect());
            Serve::Turn { without: without.unwrap_or_default(), place }
        });
        Plan { serve: serve.collect(), until: None }
    }

    /// One record left while the group is held.
    pub(in crate::retry) fn on_probe_handed(&mut self, now: Now, left: &Handed) {
        if left.by_turn && self.breaker.is_held() {
            let probe = Probe::Record(left.partition.clone(), left.end.saturating_sub(1));
            self.breaker.given(now.mono, self.rules.narrow_patience_ms, probe);
            // Whoever waits for one waits longer.
            self.push(Output::Wake);
        }
    }

    /// A retry was acknowledged: while records go one by one, one that succeeded.
    pub(in crate::retry) fn on_lane_done(&mut self, now: Now) {
        if self.breaker.is_ramping() {
            self.count(now, false);
        }
        if self.breaker.has(|probe| *probe == Probe::Lane) {
            self.breaker.probe_succeeded();
            self.push(Output::Held(false));
            self.push(Output::Wake);
        }
    }

    /// How many retries may be given out now; `None`: as many as ever.
    pub fn lane_room(&self, now: Now) -> Option<usize> {
        if self.breaker.is_ramping() {
            return Some(1);
        }
        let next = self.breaker.next()?;
        if next > now.mono {
            return Some(0);
        }
        Some(1)
    }

    /// A retry was given out, with such room.
    pub fn lane_given(&mut self, now: Now) {
        self.breaker.given(now.mono, self.rules.narrow_patience_ms, Probe::Lane);
    }

    /// Nothing is charged now.
    pub fn is_held(&self) -> bool {
        self.breaker.is_held()
    }

    /// Where the breaker stands.
    pub fn breaker(&self, now: Now) -> BreakerView {
        self.rules.breaker.map_or(BreakerView::Off, |_| self.breaker.view(now.mono))
    }
}

impl Window {
    fn has_failed(&self, offset: i64) -> bool {
        let of_suspect = self.suspects.get(&offset).map(|suspect| suspect.reconsume_times);
        of_suspect.is_some_and(|times| times > 0)
            || self.nacked.contains(&offset)
            || self.skipped.contains(&offset)
    }
}
