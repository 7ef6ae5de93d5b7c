//! The outage breaker of a group: when failures stop being the exception, it is not the records.
//!
//! ```text
//!   Closed ── too many first deliveries failed ──▶ Held ── a probe succeeds ──▶ Ramping ──▶ Closed
//!                                                   ▲ ╰─ a probe fails: longer    │
//!                                                   ╰─────── too many fail ───────╯
//! ```
//! Not journalled: a restart begins closed, with nothing counted.

use std::collections::VecDeque;

use crate::model::{MonoMs, TopicPartition};
use crate::retry::BreakerRules;
use crate::retry::watch::{Asker, Probe, Probes};

/// The longest time between two probes.
const STEP_MS_MAX: u64 = 60_000;
/// Records that go one by one after the first success, of which not more may fail than of any.
const RAMP: u32 = 10;
/// From this step on askers come in turns.
const STEP_OF_TURNS: u32 = 2;

/// Where the breaker of a group stands, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerView {
    /// `breaker: off`, or nobody watches.
    #[default]
    Off,
    /// Everything flows.
    Closed,
    /// Nothing is given but probes; the next one in so many milliseconds.
    Held {
        /// Until then nothing is given.
        probe_in_ms: u64,
        /// Probes that failed in a row.
        failed_probes: u32,
    },
    /// Records go one by one.
    Ramping,
}

/// A record of a real partition.
type Record = (TopicPartition, i64);

/// How a first delivery ended, in the breaker's memory.
#[derive(Debug)]
struct Known {
    /// `None`: a retry's, where they count too.
    of: Option<Record>,
    has_failed: bool,
}

/// How a first delivery ended.
#[derive(Debug)]
pub(in crate::retry) enum Outcome {
    /// It was handled; when it was handed out.
    Handled(MonoMs),
    Failed,
}

#[derive(Debug, Default)]
pub(in crate::retry) struct Breaker {
    /// Of the last first deliveries.
    outcomes: VecDeque<Known>,
    failed: usize,
    /// The latest hand-out of a record that was handled.
    handled_at: Option<MonoMs>,
    stand: Stand,
}

#[derive(Debug, Default)]
enum Stand {
    #[default]
    Closed,
    Held {
        since: MonoMs,
        next: MonoMs,
        /// When `next` was the end of a step.
        due: MonoMs,
        step: u32,
        probes: Probes,
    },
    Ramping {
        left: u32,
        failed: u32,
        step: u32,
        /// Whose success it was.
        by: Probe,
    },
}

impl Breaker {
    /// A first delivery came to its end; whether the group is held from now on.
    pub(in crate::retry) fn note(
        &mut self,
        now: MonoMs,
        (rules, interval_ms): (BreakerRules, u64),
        of: Option<Record>,
        outcome: &Outcome,
    ) -> bool {
        let has_failed = matches!(outcome, Outcome::Failed);
        if let Outcome::Handled(handed_at) = outcome {
            self.handled_at = self.handled_at.max(Some(*handed_at));
        }
        match &mut self.stand {
            Stand::Held { .. } => return false,
            Stand::Ramping { left, failed, step, .. } => {
                *left = left.saturating_sub(1);
                *failed = failed.saturating_add(u32::from(has_failed));
                let (step, is_over) = (*step, too_many_of_ramp(rules, *failed));
                if *left == 0 {
                    self.stand = Stand::Closed;
                }
                if is_over {
                    self.hold(now, interval_ms, step.saturating_add(1));
                }
                return is_over;
            }
            Stand::Closed => {}
        }
        self.outcomes.push_back(Known { of, has_failed });
        self.failed = self.failed.saturating_add(usize::from(has_failed));
        while self.outcomes.len() > size(rules.window) {
            let was_failed = self.outcomes.pop_front().is_some_and(|outcome| outcome.has_failed);
            self.failed = self.failed.saturating_sub(usize::from(was_failed));
        }
        self.holds_if_too_many(now, (rules, interval_ms))
    }

    /// A first delivery that was taken for a success has failed; whether the group is held now.
    pub(in crate::retry) fn belied(
        &mut self,
        now: MonoMs,
        (rules, interval_ms): (BreakerRules, u64),
        of: &TopicPartition,
        offset: i64,
    ) -> bool {
        match &mut self.stand {
            Stand::Held { .. } => false,
            Stand::Ramping { failed, step, by, .. } => {
                *failed = failed.saturating_add(1);
                let is_its = matches!(by, Probe::Record(p, o) if p == of && *o == offset);
                let (step, is_over) = (*step, is_its || too_many_of_ramp(rules, *failed));
                if is_over {
                    self.hold(now, interval_ms, step.saturating_add(1));
                }
                is_over
            }
            Stand::Closed => {
                let is_it = |outcome: &&mut Known| {
                    outcome.of.as_ref().is_some_and(|(p, o)| *o == offset && p == of)
                };
                let Some(outcome) = self.outcomes.iter_mut().rev().find(is_it) else {
                    let of = Some((of.clone(), offset));
                    return self.note(now, (rules, interval_ms), of, &Outcome::Failed);
                };
                let is_news = !std::mem::replace(&mut outcome.has_failed, true);
                self.failed = self.failed.saturating_add(usize::from(is_news));
                self.holds_if_too_many(now, (rules, interval_ms))
            }
        }
    }

    fn holds_if_too_many(
        &mut self,
        now: MonoMs,
        (rules, interval_ms): (BreakerRules, u64),
    ) -> bool {
        let share = self.failed.saturating_mul(100);
        let most = self.outcomes.len().saturating_mul(size(rules.ratio_percent));
        let is_over = self.failed >= size(rules.min) && share > most;
        if is_over {
            self.hold(now, interval_ms, 0);
        }
        is_over
    }

    /// The group is held, or still is.
    fn hold(&mut self, now: MonoMs, interval_ms: u64, step: u32) {
        (self.outcomes, self.failed) = (VecDeque::new(), 0);
        let (since, probes) = match std::mem::take(&mut self.stand) {
            Stand::Held { since, probes, .. } => (since, probes),
            _ => (now, Probes::default()),
        };
        let next = now.plus(step_ms(interval_ms, step));
        self.stand = Stand::Held { since, next, due: next, step, probes };
    }

    /// Whatever was counted: the group is held from now on.
    pub(in crate::retry) fn hold_now(&mut self, now: MonoMs, interval_ms: u64) {
        let step = match &self.stand {
            Stand::Ramping { step, .. } => step.saturating_add(1),
            _ => 0,
        };
        self.hold(now, interval_ms, step);
    }

    /// A record that was handed out after that was handled.
    pub(in crate::retry) fn has_handled_since(&self, then: MonoMs) -> bool {
        self.handled_at.is_some_and(|at| at > then)
    }

    /// The operator switched it off; since when the group was held, if it was.
    pub(in crate::retry) fn reset(&mut self) -> Option<MonoMs> {
        let since = self.held_since();
        *self = Self::default();
        since
    }

    pub(in crate::retry) fn held_since(&self) -> Option<MonoMs> {
        match &self.stand {
            Stand::Held { since, .. } => Some(*since),
            _ => None,
        }
    }

    pub(in crate::retry) fn is_held(&self) -> bool {
        self.held_since().is_some()
    }

    pub(in crate::retry) fn is_ramping(&self) -> bool {
        matches!(self.stand, Stand::Ramping { .. })
    }

    /// The group goes on because this record succeeded.
    pub(in crate::retry) fn goes_on_by(&self, of: &TopicPartition, offset: i64) -> bool {
        let Stand::Ramping { by: Probe::Record(known, probe), .. } = &self.stand else {
            return false;
        };
        *probe == offset && known == of
    }

    pub(in crate::retry) fn probes(&self) -> Option<&Probes> {
        match &self.stand {
            Stand::Held { probes, .. } => Some(probes),
            _ => None,
        }
    }

    pub(in crate::retry) fn probes_mut(&mut self) -> Option<&mut Probes> {
        match &mut self.stand {
            Stand::Held { probes, .. } => Some(probes),
            _ => None,
        }
    }

    /// While held: whether this asker may have the next probe, and until when; otherwise when to
    /// ask again.
    pub(in crate::retry) fn lend(&mut self, now: MonoMs, asker: Asker) -> Result<MonoMs, MonoMs> {
        let Stand::Held { next, due, step, probes, .. } = &mut self.stand else { return Ok(now) };
        probes.asks(now, asker);
        if *next > now {
            return Err(*next);
        }
        probes.lend(now, (*due, *step < STEP_OF_TURNS), asker)
    }

    /// A probe has left; another one follows if nothing is heard of it while patience lasts.
    pub(in crate::retry) fn given(
        &mut self,
        now: MonoMs,
        patience_ms: u64,
        by: Asker,
        probe: Probe,
    ) {
        if let Stand::Held { next, probes, .. } = &mut self.stand {
            probes.given(by, probe);
            *next = now.plus(patience_ms);
        }
    }

    /// A probe failed, or went with its member: which.
    pub(in crate::retry) fn probe_failed(
        &mut self,
        now: MonoMs,
        interval_ms: u64,
        is_it: impl Fn(&Probe) -> bool,
    ) -> Option<Probe> {
        let Stand::Held { step, probes, .. } = &mut self.stand else { return None };
        let failed = probes.take(is_it).into_iter().next()?;
        probes.blame(&failed);
        let step = step.saturating_add(1);
        self.hold(now, interval_ms, step);
        Some(failed)
    }

    /// Probes that nobody waits for any more: nothing is learnt of them.
    pub(in crate::retry) fn forget_probes(&mut self, is_it: impl Fn(&Probe) -> bool) {
        if let Some(probes) = self.probes_mut() {
            probes.take(is_it);
        }
    }

    /// A probe succeeded, if it is one of these; since when the group was held.
    pub(in crate::retry) fn probe_succeeded(
        &mut self,
        is_it: impl Fn(&Probe) -> bool,
    ) -> Option<MonoMs> {
        let Stand::Held { since, step, probes, .. } = &mut self.stand else { return None };
        let (since, step) = (*since, *step);
        let by = probes.take(is_it).into_iter().next_back()?;
        self.stand = Stand::Ramping { left: RAMP, failed: 0, step, by };
        self.handled_at = self.handled_at.max(Some(since));
        Some(since)
    }

    pub(in crate::retry) fn view(&self, now: MonoMs) -> BreakerView {
        match &self.stand {
            Stand::Closed => BreakerView::Closed,
            Stand::Ramping { .. } => BreakerView::Ramping,
            Stand::Held { next, step, .. } => {
                BreakerView::Held { probe_in_ms: next.since(now), failed_probes: *step }
            }
        }
    }
}

/// More of those that go one by one have failed than of any.
fn too_many_of_ramp(rules: BreakerRules, failed: u32) -> bool {
    failed.saturating_mul(100) > rules.ratio_percent.saturating_mul(RAMP)
}

fn step_ms(interval_ms: u64, step: u32) -> u64 {
    let factor = 1_u64.checked_shl(step).unwrap_or(u64::MAX);
    interval_ms.saturating_mul(factor).min(STEP_MS_MAX.max(interval_ms))
}

fn size(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules { ratio_percent: 50, window: 100, min: 20 };
    const NOW: MonoMs = MonoMs(0);
    const BY: (BreakerRules, u64) = (RULES, 1_000);
    const ASKER: Asker = Asker { conn: 1, for_lane: false };

    fn of() -> TopicPartition {
        TopicPartition { topic: "orders".into(), partition: 0 }
    }

    fn noted(breaker: &mut Breaker, outcomes: impl IntoIterator<Item = bool>) -> Option<usize> {
        let outcome = |failed| if failed { Outcome::Failed } else { Outcome::Handled(NOW) };
        outcomes.into_iter().position(|failed| breaker.note(NOW, BY, None, &outcome(failed)))
    }

    /// Gives a probe and tells what became of it.
    fn probed(breaker: &mut Breaker, offset: i64, has_failed: bool) {
        breaker.given(NOW, 1_000, ASKER, Probe::Record(of(), offset));
        if has_failed {
            breaker.probe_failed(NOW, 1_000, |_| true);
        } else {
            breaker.probe_succeeded(|_| true);
        }
    }

    fn next(breaker: &Breaker) -> u64 {
        match breaker.view(NOW) {
            BreakerView::Held { probe_in_ms, .. } => probe_in_ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_takes_more_than_the_ratio_of_the_last_ones_and_so_many() {
        assert_eq!(noted(&mut Breaker::default(), [true; 40]), Some(19), "the twentieth");
        let half = (0..1_000).map(|n| n % 2 == 0);
        assert_eq!(noted(&mut Breaker::default(), half), Some(38), "20 of 39 are more than half");
        let after_health = [false; 500].into_iter().chain([true; 100]);
        assert_eq!(noted(&mut Breaker::default(), after_health), Some(550), "51 of the last 100");
        let a_third = (0..1_000).map(|n| n % 3 == 0);
        assert_eq!(noted(&mut Breaker::default(), a_third), None);
    }

    #[test]
    fn each_probe_that_fails_doubles_the_time_and_one_that_succeeds_ends_it() {
        let mut breaker = Breaker::default();
        noted(&mut breaker, [true; 20]);
        let mut waits = Vec::new();
        for n in 0..8 {
            waits.push(next(&breaker));
            probed(&mut breaker, n, true);
        }
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        probed(&mut breaker, 9, false);
        assert!(breaker.is_ramping() && !breaker.is_held());
        assert_eq!(noted(&mut breaker, [false; 10]), None);
        assert_eq!(breaker.view(NOW), BreakerView::Closed);
        assert_eq!(noted(&mut breaker, [true; 20]), Some(19), "nothing of before is counted");
        assert_eq!(next(&breaker), 1_000, "it begins anew");
    }

    #[test]
    fn on_the_way_up_no_more_may_fail_than_of_any_records() {
        let on_the_way = |step: i64| {
            let mut breaker = Breaker::default();
            noted(&mut breaker, [true; 20]);
            (0..step).for_each(|n| probed(&mut breaker, n, true));
            probed(&mut breaker, step, false);
            breaker
        };
        let mut breaker = on_the_way(2);
        let half = [true, false].into_iter().cycle().take(10);
        assert_eq!(noted(&mut breaker, half), None);
        assert_eq!(breaker.view(NOW), BreakerView::Closed);
        let mut breaker = on_the_way(2);
        assert_eq!(noted(&mut breaker, [true; 10]), Some(5), "the sixth of ten");
        assert_eq!(next(&breaker), 8_000, "longer than the last time");
    }

    #[test]
    fn a_success_that_is_taken_back_is_one_failure() {
        let mut breaker = Breaker::default();
        for offset in 0..40 {
            breaker.note(NOW, BY, Some((of(), offset)), &Outcome::Handled(NOW));
        }
        for offset in 0..20 {
            assert!(!breaker.belied(NOW, BY, &of(), offset), "{offset} of 40");
            assert!(!breaker.belied(NOW, BY, &of(), offset), "said twice");
        }
        assert!(breaker.belied(NOW, BY, &of(), 20), "21 of 40");
        probed(&mut breaker, 50, false);
        assert!(breaker.belied(NOW, BY, &of(), 50), "the very probe that succeeded");
        assert_eq!(next(&breaker), 2_000);
    }
}
