//! First deliveries of one partition, as the breaker counts them: each record once, when a commit
//! passes it or its failure is said.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::model::{MonoMs, Runs, Sparse};

/// Failures that are remembered, so that none counts twice; the highest stay.
const FAILED_MAX: usize = 4_096;

/// Batches with fewer records than offsets that are remembered; what is beyond counts as whole.
const SPARSE_MAX: usize = 1_000;
/// Hand-outs whose time is known; of more, what is oldest has the time of what is older.
const TIMES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(in crate::retry) struct Firsts {
    /// Handed out, and not at their end.
    out: Runs,
    /// First deliveries of these have come to their end, those of which nothing is told among them.
    ended: Range<i64>,
    /// Of both, those that were counted as failures, or are not to be counted.
    failed: BTreeSet<i64>,
    /// Of those that are out, batches with fewer records than offsets.
    sparse: Vec<Sparse>,
    /// Up to where the last hand-outs went, ascending, and when each was.
    times: VecDeque<(i64, MonoMs)>,
}

/// A first delivery at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Ended {
    pub(in crate::retry) offset: i64,
    pub(in crate::retry) has_failed: bool,
    /// When it was handed out last.
    pub(in crate::retry) handed_at: MonoMs,
}

/// What a failure that is said of a record is to the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) enum FirstFailure {
    /// Its first delivery was not at its end.
    Ends,
    /// It was taken for a success.
    Belies,
    /// It was counted, or is nothing to count.
    Known,
}

impl Firsts {
    /// Records were handed out; `hidden` are none, and not all of `sparse` are.
    pub(in crate::retry) fn handed(
        &mut self,
        now: MonoMs,
        run: Range<i64>,
        hidden: &Runs,
        sparse: &[Sparse],
    ) {
        self.time(now, &run);
        let is_known = |batch: &&Sparse| {
            batch.run.end <= self.ended.end
                || self.sparse.iter().any(|known| known.run == batch.run)
        };
        let new: Vec<Sparse> = sparse.iter().filter(|batch| !is_known(batch)).cloned().collect();
        let room = SPARSE_MAX.saturating_sub(self.sparse.len());
        self.sparse.extend(new.into_iter().take(room));
        let mut at = run.start.max(self.ended.end);
        let inside = hidden.iter().filter(|hidden| hidden.end > at && hidden.start < run.end);
        let inside: Vec<Range<i64>> = inside.cloned().collect();
        for hidden in inside {
            self.out.add(at..hidden.start.min(run.end));
            at = hidden.end;
        }
        self.out.add(at..run.end);
    }

    fn time(&mut self, now: MonoMs, run: &Range<i64>) {
        let mut before = None;
        while let Some((_, at)) = self.times.pop_back_if(|(end, _)| *end > run.start) {
            before = Some(at);
        }
        self.times.extend(before.map(|at| (run.start, at)));
        self.times.push_back((run.end, now));
        if self.times.len() > TIMES_MAX
            && let Some((_, at)) = self.times.pop_front()
            && let Some(next) = self.times.front_mut()
        {
            next.1 = at;
        }
    }

    fn handed_at(&self, offset: i64) -> MonoMs {
        let nth = self.times.partition_point(|(end, _)| *end <= offset);
        self.times.get(nth).map_or(MonoMs::default(), |(_, at)| *at)
    }

    /// A commit passes all below `offset`: of the last `most` first deliveries that ends, whether
    /// each has failed.
    pub(in crate::retry) fn commit(
        &mut self,
        offset: i64,
        most: usize,
        failed: &BTreeSet<i64>,
    ) -> Vec<Ended> {
        let handled = self.left(failed);

        let passed = self.out.iter().filter(|run| run.start < offset);
        let each = passed.flat_map(|run| run.start..run.end.min(offset)).rev();
        let mut left = handled;
        let end = |offset: i64| {
            let has_failed = failed.contains(&offset);
            if !has_failed && !takes_one(&mut left, offset) {
                return None;
            }
            Some(Ended { offset, has_failed, handed_at: self.handed_at(offset) })
        };
        let new = each.filter(|at| !self.failed.contains(at)).filter_map(end);
        let mut ended: Vec<Ended> = new.take(most).collect();
        ended.reverse();
        let from = self.out.iter().next().map_or(offset, |run| run.start);
        if self.ended.is_empty() {
            self.ended = from.min(offset)..offset;
        }
        self.ended.end = self.ended.end.max(offset);
        self.cut();
        for failed in ended.iter().filter(|ended| ended.has_failed) {
            self.fail(failed.offset);
        }
        ended
    }

    /// The group goes on there, by nobody's commit: nothing is told of what lies below, and what
    /// lies above begins anew if it goes back.
    pub(in crate::retry) fn skip_to(&mut self, offset: i64) {
        if offset < self.ended.end {
            *self = Self { ended: offset..offset, ..Self::default() };
            return;
        }
        self.ended = offset..offset;
        self.cut();
    }

    fn cut(&mut self) {
        let end = self.ended.end;
        self.out.forget_below(end);
        self.times.retain(|(up_to, _)| *up_to > end);
        self.sparse.retain(|batch| batch.run.end > end);
        if let Some(run) = self.out.at(end).filter(|run| run.start < end).cloned() {
            self.out.forget_below(run.end);
            self.out.add(end..run.end);
        }
    }

    /// Of each batch with fewer records than offsets: how many of it have not failed.
    fn left(&self, failed: &BTreeSet<i64>) -> Vec<Sparse> {
        let left = self.sparse.iter().map(|Sparse { run, records }| {
            let known = self.failed.range(run.clone());
            let new = failed.range(run.clone()).filter(|at| !self.failed.contains(at));
            let have_failed = u32::try_from(known.chain(new).count()).unwrap_or(u32::MAX);
            Sparse { run: run.clone(), records: records.saturating_sub(have_failed) }
        });
        left.collect()
    }

    /// A record has failed.
    pub(in crate::retry) fn failed(&mut self, offset: i64) -> FirstFailure {
        let is_out = self.out.at(offset).is_some();
        if !is_out && !self.ended.contains(&offset) {
            return FirstFailure::Known;
        }
        // Of what lies below nothing is remembered.
        let oldest = self.failed.first().filter(|_| self.failed.len() >= FAILED_MAX);
        let is_forgotten = oldest.is_some_and(|oldest| offset < *oldest);
        if is_forgotten || !self.fail(offset) {
            return FirstFailure::Known;
        }
        if is_out { FirstFailure::Ends } else { FirstFailure::Belies }
    }

    /// A record waits for another one, and comes later: its first delivery is neither success nor
    /// failure.
    pub(in crate::retry) fn waits(&mut self, offset: i64) {
        self.fail(offset);
    }

    fn fail(&mut self, offset: i64) -> bool {
        let is_news = self.failed.insert(offset);
        if self.failed.len() > FAILED_MAX {
            self.failed.pop_first();
        }
        is_news
    }
}

/// Whether there may be a record at an offset; it is one less then.
fn takes_one(left: &mut [Sparse], offset: i64) -> bool {
    match left.iter_mut().find(|batch| batch.run.contains(&offset)) {
        Some(batch) if batch.records == 0 => false,
        Some(batch) => {
            batch.records -= 1;
            true
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hand(firsts: &mut Firsts, run: Range<i64>) {
        firsts.handed(MonoMs(0), run, &Runs::default(), &[]);
    }

    fn handed(run: Range<i64>) -> Firsts {
        let mut firsts = Firsts::default();
        hand(&mut firsts, run);
        firsts
    }

    fn ended(firsts: &mut Firsts, offset: i64, most: usize) -> Vec<i64> {
        let ended = firsts.commit(offset, most, &BTreeSet::new());
        ended.into_iter().map(|ended| ended.offset).collect()
    }

    #[test]
    fn a_record_counts_once_whatever_is_said_and_handed_out_again() {
        let mut firsts = handed(5..9);
        assert_eq!(firsts.failed(6), FirstFailure::Ends);
        assert_eq!(firsts.failed(6), FirstFailure::Known);
        let ends = firsts.commit(8, 100, &[7].into());
        let ends: Vec<(i64, bool)> = ends.iter().map(|end| (end.offset, end.has_failed)).collect();
        assert_eq!(ends, [(5, false), (7, true)]);
        assert_eq!(ended(&mut firsts, 8, 100), [0; 0]);
        hand(&mut firsts, 5..9);
        assert_eq!(ended(&mut firsts, 9, 100), [8]);
    }

    #[test]
    fn each_has_the_time_of_its_last_hand_out() {
        let mut firsts = Firsts::default();
        for (at, run) in [(1, 0..10), (2, 10..20), (5, 4..6), (6, 6..12)] {
            firsts.handed(MonoMs(at), run, &Runs::default(), &[]);
        }
        let times = firsts.commit(12, 100, &BTreeSet::new());
        let times: Vec<u64> = times.iter().map(|ended| ended.handed_at.0).collect();
        assert_eq!(times, [1, 1, 1, 1, 5, 5, 6, 6, 6, 6, 6, 6]);
        let mut firsts = Firsts::default();
        for at in 0..200 {
            firsts.handed(MonoMs(u64::try_from(at).unwrap()), at..at + 1, &Runs::default(), &[]);
        }
        let times = firsts.commit(200, 200, &BTreeSet::new());
        assert!(times.iter().all(|end| end.handed_at.0 <= u64::try_from(end.offset).unwrap()));
        assert_eq!(times.last().unwrap().handed_at, MonoMs(199));
    }

    #[test]
    fn a_failure_that_is_said_after_the_commit_takes_its_success_back() {
        let mut firsts = handed(5..9);
        firsts.commit(9, 100, &[6].into());
        let said = [5, 5, 6, 4, 9].map(|offset| firsts.failed(offset));
        let (belies, known) = (FirstFailure::Belies, FirstFailure::Known);
        assert_eq!(said, [belies, known, known, known, known]);
    }

    #[test]
    fn what_is_no_record_or_was_never_given_is_no_success() {
        let mut firsts = Firsts::default();
        let hidden: Runs = [0..2, 4..5, 9..20].into_iter().collect();
        firsts.handed(MonoMs(0), 1..10, &hidden, &[]);
        hand(&mut firsts, 15..17);
        assert_eq!(ended(&mut firsts, 40, 100), [2, 3, 5, 6, 7, 8, 15, 16]);
        assert_eq!(ended(&mut handed(0..1_000), 500, 2), [498, 499]);
    }

    #[test]
    fn of_a_batch_with_gaps_no_more_count_than_there_are() {
        let sparse = || vec![Sparse { run: 10..110, records: 10 }];
        let given = || {
            let mut firsts = Firsts::default();
            firsts.handed(MonoMs(0), 5..115, &Runs::default(), &sparse());
            firsts.handed(MonoMs(0), 5..115, &Runs::default(), &sparse());
            firsts
        };
        assert_eq!(ended(&mut given(), 115, 1_000).len(), 5 + 10 + 5);
        let mut firsts = given();
        assert_eq!(firsts.failed(20), FirstFailure::Ends);
        let all = firsts.commit(115, 1_000, &(30..39).collect());
        assert_eq!(all.iter().filter(|end| end.has_failed).count(), 9, "and one before");
        assert_eq!(all.iter().filter(|end| !end.has_failed).count(), 10, "none of that batch");
    }

    #[test]
    fn what_waits_for_another_record_is_neither_success_nor_failure() {
        let mut firsts = Firsts::default();
        firsts.waits(6);
        hand(&mut firsts, 5..9);
        firsts.waits(7);
        assert_eq!(firsts.failed(7), FirstFailure::Known);
        let ends = firsts.commit(9, 100, &[6, 7, 8].into());
        let ends: Vec<(i64, bool)> = ends.iter().map(|end| (end.offset, end.has_failed)).collect();
        assert_eq!(ends, [(5, false), (8, true)]);
    }

    #[test]
    fn what_is_skipped_or_reset_is_neither_success_nor_failure() {
        let mut firsts = handed(0..10);
        firsts.skip_to(4);
        assert_eq!(firsts.failed(2), FirstFailure::Known);
        assert_eq!(ended(&mut firsts, 6, 100), [4, 5]);
        firsts.skip_to(1);
        assert_eq!(ended(&mut firsts, 10, 100), [0; 0]);
        hand(&mut firsts, 10..12);
        assert_eq!(ended(&mut firsts, 12, 100), [10, 11]);
    }

    #[test]
    fn of_too_many_failures_the_highest_are_remembered() {
        let many = i64::try_from(FAILED_MAX).unwrap();
        let mut firsts = handed(0..3 * many);
        for offset in 0..2 * many {
            assert_eq!(firsts.failed(offset), FirstFailure::Ends);
        }
        assert_eq!(firsts.failed(0), FirstFailure::Known, "not counted twice");
    }
}
