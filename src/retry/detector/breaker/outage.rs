//! The breaker: the outcomes it counts, and the deliveries it pauses.

use std::ops::Range;

use crate::model::{Moment, MonoMs, TopicPartition};
use crate::retry::detector::{
    BreakerSettings, BreakerView, DeliveredRange, DeliveryOutcomes, Detector, DetectorOutput,
    FetchDecision, FetchPosition, Plan, Turnover, Window,
};

impl Detector {
    /// Counts delivered records towards the test batch.
    pub(in crate::retry) fn count_handed(&mut self, now: Moment, left: &DeliveredRange) {
        let Some(settings) = self.breaker_settings() else { return };
        if let Some(window) = self.windows.get_mut(&left.partition) {
            window.uncounted = window.uncounted.saturating_add(left.records());
        }
        let records = if left.turn.is_some() { 1 } else { left.records() };
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        self.breaker.given(now.mono, &settings, records);
    }

    /// Counts the first deliveries that a commit ends: the nacked ones failed.
    pub(in crate::retry) fn count_committed(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        offset: i64,
    ) {
        if self.rules.breaker.is_none() {
            return;
        }
        let Some(window) = self.windows.get_mut(of) else { return };
        let ended = window.ended_by(offset);
        self.note(now, ended);
    }

    /// Counts the first nack of an awaited record. No commit passes such a record soon, so the nack
    /// is the outcome.
    pub(in crate::retry) fn count_awaited(&mut self, now: Moment) {
        self.note(now, DeliveryOutcomes { handled: 0, failed: 1 });
    }

    /// Counts a nack of a record that a commit has passed.
    pub(in crate::retry) fn count_belied(&mut self, now: Moment) {
        let Some(settings) = self.breaker_settings() else { return };
        let turnover = self.breaker.belie(now.mono, &settings);
        self.turn_over(now, turnover);
    }

    fn note(&mut self, now: Moment, ended: DeliveryOutcomes) {
        let Some(settings) = self.breaker_settings() else { return };
        let turnover = self.breaker.note(now.mono, &settings, ended);
        self.turn_over(now, turnover);
    }

    /// Ends a pause that is over, or judges a test batch.
    pub(in crate::retry) fn expire_breaker(&mut self, now: Moment) {
        let Some(settings) = self.breaker_settings() else { return };
        let turnover = self.breaker.handle_timeout(now.mono, &settings);
        self.turn_over(now, turnover);
    }

    fn turn_over(&mut self, now: Moment, turnover: Option<Turnover>) {
        match turnover {
            None => return,
            Some(Turnover::Paused) => self.push(DetectorOutput::Held(true)),
            Some(Turnover::Tested) => {}
            Some(Turnover::Closed { since }) => {
                self.was_held(now, since);
                self.push(DetectorOutput::Held(false));
            }
        }
        self.push(DetectorOutput::Wake);
    }

    fn breaker_settings(&self) -> Option<BreakerSettings> {
        let rules = self.rules.breaker?;
        let patience_ms = self.rules.isolation_timeout_ms;
        Some(BreakerSettings { rules, step_ms: self.rules.interval_ms, patience_ms })
    }

    /// Moves the start of all waits by the length of a pause: no member was slow meanwhile.
    pub(in crate::retry) fn was_held(&mut self, now: Moment, since: MonoMs) {
        for awaited in self.windows.values_mut().filter_map(|window| window.awaited.as_mut()) {
            let held_ms = now.mono.since(since.max(awaited.since));
            awaited.since = awaited.since.plus(held_ms);
        }
    }

    /// The plan for a Fetch of a paused group, or of one whose test batch has left.
    pub(in crate::retry) fn paused(&self, asked: &[FetchPosition]) -> Option<Plan> {
        (self.breaker.room() == Some(0)).then(|| Plan {
            serve: asked.iter().map(|_| FetchDecision::Nothing).collect(),
            until: self.breaker.poll_timeout(),
        })
    }

    /// The order in which the partitions of a Fetch get a record of the test batch. The partition
    /// without a delivery for longest is first; `None`: no test.
    pub(in crate::retry) fn test_places(&self, asked: &[FetchPosition]) -> Option<Vec<usize>> {
        if !self.breaker.is_testing() {
            return None;
        }
        let handed_at = |ask: &FetchPosition| {
            self.windows.get(&ask.partition).map_or(MonoMs::default(), |window| window.handed_at)
        };
        let mut line: Vec<usize> = (0..asked.len()).collect();
        line.sort_by_key(|nth| asked.get(*nth).map(handed_at));
        let mut places = vec![0; line.len()];
        for (place, nth) in line.into_iter().enumerate() {
            if let Some(of) = places.get_mut(nth) {
                *of = place;
            }
        }
        Some(places)
    }

    /// Whether failures do not count.
    pub fn is_paused(&self) -> bool {
        self.breaker.is_paused()
    }

    /// Whether deliveries are paused or tested.
    pub fn is_held(&self) -> bool {
        !self.breaker.is_closed()
    }

    /// Whether the last failure of a record that its partition waits for counts: with a breaker, a
    /// record of the group was handled since `since`, or `give_up_after` is over.
    pub(in crate::retry) fn may_end(&self, now: MonoMs, since: MonoMs) -> bool {
        if self.rules.breaker.is_none() || self.breaker.has_handled_since(since) {
            return true;
        }
        self.rules.give_up_after_ms.is_some_and(|after| now.since(since) >= after)
    }

    pub fn breaker(&self, now: Moment) -> BreakerView {
        self.rules.breaker.map_or(BreakerView::Off, |_| self.breaker.view(now.mono))
    }
}

impl Window {
    /// The first deliveries that a commit of `offset` ends.
    fn ended_by(&mut self, offset: i64) -> DeliveryOutcomes {
        let passed = self.committed.unwrap_or(self.from)..offset.min(self.end.max(self.furthest));
        if passed.is_empty() {
            return DeliveryOutcomes::default();
        }
        let all = passed.end.abs_diff(passed.start);
        let hidden: u64 = self.hidden.iter().map(|run| overlap(run, &passed)).sum();
        let nacked = self.nacked.range(passed.clone()).count();
        let settled = self.skipped.range(passed.clone()).count();
        let suspected = self.suspects.range(passed).count();
        let others = u64::try_from(nacked + settled + suspected).unwrap_or(u64::MAX);
        // Entries behind another record of their key are among the nacked ones and did not fail.
        let failed = self.failed.min(u32::try_from(nacked).unwrap_or(u32::MAX));
        self.failed -= failed;
        self.uncounted = self.uncounted.saturating_sub(u64::from(failed));
        let handled = all.saturating_sub(hidden).saturating_sub(others).min(self.uncounted);
        self.uncounted -= handled;
        DeliveryOutcomes { handled: u32::try_from(handled).unwrap_or(u32::MAX), failed }
    }
}

impl DeliveredRange {
    /// Delivered records, without gaps and offsets that hold no record.
    fn records(&self) -> u64 {
        let all = u64::try_from(self.end.saturating_sub(self.from)).unwrap_or(0);
        let run = self.from..self.end;
        let hidden: u64 = self.hidden.iter().map(|hidden| overlap(hidden, &run)).sum();
        let gaps: u64 = self
            .sparse
            .iter()
            .map(|batch| overlap(&batch.run, &run).saturating_sub(u64::from(batch.records)))
            .sum();
        all.saturating_sub(hidden).saturating_sub(gaps)
    }
}

fn overlap(one: &Range<i64>, other: &Range<i64>) -> u64 {
    let (start, end) = (one.start.max(other.start), one.end.min(other.end));
    u64::try_from(end.saturating_sub(start)).unwrap_or(0)
}
