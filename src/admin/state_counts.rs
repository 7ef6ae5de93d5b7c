//! Failed records by state, as the admin port, the metrics and the commands count them.

use std::iter::Sum;

use serde::Serialize;

/// Counts of failed records by state. A record is in one state at a time, so the states
/// add up to what is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateCounts {
    /// Retries whose delay runs.
    pub waiting: u64,
    /// Retries that are due and not released: nobody reads the topic, or its window is full.
    pub due: u64,
    /// Retries in the retry topic, neither acknowledged nor failed.
    pub unread: u64,
    /// Due retries that cannot enter their topic, and exhausted records for which the dead letters
    /// have no room.
    pub blocked: u64,
}

impl StateCounts {
    /// The sum of all states: records that would be lost with the sidecar's data.
    pub fn pending(&self) -> u64 {
        self.waiting + self.due + self.unread + self.blocked
    }

    /// Retries that are not released.
    pub(super) fn owed(&self) -> u64 {
        self.waiting + self.due
    }
}

impl Sum for StateCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            waiting: sum.waiting + one.waiting,
            due: sum.due + one.due,
            unread: sum.unread + one.unread,
            blocked: sum.blocked + one.blocked,
        })
    }
}
