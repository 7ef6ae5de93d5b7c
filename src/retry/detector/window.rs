//! One partition of one group: what its member was handed and has not committed, and who is
//! suspected in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::model::{MemberId, MonoMs, Now, Runs, WallMs};
use crate::retry::Disposition;
use crate::retry::detector::rules::{PATIENCE_MS_MAX, Rules};
use crate::retry::detector::{SeekBacks, SuspectRecord, WindowRecord};

/// Failures a suspect lists.
const HISTORY_KEPT: usize = 64;

/// Whose hand-outs these are: a change of any part makes the next Fetch no evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Holder {
    pub(in crate::retry) member: MemberId,
    pub(in crate::retry) conn: u64,
    pub(in crate::retry) epoch: i32,
}

/// The first record that its holder has neither committed nor settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Awaited {
    pub(in crate::retry) offset: i64,
    /// It was given, or whatever lay before it was done.
    pub(in crate::retry) since: MonoMs,
}

/// The stage of a record that its partition waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) enum Phase {
    /// Its partition is held.
    Held { until: MonoMs },
    /// It is to be handed out alone.
    Ready,
    /// Delivered alone, since then.
    Alone(MonoMs),
    /// It was out for as long as patience lasts, and nothing came of it.
    Resting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Suspect {
    pub(in crate::retry) reconsume_times: u32,
    pub(in crate::retry) history: Vec<(WallMs, Disposition)>,
    pub(in crate::retry) phase: Phase,
    pub(in crate::retry) due: Option<WallMs>,
    /// Since when it is suspected or has failed here.
    pub(in crate::retry) since: Option<MonoMs>,
    /// It was said to have failed, its partition waits for it, and it has not left since.
    pub(in crate::retry) is_awaited: bool,
}

#[derive(Debug, Default)]
pub(in crate::retry) struct Window {
    /// As last seen.
    pub(in crate::retry) committed: Option<i64>,
    /// The group had committed something before the start.
    pub(in crate::retry) had_committed: bool,
    /// Where its holder began.
    pub(in crate::retry) from: i64,
    /// Where its holder goes on.
    pub(in crate::retry) end: i64,
    pub(in crate::retry) holder: Option<Holder>,
    /// The furthest anybody was given it, or has asked for or committed.
    pub(in crate::retry) furthest: i64,
    /// The furthest its holder has committed; a pool of workers commits backwards all day.
    pub(in crate::retry) reached: i64,
    pub(in crate::retry) awaited: Option<Awaited>,
    /// Records that were delivered and whose outcome is not counted, at most.
    pub(in crate::retry) uncounted: u64,
    /// Nacked ones of them.
    pub(in crate::retry) failed: u32,
    pub(in crate::retry) handed_at: MonoMs,
    /// Outstanding when its holder joined anew by itself; lost if they are fetched again.
    pub(in crate::retry) given_up: Option<Range<i64>>,
    /// Nothing is delivered before: its holder went back.
    pub(in crate::retry) waits_until: MonoMs,
    /// When it last had its turn.
    pub(in crate::retry) turned_at: MonoMs,
    pub(in crate::retry) suspects: BTreeMap<i64, Suspect>,
    pub(in crate::retry) skipped: BTreeSet<i64>,
    /// Nacked, not passed by a commit: each has an entry.
    pub(in crate::retry) nacked: BTreeSet<i64>,
    /// Passed once, and to be read once more since the group was reset.
    pub(in crate::retry) replay: Option<Range<i64>>,
    /// How often its holder was called back to what it waits for, and until when it has time.
    pub(in crate::retry) called_back: (u32, MonoMs),
    /// Records that its holder went back to.
    pub(in crate::retry) seek_backs: SeekBacks,
    /// Done, as the last commit says, ascending.
    pub(in crate::retry) done: Vec<Range<i64>>,
    /// Handed out lately, and nobody's records: they are neither waited for nor judged.
    pub(in crate::retry) hidden: Runs,
    /// In front of a suspect, and nothing of it can be given to its holder.
    pub(in crate::retry) passed_over: Range<i64>,
    /// The last record that was journalled.
    pub(in crate::retry) kept: WindowRecord,
}

impl Suspect {
    pub(in crate::retry) fn new() -> Self {
        Self {
            reconsume_times: 0,
            history: Vec::new(),
            phase: Phase::Ready,
            due: None,
            since: None,
            is_awaited: false,
        }
    }

    /// Its partition is held from now on.
    pub(in crate::retry) fn hold(&mut self, now: Now, interval_ms: u64) {
        self.phase = Phase::Held { until: now.mono.plus(interval_ms) };
        self.due = Some(now.wall.plus(interval_ms));
    }

    /// One failure more.
    pub(in crate::retry) fn failed(&mut self, at: WallMs, disposition: Disposition) {
        self.reconsume_times = self.reconsume_times.saturating_add(1);
        self.note(at, disposition);
    }

    /// A failure that may not be charged.
    pub(in crate::retry) fn note(&mut self, at: WallMs, disposition: Disposition) {
        if self.history.len() >= HISTORY_KEPT {
            self.history.remove(0);
        }
        self.history.push((at, disposition));
    }
}

impl Window {
    /// Restores a window from its record. A hold lasts no longer than it would from now on, should
    /// the clock have been set back.
    pub(in crate::retry) fn restored(record: WindowRecord, now: Now, rules: &Rules) -> Self {
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
            if !suspect.was_said() {
                // Inferred by an earlier build, which judged each return.
                continue;
            }
            // What is awaited keeps its due time until it leaves.
            suspect.is_awaited = known.due.is_some();
            suspect.due = known.due.filter(|_| suspect.is_awaited);
            if let Some(due) = known.due.filter(|due| *due > now.wall) {
                suspect.hold(now, due.since(now.wall).min(rules.interval_ms));
            }
            window.suspects.insert(known.offset, suspect);
        }
        window.kept = record;
        window
    }

    /// The first record handed out and not acknowledged.
    pub(in crate::retry) fn first_open(&self) -> i64 {
        self.hidden.past(self.committed.map_or(self.from, |committed| committed.max(self.from)))
    }

    /// The first record that may be given of those from there on, as far as is known.
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

    /// Where the records end that were handed out: an application commits no further.
    pub(in crate::retry) fn data_end(&self) -> i64 {
        self.hidden.before(self.end)
    }

    /// Whatever becomes of this record, inference does not charge it.
    pub(in crate::retry) fn is_settled(&self, offset: i64) -> bool {
        let behind = self.done.partition_point(|run| run.end <= offset);
        let is_done = self.done.get(behind).is_some_and(|run| run.contains(&offset));
        is_done || self.nacked.contains(&offset) || self.skipped.contains(&offset)
    }

    /// The first record handed out that its holder has never committed, and of which nothing is
    /// known.
    pub(in crate::retry) fn first_awaited(&self) -> Option<i64> {
        self.unsettled(self.first_open().max(self.reached)..self.end)
    }

    /// The first of these records of which nothing is known.
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

    /// Something was given, committed or settled: whoever is first now is waited for from now on.
    pub(in crate::retry) fn wait_on(&mut self, now: MonoMs) {
        let first = self.first_awaited();
        if self.awaited.map(|awaited| awaited.offset) != first {
            self.awaited = first.map(|offset| Awaited { offset, since: now });
        }
    }

    /// A record that its holder was never given, nor anybody before it.
    pub(in crate::retry) fn is_beyond(&self, offset: i64) -> bool {
        self.holder.is_some() && offset >= self.furthest
    }

    /// Something handed out is not acknowledged.
    pub(in crate::retry) fn is_open(&self) -> bool {
        self.first_open() < self.end
    }

    /// Its member may be answered otherwise than if nobody watched.
    pub(in crate::retry) fn is_troubled(&self) -> bool {
        !self.suspects.is_empty() || !self.skipped.is_empty()
    }

    pub(in crate::retry) fn is_held_by(&self, member: &MemberId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.member == *member)
    }

    /// What is to be journalled of it.
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
            ..WindowRecord::default()
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

    /// The group has committed something of it.
    pub(in crate::retry) fn has_committed(&self) -> bool {
        self.committed.is_some() || self.had_committed
    }
}

/// Patience that has doubled so often.
pub(in crate::retry) fn doubled_ms(rules: &Rules, doublings: u32) -> u64 {
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    let longest = PATIENCE_MS_MAX.max(rules.isolation_timeout_ms);
    rules.isolation_timeout_ms.saturating_mul(factor).min(longest)
}
