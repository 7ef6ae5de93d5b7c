//! The outage breaker: what it counts, and what that does to the group.

use std::collections::BTreeSet;

use crate::model::{LaneOffset, MemberId, MonoMs, Now, TopicPartition};
use crate::retry::BreakerRules;
use crate::retry::watch::{
    BreakerView, FirstFailure, Handed, Outcome, Output, Probe, Watch, Window,
};

impl Watch {
    /// Records leave: their first deliveries begin.
    pub(in crate::retry) fn begin_firsts(&mut self, now: Now, left: &Handed) {
        if self.rules.breaker.is_some()
            && let Some(window) = self.windows.get_mut(&left.partition)
        {
            window.firsts.handed(now.mono, left.from..left.end, &left.hidden, &left.sparse);
        }
    }

    /// A commit ends first deliveries: those that were nacked, or are at their end, have failed.
    pub(in crate::retry) fn count_committed(&mut self, now: Now, of: &TopicPartition, offset: i64) {
        let Some(rules) = self.rules.breaker else { return };
        let most = usize::try_from(rules.window).unwrap_or(usize::MAX);
        let Some(window) = self.windows.get_mut(of) else { return };
        let failed = window.failed_below(offset);
        let ended = window.firsts.commit(offset, most, &failed);
        for ended in ended {
            let outcome =
                if ended.has_failed { Outcome::Failed } else { Outcome::Handled(ended.handed_at) };
            self.count(now, Some((of.clone(), ended.offset)), &outcome);
        }
        let is_passed = |probe: &Probe| match probe {
            Probe::Record(partition, probe) => partition == of && *probe < offset,
            Probe::Lane(..) => false,
        };
        self.on_probe_succeeded(now, is_passed);
    }

    /// The group goes on at an offset that no member has committed: nothing is told of what lies
    /// below, or of what is handed out again.
    pub(in crate::retry) fn skip_firsts(&mut self, of: &TopicPartition, offset: i64) {
        let is_its =
            |probe: &Probe| matches!(probe, Probe::Record(partition, _) if partition == of);
        self.breaker.forget_probes(is_its);
        if let Some(window) = self.windows.get_mut(of) {
            window.firsts.skip_to(offset);
        }
    }

    /// Inference is about to charge a record; whether it may.
    pub(in crate::retry) fn counts(&mut self, now: Now, of: &TopicPartition, offset: i64) -> bool {
        if self.breaker.is_held() {
            return self.is_blamed(of, offset);
        }
        if self.rules.breaker.is_some()
            && let Some(window) = self.windows.get_mut(of)
            && window.firsts.failed(offset) == FirstFailure::Ends
        {
            self.count(now, Some((of.clone(), offset)), &Outcome::Failed);
        }
        true
    }

    /// Whether a record may come to its end in its own place, should so many failures more be its
    /// last: where no other one was handled since it began to fail it is an outage, as far as
    /// anybody knows, and the group is held.
    pub(in crate::retry) fn may_end(
        &mut self,
        now: Now,
        (of, offset): (&TopicPartition, i64),
        limit: u32,
        times: u32,
    ) -> bool {
        if self.breaker.is_held() {
            return self.is_blamed(of, offset);
        }
        let known = self.windows.get(of).and_then(|window| window.suspects.get(&offset));
        let known = known.filter(|known| known.reconsume_times.saturating_add(times) > limit);
        // The first failure of a record ends it where there are no retries.
        let since = known.and_then(|known| known.since).filter(|_| limit > 0);
        if self.rules.breaker.is_none() || since.is_none_or(|at| self.breaker.has_handled_since(at))
        {
            return true;
        }
        self.breaker.hold_now(now.mono, self.rules.interval_ms);
        self.is_held_now();
        false
    }

    /// A failure is said of a record that a commit has passed.
    pub(in crate::retry) fn on_belied(&mut self, now: Now, of: &TopicPartition, offset: i64) {
        let Some(by) = self.by_rules() else { return };
        let Some(window) = self.windows.get_mut(of) else { return };
        let is_news = window.firsts.failed(offset) == FirstFailure::Belies;
        if is_news && self.breaker.belied(now.mono, by, of, offset) {
            self.is_held_now();
        }
    }

    fn count(&mut self, now: Now, of: Option<(TopicPartition, i64)>, outcome: &Outcome) {
        let Some(by) = self.by_rules() else { return };
        if self.breaker.note(now.mono, by, of, outcome) {
            self.is_held_now();
        }
    }

    fn by_rules(&self) -> Option<(BreakerRules, u64)> {
        Some((self.rules.breaker?, self.rules.interval_ms))
    }

    /// The group is held from now on.
    fn is_held_now(&mut self) {
        self.join_all_apart();
        self.push(Output::Held(true));
        self.push(Output::Wake);
    }

    /// A probe has failed, if it is one of these; which, if it is the record and no outage.
    pub(in crate::retry) fn on_probe_failed(
        &mut self,
        now: Now,
        is_it: impl Fn(&Probe) -> bool,
    ) -> Option<Probe> {
        let failed = self.breaker.probe_failed(now.mono, self.rules.interval_ms, is_it)?;
        self.push(Output::Wake);
        let is_blamed = self.breaker.probes()?.is_blamed(|blamed| *blamed == failed);
        is_blamed.then_some(failed)
    }

    /// The same of a record, if it is one.
    pub(in crate::retry) fn on_record_probe_failed(
        &mut self,
        now: Now,
        of: &TopicPartition,
        offset: i64,
    ) {
        self.on_probe_failed(
            now,
            |probe| matches!(probe, Probe::Record(known, probe) if *probe == offset && known == of),
        );
    }

    fn on_probe_succeeded(&mut self, now: Now, is_it: impl Fn(&Probe) -> bool) {
        if let Some(since) = self.breaker.probe_succeeded(is_it) {
            self.release(now, since);
        }
    }

    /// The group is held no more; since when it was.
    fn release(&mut self, now: Now, since: MonoMs) {
        self.was_held(now, since);
        self.push(Output::Held(false));
        self.push(Output::Wake);
    }

    /// The group was held since then: no member was slow meanwhile.
    pub(in crate::retry) fn was_held(&mut self, now: Now, since: MonoMs) {
        for awaited in self.windows.values_mut().filter_map(|window| window.awaited.as_mut()) {
            let held_ms = now.mono.since(since.max(awaited.since));
            awaited.since = awaited.since.plus(held_ms);
        }
    }

    /// A member is gone, and what it was given as a probe with it: records, each with its
    /// partition; retries of its slot.
    pub(in crate::retry) fn on_prober_gone(&mut self, now: Now, member: &MemberId) {
        let held = self.held_by(member);
        let slot = self.lanes.slot_of(member);
        let blamed = self.on_probe_failed(now, |probe| match probe {
            Probe::Record(partition, _) => held.contains(partition),
            Probe::Lane(lane, _) => Some(lane.slot) == slot,
        });
        // The record ends its consumer: suspects find it while everything else is delivered.
        if let Some(since) = blamed.and_then(|_| self.breaker.reset()) {
            self.release(now, since);
        }
    }

    /// A retry was acknowledged: while records go one by one, one that succeeded.
    pub(in crate::retry) fn on_lane_done(&mut self, now: Now, up_to: LaneOffset) {
        if self.breaker.is_ramping() {
            self.count(now, None, &Outcome::Handled(MonoMs::default()));
        }
        let is_passed = |probe: &Probe| match probe {
            Probe::Lane(lane, _) => lane.slot == up_to.slot && lane.sequence < up_to.sequence,
            Probe::Record(..) => false,
        };
        self.on_probe_succeeded(now, is_passed);
    }

    /// One has failed, durably.
    pub(in crate::retry) fn on_lane_failed(&mut self, now: Now, lane: LaneOffset) {
        if self.breaker.is_ramping() {
            self.count(now, None, &Outcome::Failed);
        }
        self.on_probe_failed(now, |probe| matches!(probe, Probe::Lane(known, _) if *known == lane));
    }

    /// Whether the failure of a record is not charged: the group is held, and not for its sake.
    pub fn is_spared(&self, of: &TopicPartition, offset: i64) -> bool {
        if self.breaker.is_held() {
            return !self.is_blamed(of, offset);
        }
        self.breaker.goes_on_by(of, offset)
    }

    /// The same of a retry, as it was handed out.
    pub fn is_lane_spared(&self, lane: LaneOffset) -> bool {
        let Some(probes) = self.breaker.probes() else { return false };
        let entry = probes.entry_of(lane);
        let is_it =
            |blamed: &Probe| matches!(blamed, Probe::Lane(_, known) if Some(*known) == entry);
        !probes.is_blamed(is_it)
    }

    /// Every probe was this record, and failed.
    pub(in crate::retry) fn is_blamed(&self, of: &TopicPartition, offset: i64) -> bool {
        let is_it = |blamed: &Probe| match blamed {
            Probe::Record(partition, probe) => *probe == offset && partition == of,
            Probe::Lane(..) => false,
        };
        self.breaker.probes().is_some_and(|probes| probes.is_blamed(is_it))
    }

    /// Nothing is charged now, but for a record that is blamed for it.
    pub fn is_held(&self) -> bool {
        self.breaker.is_held()
    }

    /// Where the breaker stands.
    pub fn breaker(&self, now: Now) -> BreakerView {
        self.rules.breaker.map_or(BreakerView::Off, |_| self.breaker.view(now.mono))
    }
}

impl Window {
    /// Records that failed, of those that are open.
    fn failed_below(&self, offset: i64) -> BTreeSet<i64> {
        let suspects = self.suspects.range(..offset);
        let charged = suspects.filter(|(_, suspect)| suspect.reconsume_times > 0);
        let charged = charged.map(|(offset, _)| offset);
        let said = self.nacked.range(..offset).chain(self.skipped.range(..offset));
        charged.chain(said).copied().collect()
    }
}
