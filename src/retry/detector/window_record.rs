//! The journal record of one partition of one group; the latest one counts.

use serde::{Deserialize, Serialize};

use crate::model::WallMs;
use crate::retry::Disposition;

/// The window of a partition, and its suspects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Written by earlier builds: the first offset delivered and not committed.
    pub from: i64,
    /// Written by earlier builds: the offset after the last one delivered.
    pub end: i64,
    /// Written by earlier builds.
    pub out: Option<OutRecord>,
    /// Written by earlier builds: lost deliveries in a row.
    pub losses: u32,
    /// Written by earlier builds: the first record of the last loss.
    pub lost_from: i64,
    /// Written by earlier builds: the offset behind the last suspect.
    pub suspects_end: i64,
    /// Written by earlier builds: the last record of the last loss.
    pub last: Option<i64>,
    /// Written by earlier builds: number of times that `isolation_timeout` was doubled.
    pub doublings: u32,
    /// Records with a suspicion or counted failures, by offset.
    pub suspects: Vec<SuspectRecord>,
    /// Settled records that no commit has passed, left out of deliveries.
    pub skipped: Vec<i64>,
    /// The group has committed an offset of the partition. Journalled beside the rest.
    #[serde(skip)]
    pub has_committed: bool,
}

/// The last record delivered to a member, as earlier builds wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutRecord {
    pub offset: i64,
    /// No other record of the partition was outstanding.
    pub alone: bool,
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
