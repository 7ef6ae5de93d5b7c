//! The breaker of a group: pauses its deliveries while most of its records fail.
//!
//! ```text
//!   Closed ── too many first deliveries failed ──▶ Paused ── the step is over ──▶ Testing
//!     ▲                                              ▲ ╰ step: 1 s, doubled up to 60 s │
//!     ╰── most of the test batch are handled ────────┴── most of the test batch fail ──╯
//! ```
//! Not journalled: after a restart the breaker is closed.

mod outage;

use crate::model::MonoMs;
use crate::retry::BreakerRules;

/// The longest pause.
const STEP_MS_MAX: u64 = 60_000;

/// The state of a group's breaker, for the admin API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerView {
    /// `breaker: off`, or the detector does not track the group.
    #[default]
    Off,
    /// Everything is delivered.
    Closed,
    /// Nothing is delivered.
    Paused {
        /// Time until the test batch.
        test_in_ms: u64,
        /// Test batches in a row that failed.
        failed_tests: u32,
    },
    /// A test batch is delivered.
    Testing {
        /// Records of the batch that are not delivered yet.
        left: u32,
    },
}

/// The settings of a group's breaker.
#[derive(Clone, Copy, Debug)]
pub(in crate::retry) struct BreakerSettings {
    pub(in crate::retry) rules: BreakerRules,
    /// Length of the first pause.
    pub(in crate::retry) step_ms: u64,
    /// Wait for the outcomes of a test batch.
    pub(in crate::retry) patience_ms: u64,
}

/// An event after which deliveries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) enum Turnover {
    Paused,
    /// The test batch begins, or a further one after a batch without an outcome.
    Tested,
    /// Deliveries resume; `since`: start of the pause.
    Closed {
        since: MonoMs,
    },
}

/// The outcomes of first deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::retry) struct DeliveryOutcomes {
    pub(in crate::retry) handled: u32,
    pub(in crate::retry) failed: u32,
}

impl DeliveryOutcomes {
    /// Adds later outcomes. Beyond `most` all are halved, so old ones fade at the same share.
    fn add(&mut self, later: Self, most: u32) {
        self.handled = self.handled.saturating_add(later.handled);
        self.failed = self.failed.saturating_add(later.failed);
        while self.all() > most {
            *self = Self { handled: self.handled / 2, failed: self.failed / 2 };
        }
    }

    fn all(self) -> u32 {
        self.handled.saturating_add(self.failed)
    }
}

#[derive(Debug, Default)]
pub(in crate::retry) struct Breaker {
    /// The latest outcomes since the last turnover.
    outcomes: DeliveryOutcomes,
    /// Time at which the last record was handled.
    handled_at: Option<MonoMs>,
    /// The pause that lasts, or is tested; the breaker is closed without one.
    pause: Option<Pause>,
}

/// A pause, with the test batch that ends it.
#[derive(Debug)]
struct Pause {
    since: MonoMs,
    /// The test batch begins, or is judged, at this time.
    until: MonoMs,
    /// Test batches in a row that failed.
    step: u32,
    test: Option<TestBatch>,
}

#[derive(Clone, Copy, Debug)]
struct TestBatch {
    left: u32,
}

impl Breaker {
    /// Counts first deliveries that ended together.
    pub(in crate::retry) fn note(
        &mut self,
        now: MonoMs,
        settings: &BreakerSettings,
        ended: DeliveryOutcomes,
    ) -> Option<Turnover> {
        if ended.handled > 0 {
            self.handled_at = Some(now);
        }
        if self.is_paused() {
            return None;
        }
        self.outcomes.add(ended, settings.rules.window);
        self.judge(now, settings, false)
    }

    /// Counts a record as failed that was counted as handled.
    pub(in crate::retry) fn belie(
        &mut self,
        now: MonoMs,
        settings: &BreakerSettings,
    ) -> Option<Turnover> {
        if self.pause.is_none() {
            self.outcomes.handled = self.outcomes.handled.saturating_sub(1);
        }
        self.note(now, settings, DeliveryOutcomes { handled: 0, failed: 1 })
    }

    /// `is_late`: the test batch is judged by the outcomes so far.
    fn judge(
        &mut self,
        now: MonoMs,
        settings: &BreakerSettings,
        is_late: bool,
    ) -> Option<Turnover> {
        let (rules, all, failed) = (settings.rules, self.outcomes.all(), self.outcomes.failed);
        let Some(Pause { since, step, .. }) = self.pause else {
            let is_over = failed >= rules.min && is_most(rules, failed, all);
            return is_over.then(|| self.pause(now, settings, (now, 0)));
        };
        if is_most(rules, failed, if is_late { all } else { rules.min }) {
            return Some(self.pause(now, settings, (since, step.saturating_add(1))));
        }
        let is_over = all >= if is_late { 1 } else { rules.min };
        is_over.then(|| {
            self.clear();
            Turnover::Closed { since }
        })
    }

    fn pause(
        &mut self,
        now: MonoMs,
        settings: &BreakerSettings,
        (since, step): (MonoMs, u32),
    ) -> Turnover {
        self.clear();
        let factor = 1_u64.checked_shl(step).unwrap_or(u64::MAX);
        let pause_ms = settings.step_ms.saturating_mul(factor);
        let until = now.plus(pause_ms.min(STEP_MS_MAX.max(settings.step_ms)));
        self.pause = Some(Pause { since, until, step, test: None });
        Turnover::Paused
    }

    fn clear(&mut self) {
        *self = Self { handled_at: self.handled_at, ..Self::default() };
    }

    /// Ends a pause that is over, or judges a test batch.
    pub(in crate::retry) fn handle_timeout(
        &mut self,
        now: MonoMs,
        settings: &BreakerSettings,
    ) -> Option<Turnover> {
        let is_testing = self.pause.as_ref().filter(|pause| pause.until <= now)?.test.is_some();
        // Without an outcome more records are delivered.
        if is_testing && let Some(turnover) = self.judge(now, settings, true) {
            return Some(turnover);
        }
        let pause = self.pause.as_mut()?;
        pause.test = Some(TestBatch { left: settings.rules.min });
        pause.until = now.plus(settings.patience_ms);
        Some(Turnover::Tested)
    }

    /// Counts delivered records of the test batch.
    pub(in crate::retry) fn given(&mut self, now: MonoMs, settings: &BreakerSettings, count: u32) {
        if let Some(Pause { test: Some(batch), until, .. }) = &mut self.pause
            && count > 0
        {
            batch.left = batch.left.saturating_sub(count);
            *until = now.plus(settings.patience_ms);
        }
    }

    /// First deliveries that may leave now; `None`: any number.
    pub(in crate::retry) fn room(&self) -> Option<u32> {
        let pause = self.pause.as_ref()?;
        Some(pause.test.map_or(0, |batch| batch.left))
    }

    /// When [`Breaker::handle_timeout`] is due.
    pub(in crate::retry) fn poll_timeout(&self) -> Option<MonoMs> {
        self.pause.as_ref().map(|pause| pause.until)
    }

    /// Whether a record was handled after that time.
    pub(in crate::retry) fn has_handled_since(&self, then: MonoMs) -> bool {
        self.handled_at.is_some_and(|at| at > then)
    }

    /// Switches the breaker off. Returns the start of the pause, if deliveries were paused.
    pub(in crate::retry) fn reset(&mut self) -> Option<MonoMs> {
        std::mem::take(self).pause.map(|pause| pause.since)
    }

    pub(in crate::retry) fn is_closed(&self) -> bool {
        self.pause.is_none()
    }

    pub(in crate::retry) fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.test.is_none())
    }

    pub(in crate::retry) fn is_testing(&self) -> bool {
        !self.is_closed() && !self.is_paused()
    }

    pub(in crate::retry) fn view(&self, now: MonoMs) -> BreakerView {
        match &self.pause {
            None => BreakerView::Closed,
            Some(Pause { test: Some(batch), .. }) => BreakerView::Testing { left: batch.left },
            Some(Pause { until, step, .. }) => {
                BreakerView::Paused { test_in_ms: until.since(now), failed_tests: *step }
            }
        }
    }
}

/// Whether more than `ratio` of these failed.
fn is_most(rules: BreakerRules, failed: u32, all: u32) -> bool {
    u64::from(failed) * 100 > u64::from(all) * u64::from(rules.ratio_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules { ratio_percent: 50, window: 100, min: 20 };
    const SETTINGS: BreakerSettings =
        BreakerSettings { rules: RULES, step_ms: 1_000, patience_ms: 5_000 };
    const NOW: MonoMs = MonoMs(0);

    fn handled(handled: u32) -> DeliveryOutcomes {
        DeliveryOutcomes { handled, failed: 0 }
    }

    fn failed(failed: u32) -> DeliveryOutcomes {
        DeliveryOutcomes { handled: 0, failed }
    }

    #[test]
    fn a_commit_beyond_the_window_counts_by_its_share() {
        let mut breaker = Breaker::default();
        let third = DeliveryOutcomes { handled: 333, failed: 167 };
        assert_eq!(breaker.note(NOW, &SETTINGS, third), None);
        let most = DeliveryOutcomes { handled: 100, failed: 400 };
        assert_eq!(breaker.note(NOW, &SETTINGS, most), Some(Turnover::Paused));
    }

    fn paused() -> Breaker {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.note(NOW, &SETTINGS, failed(20)), Some(Turnover::Paused));
        breaker
    }

    /// A breaker whose test batch has just begun, and the time of that.
    fn tested() -> (Breaker, MonoMs) {
        let (mut breaker, at) = (paused(), MonoMs(1_000));
        assert_eq!(breaker.handle_timeout(at, &SETTINGS), Some(Turnover::Tested));
        (breaker, at)
    }

    #[test]
    fn most_of_the_last_outcomes_pause_the_group() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.note(NOW, &SETTINGS, handled(50)), None);
        for _ in 0..51 {
            assert_eq!(breaker.note(NOW, &SETTINGS, failed(1)), None, "half of them");
        }
        assert_eq!(breaker.outcomes, DeliveryOutcomes { handled: 25, failed: 25 }, "they fade");
        assert_eq!(breaker.note(NOW, &SETTINGS, failed(1)), Some(Turnover::Paused));
        assert_eq!(breaker.room(), Some(0));
    }

    #[test]
    fn fewer_failures_than_min_pause_nothing() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.note(NOW, &SETTINGS, failed(19)), None);
        assert_eq!(breaker.room(), None);
    }

    #[test]
    fn a_nack_behind_its_commit_takes_the_success_back() {
        let mut breaker = Breaker::default();
        for _ in 0..20 {
            breaker.note(NOW, &SETTINGS, handled(1));
        }
        let belied: Vec<_> = (0..20).filter_map(|_| breaker.belie(NOW, &SETTINGS)).collect();
        assert_eq!(belied, [Turnover::Paused]);
    }

    #[test]
    fn a_pause_ends_with_a_test_batch() {
        let (mut breaker, at) = tested();
        assert_eq!(breaker.room(), Some(20));
        breaker.given(at, &SETTINGS, 20);
        assert_eq!(breaker.room(), Some(0));
        assert_eq!(breaker.note(at, &SETTINGS, failed(10)), None);
        let closed = Some(Turnover::Closed { since: NOW });
        assert_eq!(breaker.note(at, &SETTINGS, handled(10)), closed);
        assert!(breaker.is_closed());
    }

    #[test]
    fn a_test_batch_that_fails_doubles_the_step() {
        let mut breaker = paused();
        let mut at = NOW;
        for (step, pause_ms) in (0..).zip([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]) {
            let view = BreakerView::Paused { test_in_ms: pause_ms, failed_tests: step };
            assert_eq!(breaker.view(at), view);
            at = at.plus(pause_ms);
            breaker.handle_timeout(at, &SETTINGS);
            assert_eq!(breaker.note(at, &SETTINGS, failed(10)), None);
            assert_eq!(breaker.note(at, &SETTINGS, failed(1)), Some(Turnover::Paused));
        }
    }

    #[test]
    fn a_small_test_batch_is_judged_in_time() {
        for (has_failed, turnover) in
            [(true, Turnover::Paused), (false, Turnover::Closed { since: NOW })]
        {
            let (mut breaker, at) = tested();
            breaker.given(at, &SETTINGS, 1);
            assert_eq!(
                breaker.note(at, &SETTINGS, if has_failed { failed(1) } else { handled(1) }),
                None
            );
            assert_eq!(breaker.handle_timeout(at.plus(4_999), &SETTINGS), None);
            assert_eq!(breaker.handle_timeout(at.plus(5_000), &SETTINGS), Some(turnover));
        }
    }

    #[test]
    fn outcomes_of_a_pause_count_nothing() {
        let mut breaker = paused();
        assert_eq!(breaker.note(NOW, &SETTINGS, handled(100)), None);
        assert_eq!(breaker.reset(), Some(NOW));
        assert_eq!(breaker.note(NOW, &SETTINGS, failed(19)), None);
    }
}
