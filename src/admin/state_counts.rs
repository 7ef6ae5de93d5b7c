//! Failed records by state, as the admin port, the metrics and the commands count them.

use std::iter::Sum;

use serde::Serialize;

/// Counts of failed records by state. A record is in one state at a time, so the states
/// add up to what is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateCounts {
    /// Retries whose delay runs.
    pub waiting: u64,
    /// Retries that are due, in a group with a member that takes retries.
    pub ready: u64,
    /// Retries that are due, in a group without a live member that takes retries.
    pub parked: u64,
    /// Retries delivered and neither acknowledged nor failed.
    pub inflight: u64,
    /// Exhausted records that wait until the dead letters have room.
    pub held: u64,
}

impl StateCounts {
    /// The sum of all states: records that would be lost with the sidecar's data.
    pub fn pending(&self) -> u64 {
        self.waiting + self.ready + self.parked + self.inflight + self.held
    }

    /// Retries that wait for their due time or for a member.
    pub(super) fn owed(&self) -> u64 {
        self.waiting + self.ready + self.parked
    }
}

impl Sum for StateCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            waiting: sum.waiting + one.waiting,
            ready: sum.ready + one.ready,
            parked: sum.parked + one.parked,
            inflight: sum.inflight + one.inflight,
            held: sum.held + one.held,
        })
    }
}
