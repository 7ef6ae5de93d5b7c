//! What a member is given of each partition it asks for.

use std::ops::RangeInclusive;

use crate::model::{MonoMs, TopicPartition, WallMs};
use crate::retry::detector::WindowRecord;
use crate::retry::{Disposition, Evidence};

/// How a Fetch is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For each partition that was asked for, in that order.
    pub serve: Vec<Serve>,
    /// When another plan may come out, also without any news; `None`: only with news.
    pub until: Option<MonoMs>,
}

/// How one partition is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serve {
    /// As if nobody watched.
    Open,
    /// The same without these offsets, ascending: they are settled here.
    Without(Vec<i64>),
    /// Nothing for now: it is held, or another record goes first.
    Nothing,
    /// Nothing in this answer, which leaves at once: the record goes to the next Fetch. A client
    /// that pauses or resumes while its Fetch waits drops what that brings.
    Again,
    /// Only records below an offset: whole batches, or else the records of the next batch outside
    /// `without`. Where there is none, the detector is told (`Detector::passed_over`).
    Below {
        /// Settled here, ascending.
        without: Vec<i64>,
        /// The first offset that is not delivered.
        below: i64,
    },
    /// One record goes at a time: the first one that is none of these, of the partition with the
    /// lowest `place` that has any, and nothing of the others. Places are not the same in one plan.
    Turn {
        /// Settled here, ascending.
        without: Vec<i64>,
        /// From 0 on, in the order in which partitions come next.
        place: usize,
    },
    /// One record is at its end: it is settled with its bytes (`Detector::settled`), and the plan
    /// is made again.
    Settle(Box<Settling>),
}

impl Serve {
    /// Nothing is given from there on: it is held, or goes alone.
    pub fn below(&self) -> i64 {
        match self {
            Self::Below { below, .. } => *below,
            _ => i64::MAX,
        }
    }
}

/// A record that inference has charged for the last time in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settling {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Which record.
    pub offset: i64,
    /// Failures charged before the last one.
    pub reconsume_times: u32,
    /// Why.
    pub disposition: Disposition,
    /// What was seen.
    pub evidence: Evidence,
    /// Its failures, latest last, the last one included.
    pub history: Vec<(WallMs, Disposition)>,
    /// It waits in the group's queue, unless its rules end it; otherwise it is a dead letter.
    pub is_retried: bool,
    /// The window afterwards, for the same journal group.
    pub window: WindowRecord,
}

impl Settling {
    /// It lies in a batch of which no record can be read: all of that is settled, as one.
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
    /// What is to be settled before this is answered.
    pub fn settlings(&self) -> Vec<Settling> {
        let settling = |serve: &Serve| match serve {
            Serve::Settle(settling) => Some(Settling::clone(settling)),
            _ => None,
        };
        self.serve.iter().filter_map(settling).collect()
    }

    /// No detector, or there is nothing to do: the bytes may pass.
    pub fn is_open(&self) -> bool {
        self.serve.iter().all(|serve| *serve == Serve::Open)
    }
}
