//! Due retries that a pass has found without a reader, as runs of the due order. A later pass jumps
//! over a run, so that retries without a reader do not hold up others.
//!
//! **Invariant:** each due retry inside a run has no reader. A retry that falls due inside one, a
//! new reader and another topic end the runs that they concern.

use std::collections::BTreeMap;

use crate::engine::store::DueEntry;
use crate::model::{MonoMs, TopicName};

/// Most runs; further retries are looked at in each pass.
const RUNS_MAX: usize = 4_096;
/// Age at which all runs end: their numbers count retries that have left meanwhile.
const KEPT_MS: u64 = 60_000;

/// Numbers of due retries whose retry topic nobody reads, by source.
pub(in crate::engine) type UnservedSources = BTreeMap<Option<TopicName>, u64>;

#[derive(Debug, Default)]
pub(super) struct UnservedRuns {
    /// By the first retry.
    runs: BTreeMap<DueEntry, Run>,
    /// The time since which runs are kept.
    since: MonoMs,
    /// Numbers that the running pass has found.
    passing: UnservedSources,
    /// Numbers of the last pass, as it ended.
    told: UnservedSources,
}

#[derive(Debug)]
struct Run {
    last: DueEntry,
    sources: UnservedSources,
}

impl UnservedRuns {
    /// The numbers of the last pass.
    pub(super) fn told(&self) -> UnservedSources {
        self.told.clone()
    }

    /// Adds a retry; the pass has looked at `before` just before it.
    pub(super) fn add(
        &mut self,
        at: DueEntry,
        before: Option<DueEntry>,
        source: Option<&TopicName>,
    ) {
        let one = UnservedSources::from([(source.cloned(), 1)]);
        sum(&mut self.passing, &one);
        self.put(at, before, Run { last: at, sources: one });
    }

    /// The end of the run that has this retry; `None`: no run has it.
    pub(super) fn jump(&mut self, at: DueEntry, before: Option<DueEntry>) -> Option<DueEntry> {
        let (first, run) = self.runs.range(..=at).next_back()?;
        if run.last < at {
            return None;
        }
        let first = *first;
        let run = self.runs.remove(&first)?;
        let last = run.last;
        sum(&mut self.passing, &run.sources);
        self.put(first, before, run);
        Some(last)
    }

    /// Joins a run to the one that ends at `before`.
    fn put(&mut self, first: DueEntry, before: Option<DueEntry>, run: Run) {
        let known = self.runs.range_mut(..first).next_back();
        if let Some((_, known)) = known.filter(|(_, known)| Some(known.last) == before) {
            known.last = run.last;
            sum(&mut known.sources, &run.sources);
        } else if self.runs.len() < RUNS_MAX {
            self.runs.insert(first, run);
        }
    }

    /// Retries have fallen due, `first` before all others.
    pub(super) fn arrived(&mut self, first: DueEntry) {
        self.runs.retain(|_, run| run.last < first);
    }

    /// A topic has got or lost its reader.
    pub(super) fn forget(&mut self) {
        self.runs.clear();
    }

    /// The pass ends without a look at any retry: no topic is read.
    pub(super) fn skip_pass(&mut self) {
        self.passing.clear();
    }

    pub(super) fn end_pass(&mut self, now: MonoMs) {
        self.told = std::mem::take(&mut self.passing);
        if now.since(self.since) >= KEPT_MS {
            self.since = now;
            self.forget();
        }
    }
}

fn sum(all: &mut UnservedSources, more: &UnservedSources) {
    for (source, count) in more {
        let known = all.entry(source.clone()).or_default();
        *known = known.saturating_add(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EntryId, WallMs};

    fn at(ms: i64) -> DueEntry {
        (WallMs(ms), EntryId(1))
    }

    /// Runs over these times, without others between them.
    fn runs(spans: &[std::ops::RangeInclusive<i64>]) -> UnservedRuns {
        let mut runs = UnservedRuns::default();
        for span in spans {
            let mut before = None;
            for ms in span.clone() {
                runs.add(at(ms), before, Some(&"payments".into()));
                before = Some(at(ms));
            }
        }
        runs
    }

    fn told(runs: &mut UnservedRuns) -> u64 {
        runs.end_pass(MonoMs(1));
        runs.told().values().sum()
    }

    #[test]
    fn a_pass_jumps_over_runs_and_joins_them() {
        let mut all = runs(&[1..=3, 5..=9]);
        assert_eq!(told(&mut all), 8);
        assert_eq!(all.jump(at(1), None), Some(at(3)));
        assert_eq!(all.jump(at(4), Some(at(3))), None, "it has a reader, and is not full");
        assert_eq!(all.jump(at(6), Some(at(4))), Some(at(9)), "the first one has left");
        assert_eq!((told(&mut all), all.runs.len()), (8, 2));
        // The one between them has left.
        assert_eq!(all.jump(at(1), None), Some(at(3)));
        assert_eq!(all.jump(at(5), Some(at(3))), Some(at(9)));
        assert_eq!((told(&mut all), all.runs.len()), (8, 1));
        assert_eq!(all.jump(at(2), None), Some(at(9)));
    }

    #[test]
    fn a_retry_that_falls_due_within_a_run_ends_it() {
        let mut all = runs(&[1..=3, 5..=9]);
        all.arrived(at(10));
        assert_eq!(all.runs.len(), 2, "it is behind all runs");
        all.arrived((WallMs(9), EntryId(0)));
        assert_eq!((all.jump(at(1), None), all.jump(at(5), None)), (Some(at(3)), None));
        all.arrived(at(0));
        assert_eq!(all.jump(at(1), None), None);
    }

    #[test]
    fn runs_are_bounded_and_end_by_and_by() {
        let many = i64::try_from(RUNS_MAX).unwrap() + 9;
        let spans: Vec<_> = (0..many).map(|n| n * 2..=n * 2).collect();
        let mut all = runs(&spans);
        assert_eq!((all.runs.len(), told(&mut all)), (RUNS_MAX, RUNS_MAX as u64 + 9));
        all.end_pass(MonoMs(KEPT_MS));
        assert_eq!(all.jump(at(0), None), None);
    }
}
