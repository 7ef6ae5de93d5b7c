//! One partition of one group: its outstanding records and its suspects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::model::{MemberId, Moment, MonoMs, OffsetRuns, WallMs};
use crate::retry::Disposition;
use crate::retry::detector::rules::Rules;
use crate::retry::detector::{SeekBacks, SuspectRecord, WindowRecord};

/// Failures that a suspect lists.
const HISTORY_KEPT: usize = 64;

/// The owner of a partition. If any field changes, the next Fetch is never evidence of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Holder {
    pub(in crate::retry) member: MemberId,
    pub(in crate::retry) conn: u64,
    pub(in crate::retry) epoch: i32,
}

/// The first record that the owner has neither committed nor settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct AwaitedRecord {
    pub(in crate::retry) offset: i64,
    /// Time of the delivery, or of the last outcome of an earlier record.
    pub(in crate::retry) since: MonoMs,
}

/// The stage of a record that its partition waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) enum WaitPhase {
    /// The partition delivers nothing from the record on.
    Held { until: MonoMs },
    /// The record is delivered next, by itself.
    Ready,
    /// Time of the delivery.
    Alone(MonoMs),
    /// The record was outstanding for the whole timeout, without a commit or a loss.
    Resting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Suspect {
    pub(in crate::retry) reconsume_times: u32,
    pub(in crate::retry) history: Vec<(WallMs, Disposition)>,
    pub(in crate::retry) phase: WaitPhase,
    pub(in crate::retry) due: Option<WallMs>,
    /// Time of the first suspicion or failure, since the start.
    pub(in crate::retry) since: Option<MonoMs>,
    /// The record was nacked, its partition waits for it, and it was not delivered since.
    pub(in crate::retry) is_awaited: bool,
}

#[derive(Debug, Default)]
pub(in crate::retry) struct Window {
    /// The last commit seen.
    pub(in crate::retry) committed: Option<i64>,
    /// The group had committed an offset before the start.
    pub(in crate::retry) had_committed: bool,
    /// The owner's first fetch offset.
    pub(in crate::retry) from: i64,
    /// The owner's next fetch offset.
    pub(in crate::retry) end: i64,
    pub(in crate::retry) holder: Option<Holder>,
    /// The highest offset that any member was delivered, fetched or committed.
    pub(in crate::retry) furthest: i64,
    /// The owner's highest commit; a pool of workers may commit backwards.
    pub(in crate::retry) reached: i64,
    pub(in crate::retry) awaited: Option<AwaitedRecord>,
    /// Delivered records without a counted outcome, at most.
    pub(in crate::retry) uncounted: u64,
    /// The nacked ones among them.
    pub(in crate::retry) failed: u32,
    pub(in crate::retry) handed_at: MonoMs,
    /// Outstanding records when the owner rejoined by itself; lost if they are fetched again.
    pub(in crate::retry) given_up: Option<Range<i64>>,
    /// Nothing is delivered before this time, because the owner went back.
    pub(in crate::retry) waits_until: MonoMs,
    /// Time of its last turn.
    pub(in crate::retry) turned_at: MonoMs,
    pub(in crate::retry) suspects: BTreeMap<i64, Suspect>,
    pub(in crate::retry) skipped: BTreeSet<i64>,
    /// Nacked records that no commit has passed: each has an entry.
    pub(in crate::retry) nacked: BTreeSet<i64>,
    /// Times that the owner was told to rejoin, and the time until which it may return.
    pub(in crate::retry) called_back: (u32, MonoMs),
    /// Records that the owner went back to.
    pub(in crate::retry) seek_backs: SeekBacks,
    /// Done records according to the last commit's metadata, ascending.
    pub(in crate::retry) done: Vec<Range<i64>>,
    /// Delivered offsets without a record for the application: neither awaited nor judged.
    pub(in crate::retry) hidden: OffsetRuns,
    /// Offsets in front of a suspect, of which the owner can get no record.
    pub(in crate::retry) passed_over: Range<i64>,
    /// The last journalled record.
    pub(in crate::retry) kept: WindowRecord,
}

impl Suspect {
    pub(in crate::retry) fn new() -> Self {
        Self {
            reconsume_times: 0,
            history: Vec::new(),
            phase: WaitPhase::Ready,
            due: None,
            since: None,
            is_awaited: false,
        }
    }

    /// Holds the partition from now on.
    pub(in crate::retry) fn hold(&mut self, now: Moment, interval_ms: u64) {
        self.phase = WaitPhase::Held { until: now.mono.plus(interval_ms) };
        self.due = Some(now.wall.plus(interval_ms));
    }

    /// Counts one more failure.
    pub(in crate::retry) fn failed(&mut self, at: WallMs, disposition: Disposition) {
        self.reconsume_times = self.reconsume_times.saturating_add(1);
        self.note(at, disposition);
    }

    /// Notes a failure that may not count.
    pub(in crate::retry) fn note(&mut self, at: WallMs, disposition: Disposition) {
        if self.history.len() >= HISTORY_KEPT {
            self.history.remove(0);
        }
        self.history.push((at, disposition));
    }
}

impl Window {
    /// Restores a window from its journal record. A hold lasts at most `interval_ms` from now, in
    /// case the clock was set back.
    pub(in crate::retry) fn restored(record: WindowRecord, now: Moment, rules: &Rules) -> Self {
        let mut window = Self {
            committed: None,
            had_committed: record.has_committed,
            skipped: record.skipped.iter().copied().collect(),
            ..Self::default()
        };
        for known in &record.suspects {
            let mut suspect = Suspect::new();
            suspect.reconsume_times = known.reconsume_times;
            suspect.history.clone_from(&known.history);
            // An awaited record keeps its due time until it is delivered.
            suspect.is_awaited = known.due.is_some();
            suspect.due = known.due;
            if let Some(due) = known.due.filter(|due| *due > now.wall) {
                suspect.hold(now, due.since(now.wall).min(rules.interval_ms));
            }
            window.suspects.insert(known.offset, suspect);
        }
        window.kept = record;
        window
    }

    /// The first record delivered and not acknowledged.
    pub(in crate::retry) fn first_open(&self) -> i64 {
        self.hidden.past(self.committed.map_or(self.from, |committed| committed.max(self.from)))
    }

    /// The first offset at or above `from` that may be delivered, as far as is known.
    pub(in crate::retry) fn first_given(&self, from: i64) -> i64 {
        let mut first = self.hidden.past(from);
        loop {
            let next = if self.passed_over.contains(&first) {
                self.passed_over.end
            } else if self.skipped.contains(&first) {
                first.saturating_add(1)
            } else {
                return first;
            };
            first = self.hidden.past(next);
        }
    }

    /// The offset after the last delivered record: an application commits no further.
    pub(in crate::retry) fn data_end(&self) -> i64 {
        self.hidden.before(self.end)
    }

    /// Whether the detector never counts a failure of this record.
    pub(in crate::retry) fn is_settled(&self, offset: i64) -> bool {
        let behind = self.done.partition_point(|run| run.end <= offset);
        let is_done = self.done.get(behind).is_some_and(|run| run.contains(&offset));
        is_done || self.nacked.contains(&offset) || self.skipped.contains(&offset)
    }

    /// The first delivered record above all of the owner's commits that has no known outcome.
    pub(in crate::retry) fn first_awaited(&self) -> Option<i64> {
        self.unsettled(self.first_open().max(self.reached)..self.end)
    }

    /// The first of these records without a known outcome.
    pub(in crate::retry) fn unsettled(
        &self,
        Range { start: mut first, end }: Range<i64>,
    ) -> Option<i64> {
        while first < end {
            if let Some(run) = self.hidden.at(first) {
                first = run.end;
                continue;
            }
            let behind = self.done.partition_point(|run| run.end <= first);
            let run = self.done.get(behind).filter(|run| run.contains(&first));
            first = match run {
                Some(run) => run.end,
                None if self.is_settled(first) => first.saturating_add(1),
                None => return Some(first),
            };
        }
        None
    }

    /// Restarts the wait if the first awaited record has changed.
    pub(in crate::retry) fn wait_on(&mut self, now: MonoMs) {
        let first = self.first_awaited();
        if self.awaited.map(|awaited| awaited.offset) != first {
            self.awaited = first.map(|offset| AwaitedRecord { offset, since: now });
        }
    }

    /// Whether no member was delivered this record or a later one.
    pub(in crate::retry) fn is_beyond(&self, offset: i64) -> bool {
        self.holder.is_some() && offset >= self.furthest
    }

    /// Whether a delivered record is not acknowledged.
    pub(in crate::retry) fn is_open(&self) -> bool {
        self.first_open() < self.end
    }

    /// Whether the window has suspects or skipped records.
    pub(in crate::retry) fn is_troubled(&self) -> bool {
        !self.suspects.is_empty() || !self.skipped.is_empty()
    }

    pub(in crate::retry) fn is_held_by(&self, member: &MemberId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.member == *member)
    }

    pub(in crate::retry) fn record(&self) -> WindowRecord {
        let suspects = self.suspects.iter().map(|(offset, suspect)| SuspectRecord {
            offset: *offset,
            reconsume_times: suspect.reconsume_times,
            due: suspect.due,
            history: suspect.history.clone(),
        });
        WindowRecord {
            suspects: suspects.collect(),
            skipped: self.skipped.iter().copied().collect(),
            has_committed: self.has_committed(),
        }
    }

    /// The record to journal once a failed record has an entry.
    pub(in crate::retry) fn record_after(&self, offset: i64) -> WindowRecord {
        let mut after = self.record();
        after.suspects.retain(|suspect| suspect.offset != offset);
        after.skipped.push(offset);
        after.skipped.sort_unstable();
        after
    }

    /// Whether the group has committed an offset of the partition.
    pub(in crate::retry) fn has_committed(&self) -> bool {
        self.committed.is_some() || self.had_committed
    }
}
