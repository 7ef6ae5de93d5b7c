//! An admin nack: the record that failed, and the outcome.

use serde::Serialize;

use crate::model::{GroupId, Origin};
use crate::retry::RequestedDelay;

/// A record that failed, of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRecord {
    pub group: GroupId,
    /// The record as the application saw it: an origin, or a record of the retry topic.
    pub record: Origin,
    /// The requested delay, level or dead letter.
    pub want: RequestedDelay,
    pub error: Option<String>,
}

/// The outcome of an admin nack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FailedTaken {
    /// The record is delivered again.
    Scheduled {
        /// The id of the entry.
        id: u64,
        /// The due time, Unix ms.
        due_ms: i64,
    },
    /// The record is a dead letter.
    Dead {
        /// The id of the entry.
        id: u64,
    },
    /// The record was dropped: the group keeps no dead letters.
    Discarded {
        /// The id of the entry.
        id: u64,
    },
    /// The record's retries are used up. It becomes a dead letter once the quota has room.
    Blocked {
        /// The id of the entry.
        id: u64,
    },
    /// The record is retried in place: its partition waits (`order.mode: partition`).
    InPlace,
    /// Nothing is charged: the failure is recorded already, or the delivery is not the current one.
    Known {
        /// The id of the entry.
        id: u64,
    },
}

/// The reason why an admin nack is refused, a sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailedRefused {
    /// The request is not valid.
    Bad(String),
    /// The group or the record does not exist.
    Missing(String),
    /// The present state does not allow it.
    Conflict(String),
    /// Another try may succeed.
    NotNow(String),
}
