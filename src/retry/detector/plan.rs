//! The answer to a Fetch, partition by partition.

use std::ops::RangeInclusive;

use crate::model::{MonoMs, TopicPartition, WallMs};
use crate::retry::detector::{Detector, FetchPosition, Rules, Window, WindowRecord};
use crate::retry::{Disposition, Evidence};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One for each partition of the Fetch, in the same order.
    pub serve: Vec<FetchDecision>,
    /// When the plan may change without a new observation; `None`: never.
    pub until: Option<MonoMs>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchDecision {
    /// All records, as the broker returns them.
    Open,
    /// All records but these offsets, ascending: the detector has settled them.
    Without(Vec<i64>),
    /// Nothing for now: the partition is held, or another record goes first.
    Nothing,
    /// Nothing, and the answer leaves at once: the record goes to the next Fetch. A client that
    /// pauses or resumes while its Fetch waits drops the records of that answer.
    Again,
    /// Only records below an offset: whole batches, or else the records of the next batch outside
    /// `without`. If there is none, the edge reports it (`Detector::passed_over`).
    Below {
        /// Settled offsets, ascending.
        without: Vec<i64>,
        /// The first offset that is not delivered.
        below: i64,
    },
    /// One record: the first outside `without`, of the partition with the lowest `place` that has
    /// any. The other partitions get nothing. Each place in a plan is different.
    Turn {
        /// Settled offsets, ascending.
        without: Vec<i64>,
        /// From 0 on, in the order of the next deliveries.
        place: usize,
    },
    /// The record has failed for the last time: the edge settles it with its bytes
    /// (`Detector::settled`) and plans again.
    Settle(Box<ExhaustedRecord>),
}

/// A record whose last failure in place the detector has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExhaustedRecord {
    pub partition: TopicPartition,
    pub offset: i64,
    /// Failures counted before the last one.
    pub reconsume_times: u32,
    pub disposition: Disposition,
    pub evidence: Evidence,
    /// All failures, the last one included, latest last.
    pub history: Vec<(WallMs, Disposition)>,
    /// The record becomes a retry entry, unless its ladder is used up; otherwise a dead letter.
    pub is_retried: bool,
    /// The window after the record is settled, for the same journal group.
    pub window: WindowRecord,
}

impl ExhaustedRecord {
    /// Settles a whole batch that cannot be decoded.
    pub fn undecodable(mut self, offsets: RangeInclusive<i64>) -> Self {
        self.disposition = Disposition::Undecodable;
        self.is_retried = false;
        self.window.suspects.retain(|suspect| !offsets.contains(&suspect.offset));
        self.window.skipped.extend(offsets);
        self.window.skipped.sort_unstable();
        self.window.skipped.dedup();
        self
    }
}

impl Plan {
    /// Records that must be settled before the Fetch is answered.
    pub fn settlings(&self) -> Vec<ExhaustedRecord> {
        let settling = |serve: &FetchDecision| match serve {
            FetchDecision::Settle(settling) => Some(ExhaustedRecord::clone(settling)),
            _ => None,
        };
        self.serve.iter().filter_map(settling).collect()
    }

    /// Whether the broker's bytes pass unchanged.
    pub fn is_open(&self) -> bool {
        self.serve.iter().all(|serve| *serve == FetchDecision::Open)
    }
}

impl Detector {
    /// The plan for a removed member. Nothing in it counts as a delivery to that member. Suspects
    /// and settled records belong to the group, so they limit this member too. It may still be in
    /// the group: an unreachable coordinator expires nobody.
    pub(super) fn plan_of_gone(&self, asked: &[FetchPosition]) -> Plan {
        let is_shut = !self.breaker.is_closed();
        let serve = asked.iter().map(|ask| match self.windows.get(&ask.partition) {
            _ if is_shut => FetchDecision::Nothing,
            _ if self.suspects.is_tested(&ask.partition, ask.offset) => FetchDecision::Nothing,
            Some(window) => window.unheld(&self.rules, ask.offset),
            None => FetchDecision::Open,
        });
        Plan { serve: serve.collect(), until: None }
    }
}

impl Window {
    /// The records from `offset` on that a member may get without owning the partition.
    fn unheld(&self, rules: &Rules, offset: i64) -> FetchDecision {
        let is_suspected = self.suspects.range(offset..).next().is_some();
        let waits = rules.in_order && self.waits_before(offset);
        if is_suspected || waits {
            return FetchDecision::Nothing;
        }
        let without: Vec<i64> = self.skipped.range(offset..).copied().collect();
        if without.is_empty() { FetchDecision::Open } else { FetchDecision::Without(without) }
    }
}
