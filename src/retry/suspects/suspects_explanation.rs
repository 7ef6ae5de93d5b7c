//! The suspect sets of a group, for the admin API.

use std::ops::Range;

use crate::model::{MemberId, MonoMs, TopicPartition};
use crate::retry::suspects::{IsolatedStage, OffsetRanges, SuspectSet, Suspects};

/// Ranges that are listed per set.
const RANGES_MAX: usize = 16;

/// One suspect set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView {
    pub stage: Stage,
    /// Number of suspects.
    pub records: u64,
    /// Offsets by partition, the first 16 ranges.
    pub suspects: Vec<(TopicPartition, Range<i64>)>,
    /// Delivered suspects that are neither committed nor lost yet.
    pub granted: Vec<(TopicPartition, Range<i64>)>,
    /// Members that have the granted records.
    pub holders: Vec<MemberId>,
    /// Lost deliveries since the set was begun.
    pub losses: u32,
    /// Milliseconds since the set was begun.
    pub begun_ms: u64,
    /// Milliseconds since the last of these losses.
    pub last_loss_ms: u64,
    /// Failed deliveries of an isolated record that count.
    pub failures: u32,
    /// Failures after which the record becomes an entry or a dead letter.
    pub limit: u32,
    pub next: NextStep,
}

/// The stage of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Each lost delivery intersects the set with its records.
    Counted,
    /// The set's records are delivered in parts.
    Tested,
    /// One record is left.
    Isolated,
    /// The record is left out, and records behind it are delivered.
    Withheld,
    /// The record becomes an entry.
    Ended,
}

/// The next step of a set. Times are milliseconds from now on; `None`: from the next Fetch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The set is tested after this many more losses.
    Losses(u32),
    /// The next Fetch of their owner is granted this many records.
    Grant(u64),
    /// The granted records are passed over, unless they are committed or lost before.
    PassedOver(u64),
    /// A holder's connection is closed: the end of that member is awaited.
    MemberEnds,
    /// The owner gets nothing else until it fetches the record's partition.
    FirstInLine,
    /// The owner gets everything but the record.
    Deferred(Option<u64>),
    /// The record behind the withheld one is delivered by itself.
    RecordBehind(Option<u64>),
    /// A commit past the record makes it a dead letter.
    Commit,
    /// The record becomes an entry with the next Fetch or commit.
    Entry,
}

impl Suspects {
    /// Every suspect set.
    pub fn explain(&self, now: MonoMs) -> Vec<SetView> {
        (0..self.sets.len()).filter_map(|index| self.view(index, now)).collect()
    }

    fn view(&self, index: usize, now: MonoMs) -> Option<SetView> {
        let set = self.sets.get(index)?;
        let suspects = set.suspects();
        let stage = set.stage();
        Some(SetView {
            stage,
            records: suspects.len(),
            suspects: listed(&suspects),
            granted: listed(&set.part),
            holders: set.holders.iter().cloned().collect(),
            losses: set.losses,
            begun_ms: now.since(set.begun),
            last_loss_ms: now.since(set.last_loss),
            failures: set.isolation.failures,
            limit: self.rules.failures_max(&self.retries, set.isolated().as_ref()),
            next: self.next_of(index, set, stage, now),
        })
    }

    fn next_of(&self, index: usize, set: &SuspectSet, stage: Stage, now: MonoMs) -> NextStep {
        let is_out = !set.part.is_empty() || set.is_probe_out();
        let stands = set.part_timeout_at().since(now);
        match stage {
            Stage::Ended => NextStep::Entry,
            Stage::Counted => NextStep::Losses(self.rules.crash_limit.saturating_sub(set.losses)),
            _ if is_out && !self.is_timeout_running(index) => NextStep::MemberEnds,
            Stage::Withheld => match set.isolation.probe() {
                Some(probe) if !probe.has_passed => {
                    NextStep::RecordBehind(probe.member.as_ref().map(|_| stands))
                }
                _ => NextStep::Commit,
            },
            Stage::Tested | Stage::Isolated if is_out => NextStep::PassedOver(stands),
            Stage::Isolated => match set.isolation.stage {
                IsolatedStage::Deferred(_) => {
                    let ends_at = set.deferral_ends_at(self.rules.order_interval_ms);
                    NextStep::Deferred(ends_at.map(|at| at.since(now)))
                }
                _ => NextStep::FirstInLine,
            },
            Stage::Tested if set.remaining.is_empty() => NextStep::Losses(1),
            Stage::Tested => NextStep::Grant(set.records_of_part()),
        }
    }
}

impl SuspectSet {
    fn stage(&self) -> Stage {
        match self.isolated() {
            Some(_) if self.isolation.is_ended() => Stage::Ended,
            Some(_) if self.isolation.probe().is_some() => Stage::Withheld,
            Some(_) => Stage::Isolated,
            None if self.is_tested => Stage::Tested,
            None => Stage::Counted,
        }
    }
}

fn listed(ranges: &OffsetRanges) -> Vec<(TopicPartition, Range<i64>)> {
    let first = ranges.iter().take(RANGES_MAX);
    first.map(|(of, range)| (of.clone(), range.clone())).collect()
}
