//! The outage breaker of a group: when failures stop being the exception, it is not the records.
//!
//! ```text
//!   Closed ── too many first deliveries failed ──▶ Held ── a probe succeeds ──▶ Ramping ──▶ Closed
//!                                                   ▲ ╰─ a probe fails: longer    │
//!                                                   ╰──────────── one fails ──────╯
//! ```
//! Not journalled: a restart begins closed, with nothing counted.

use std::collections::VecDeque;

use crate::model::{MonoMs, TopicPartition};
use crate::retry::BreakerRules;

/// The longest time between two probes.
const STEP_MS_MAX: u64 = 60_000;
/// Records that go one by one after the first success, each of which must succeed.
const RAMP: u32 = 10;

/// A record that is given while everything else is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) enum Probe {
    /// One of a real partition.
    Record(TopicPartition, i64),
    /// A retry.
    Lane,
}

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

#[derive(Debug, Default)]
pub(in crate::retry) struct Breaker {
    /// Of the last first deliveries: which failed.
    outcomes: VecDeque<bool>,
    failed: usize,
    stand: Stand,
}

#[derive(Debug, Default)]
enum Stand {
    #[default]
    Closed,
    Held {
        next: MonoMs,
        step: u32,
        probes: Vec<Probe>,
    },
    Ramping {
        left: u32,
        step: u32,
    },
}

impl Breaker {
    /// A first delivery came to its end; whether the group is held from now on.
    pub(in crate::retry) fn note(
        &mut self,
        now: MonoMs,
        rules: BreakerRules,
        interval_ms: u64,
        has_failed: bool,
    ) -> bool {
        match &mut self.stand {
            Stand::Held { .. } => return false,
            Stand::Ramping { step, .. } if has_failed => {
                let step = step.saturating_add(1);
                self.hold(now, interval_ms, step);
                return true;
            }
            Stand::Ramping { left, .. } => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.stand = Stand::Closed;
                }
                return false;
            }
            Stand::Closed => {}
        }
        self.outcomes.push_back(has_failed);
        self.failed = self.failed.saturating_add(usize::from(has_failed));
        while self.outcomes.len() > size(rules.window) {
            let was_failed = self.outcomes.pop_front() == Some(true);
            self.failed = self.failed.saturating_sub(usize::from(was_failed));
        }
        let share = self.failed.saturating_mul(100);
        let most = self.outcomes.len().saturating_mul(size(rules.ratio_percent));
        if self.failed < size(rules.min) || share <= most {
            return false;
        }
        self.hold(now, interval_ms, 0);
        true
    }

    fn hold(&mut self, now: MonoMs, interval_ms: u64, step: u32) {
        (self.outcomes, self.failed) = (VecDeque::new(), 0);
        let next = now.plus(step_ms(interval_ms, step));
        self.stand = Stand::Held { next, step, probes: Vec::new() };
    }

    /// The operator switched it off.
    pub(in crate::retry) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(in crate::retry) fn is_held(&self) -> bool {
        matches!(self.stand, Stand::Held { .. })
    }

    pub(in crate::retry) fn is_ramping(&self) -> bool {
        matches!(self.stand, Stand::Ramping { .. })
    }

    /// While held: when the next probe may go.
    pub(in crate::retry) fn next(&self) -> Option<MonoMs> {
        match &self.stand {
            Stand::Held { next, .. } => Some(*next),
            _ => None,
        }
    }

    /// A probe has left; another one follows if nothing is heard of it while patience lasts.
    pub(in crate::retry) fn given(&mut self, now: MonoMs, patience_ms: u64, probe: Probe) {
        if let Stand::Held { next, probes, .. } = &mut self.stand {
            probes.push(probe);
            *next = now.plus(patience_ms);
        }
    }

    pub(in crate::retry) fn has(&self, is_it: impl Fn(&Probe) -> bool) -> bool {
        matches!(&self.stand, Stand::Held { probes, .. } if probes.iter().any(is_it))
    }

    /// A probe failed, or went with its member.
    pub(in crate::retry) fn probe_failed(&mut self, now: MonoMs, interval_ms: u64) {
        if let Stand::Held { step, .. } = &self.stand {
            let step = step.saturating_add(1);
            self.hold(now, interval_ms, step);
        }
    }

    pub(in crate::retry) fn probe_succeeded(&mut self) {
        if let Stand::Held { step, .. } = &self.stand {
            self.stand = Stand::Ramping { left: RAMP, step: *step };
        }
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

    fn noted(breaker: &mut Breaker, outcomes: impl IntoIterator<Item = bool>) -> Option<usize> {
        outcomes.into_iter().position(|failed| breaker.note(MonoMs(0), RULES, 1_000, failed))
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
        for _ in 0..8 {
            waits.push(breaker.next().unwrap().0);
            breaker.probe_failed(MonoMs(0), 1_000);
        }
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        breaker.probe_succeeded();
        assert!(breaker.is_ramping() && !breaker.is_held());
        assert_eq!(noted(&mut breaker, [false, true]), Some(1), "one that fails holds again");
        breaker.probe_succeeded();
        assert_eq!(noted(&mut breaker, [false; 10]), None);
        assert_eq!(breaker.view(MonoMs(0)), BreakerView::Closed);
        assert_eq!(noted(&mut breaker, [true; 19]), None, "nothing of before is counted");
    }
}
