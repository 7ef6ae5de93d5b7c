//! The journal record of one partition of one group; the latest one counts.

use serde::{Deserialize, Serialize};

use crate::model::WallMs;
use crate::retry::Disposition;

/// The window of a partition, and its suspects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Nacked records that the partition waits for, by offset.
    pub suspects: Vec<SuspectRecord>,
    /// Settled records that no commit has passed, left out of deliveries.
    pub skipped: Vec<i64>,
    /// The group has committed an offset of the partition.
    pub has_committed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectRecord {
    pub offset: i64,
    /// Failures counted so far.
    pub reconsume_times: u32,
    /// When the record may be delivered again; `None`: not before its turn.
    pub due: Option<WallMs>,
    /// Counted failures, latest last; a bounded list.
    pub history: Vec<(WallMs, Disposition)>,
}

impl WindowRecord {
    /// Whether nothing in it has to be journalled.
    pub fn is_idle(&self) -> bool {
        self.suspects.is_empty() && self.skipped.is_empty()
    }
}
