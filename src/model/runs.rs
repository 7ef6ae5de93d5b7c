//! Sets of offsets, stored as runs.

use std::ops::Range;

/// Most runs of a set; beyond that, the second to last run is dropped.
const RUNS_MAX: usize = 10_000;

/// Runs of offsets, ascending; adjacent runs are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetRuns(Vec<Range<i64>>);

/// A run of offsets with fewer records than offsets: log compaction removed some from a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sparse {
    /// From the first offset to the one after the last.
    pub run: Range<i64>,
    pub records: u32,
}

impl OffsetRuns {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<i64>> {
        self.0.iter()
    }

    /// Adds a run and merges it with its neighbours.
    pub fn add(&mut self, run: Range<i64>) {
        if run.is_empty() {
            return;
        }
        let low = self.0.partition_point(|known| known.end < run.start);
        let high = self.0.partition_point(|known| known.start <= run.end);
        let touched = self.0.get(low..high).unwrap_or_default();
        let start = touched.first().map_or(run.start, |first| first.start.min(run.start));
        let end = touched.last().map_or(run.end, |last| last.end.max(run.end));
        self.0.splice(low..high, std::iter::once(start..end));
        if self.0.len() > RUNS_MAX {
            self.0.remove(RUNS_MAX - 1);
        }
    }

    /// The run that contains an offset.
    pub fn at(&self, offset: i64) -> Option<&Range<i64>> {
        let behind = self.0.partition_point(|run| run.end <= offset);
        self.0.get(behind).filter(|run| run.contains(&offset))
    }

    /// The first offset at or above `offset` outside of every run.
    pub fn past(&self, offset: i64) -> i64 {
        self.at(offset).map_or(offset, |run| run.end)
    }

    /// The end of the offsets below `end` that lie outside of every run.
    pub fn before(&self, end: i64) -> i64 {
        self.at(end.saturating_sub(1)).map_or(end, |run| run.start)
    }

    /// Removes the runs that end at or below `offset`.
    pub fn forget_below(&mut self, offset: i64) {
        let behind = self.0.partition_point(|run| run.end <= offset);
        self.0.drain(..behind);
    }
}

impl Extend<Range<i64>> for OffsetRuns {
    fn extend<T: IntoIterator<Item = Range<i64>>>(&mut self, runs: T) {
        for run in runs {
            self.add(run);
        }
    }
}

impl FromIterator<Range<i64>> for OffsetRuns {
    fn from_iter<T: IntoIterator<Item = Range<i64>>>(runs: T) -> Self {
        let mut all = Self::default();
        all.extend(runs);
        all
    }
}

impl IntoIterator for OffsetRuns {
    type Item = Range<i64>;
    type IntoIter = std::vec::IntoIter<Range<i64>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(all: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let runs: OffsetRuns = all.iter().map(|(start, end)| *start..*end).collect();
        runs.iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn touching_runs_are_merged_in_any_order() {
        assert_eq!(runs(&[(5, 7), (9, 10), (7, 9)]), [(5, 10)]);
        assert_eq!(runs(&[(9, 10), (1, 2), (5, 5), (4, 20), (3, 4)]), [(1, 2), (3, 20)]);
        assert_eq!(runs(&[(1, 9), (2, 3)]), [(1, 9)]);
    }

    #[test]
    fn an_offset_is_found_in_its_run_and_moved_out() {
        let mut runs: OffsetRuns = [2..4, 6..9].into_iter().collect();
        assert_eq!([1, 2, 3, 4, 8, 9].map(|offset| runs.past(offset)), [1, 4, 4, 4, 9, 9]);
        assert_eq!([2, 3, 4, 5, 9, 10].map(|end| runs.before(end)), [2, 2, 2, 5, 6, 10]);
        runs.forget_below(4);
        assert_eq!((runs.at(3), runs.at(6)), (None, Some(&(6..9))));
    }

    #[test]
    fn too_many_runs_keep_the_lowest_and_the_last() {
        let most = i64::try_from(RUNS_MAX).unwrap();
        let runs: OffsetRuns = (0..2 * most).map(|n| 2 * n..2 * n + 1).collect();
        assert_eq!(runs.iter().count(), RUNS_MAX);
        assert_eq!((runs.past(2 * (most - 2)), runs.past(0)), (2 * (most - 2) + 1, 1));
        assert_eq!(runs.before(4 * most - 1), 4 * most - 2);
    }
}
