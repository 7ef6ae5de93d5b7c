//! What is journalled of one partition of one group, the latest of which counts.

use serde::{Deserialize, Serialize};

use crate::model::WallMs;
use crate::retry::Disposition;

/// A partition's window and what is suspected in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Written by earlier builds: the first offset handed out and not committed.
    pub from: i64,
    /// Written by earlier builds: the offset after the last one handed out.
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
    /// Written by earlier builds: doublings of patience.
    pub doublings: u32,
    /// Records that are suspected or were charged, by offset.
    pub suspects: Vec<SuspectRecord>,
    /// Settled here and not passed by a commit: cut from what is handed out.
    pub skipped: Vec<i64>,
    /// The group has committed something of it. Journalled beside the rest.
    #[serde(skip)]
    pub has_committed: bool,
}

/// The last record that left for a member, as earlier builds wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutRecord {
    /// Which.
    pub offset: i64,
    /// It is the only one outstanding there.
    pub alone: bool,
}

/// One suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectRecord {
    /// Which record.
    pub offset: i64,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// When it may be handed out again; `None`: when its turn comes.
    pub due: Option<WallMs>,
    /// Charged failures, latest last; a bounded list.
    pub history: Vec<(WallMs, Disposition)>,
}

impl WindowRecord {
    /// Nothing of it need be remembered.
    pub fn is_idle(&self) -> bool {
        self.suspects.is_empty() && self.skipped.is_empty()
    }
}
