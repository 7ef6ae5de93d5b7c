//! The application of a script: the records it fails, the kind of each failure, and their number.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use reprise::model::TopicPartition;

use crate::inference::app::Did;
use crate::inference::retries::RecordOrigin;

/// `consume_timeout` of the group.
pub(crate) const TIMEOUT_MS: u64 = 40_000;
pub(crate) const ALWAYS: u32 = u32::MAX;

/// The way in which a record fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailureWay {
    #[default]
    Says,
    Throws,
    Dies,
    /// Any of the others, drawn for each delivery.
    Any,
}

/// The test's own knowledge of one record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) way: FailureWay,
    /// Failures still to come.
    pub(crate) left: u32,
    pub(crate) failed: u32,
    pub(crate) done: u32,
    /// Times that a process was replaced while the record was outstanding. The sidecar cannot tell
    /// that from a crash by the record.
    pub(crate) lost: u32,
    /// Times that nothing else was outstanding at the replaced process.
    pub(crate) lost_alone: u32,
    /// Times that no later record was delivered to the replaced process.
    pub(crate) lost_last: u32,
    /// The record may be delivered again after it was handled, and its nacks count anew.
    pub(crate) is_replayed: bool,
    /// The group was reset to an offset behind the record.
    pub(crate) is_skipped: bool,
    /// Number of the last delivery, in deliveries of the whole script.
    pub(crate) last: usize,
}

impl Truth {
    /// Whether the record may be a dead letter after so many failures. A record that never failed
    /// may be one if its member was lost twice with it as the last delivery, once with nothing else
    /// outstanding. With a limit of one failure, the latter is enough.
    pub(crate) fn may_end_after(&self, times: u32) -> bool {
        self.failed > 0 || (self.lost_alone > 0 && (self.lost_last > 1 || times == 1))
    }

    /// The most failures that may be counted.
    pub(crate) fn may_count(&self) -> u32 {
        self.failed + self.lost
    }
}

/// The application, in all its processes.
pub(crate) struct Handler {
    pub(crate) rng: Rng,
    pub(crate) truths: BTreeMap<RecordOrigin, Truth>,
    /// An outage: every record fails.
    pub(crate) is_out: bool,
    pub(crate) deliveries: usize,
    /// Records in the retry queue, where a record that kills its process does so for ever.
    pub(crate) queued: BTreeSet<RecordOrigin>,
}

impl Handler {
    pub(crate) fn handle(&mut self, of: &TopicPartition, offset: i64) -> Did {
        self.deliveries += 1;
        let place = (of.clone(), offset);
        let truth = self.truths.get_mut(&place);
        let truth = truth.unwrap_or_else(|| panic!("{of}@{offset} is no application's"));
        let is_queued = self.queued.contains(&place);
        // A handled record that was not committed is delivered again after a crash.
        if is_queued || truth.done == 0 {
            truth.last = self.deliveries;
        }
        let fails = self.is_out || truth.left > 0;
        // The record was not committed when its process ended: later records of its key may be
        // done.
        truth.is_replayed |= fails && truth.done > 0 && !is_queued;
        if self.is_out {
            truth.failed += 1;
            return Did::Nack;
        }
        if truth.left == 0 {
            truth.done += 1;
            return Did::Well(self.rng.u64(1..20));
        }
        truth.left -= u32::from(truth.left != ALWAYS);
        truth.failed += 1;
        let mut way = truth.way;
        if way == FailureWay::Any {
            way = [FailureWay::Says, FailureWay::Throws, FailureWay::Dies][self.rng.usize(..3)];
        }
        match way {
            _ if is_queued => Did::Nack,
            FailureWay::Says | FailureWay::Any => Did::Nack,
            FailureWay::Dies => Did::Die(0),
            FailureWay::Throws => Did::Throw,
        }
    }
}
