//! Reasons of an entry's changes of state, and the failures charged before the entry began.

use serde::{Deserialize, Serialize};

use crate::model::WallMs;

/// Reason of the last change of state. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The application reported the failure.
    Rejected,
    /// The member fetched the record again, below its last delivery.
    SeekBack,
    /// The member was lost with the delivery.
    Crashed,
    /// The limit of retries was reached.
    MaxAttempts,
    /// The application asked for a dead letter.
    ExplicitDlq,
    Expired,
    Undecodable,
    Manual,
    /// A live member did not commit the record for `consume_timeout`.
    TimedOut,
}

impl Disposition {
    pub const ALL: [Self; 9] = [
        Self::Rejected,
        Self::SeekBack,
        Self::Crashed,
        Self::MaxAttempts,
        Self::ExplicitDlq,
        Self::Expired,
        Self::Undecodable,
        Self::Manual,
        Self::TimedOut,
    ];

    /// The detector inferred the failure; no nack reported it.
    pub(super) fn is_inferred(self) -> bool {
        matches!(self, Self::SeekBack | Self::Crashed | Self::TimedOut)
    }

    /// The disposition with that word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The word in headers, metrics and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::SeekBack => "seek_back",
            Self::Crashed => "crashed",
            Self::MaxAttempts => "max_attempts",
            Self::ExplicitDlq => "explicit_dlq",
            Self::Expired => "expired",
            Self::Undecodable => "undecodable",
            Self::Manual => "manual",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Failures of a record before its entry began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureHistory {
    pub reconsume_times: u32,
    /// The latest failures, latest last.
    pub history: Vec<(WallMs, Disposition)>,
    /// The group's breaker is open: the failure is not charged, and the record waits for its next
    /// delivery.
    pub spared: bool,
}
