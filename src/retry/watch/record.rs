//! What is journalled of one partition of one group, the latest of which counts.

use serde::{Deserialize, Serialize};

use crate::model::WallMs;
use crate::retry::Disposition;

/// A partition's window and what is suspected in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// The first offset handed out and not committed; equal to `end`: nothing is open.
    pub from: i64,
    /// The offset after the last one handed out.
    pub end: i64,
    /// Hand-outs lost with a member and handed out anew since.
    pub losses: u32,
    /// Every suspect of the lost hand-outs lies below; 0: there is none.
    pub suspects_end: i64,
    /// Records that were charged, or are suspected, by offset.
    pub suspects: Vec<SuspectRecord>,
    /// Settled here and not passed by a commit: cut from what is handed out.
    pub skipped: Vec<i64>,
}

/// One suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectRecord {
    /// Which record.
    pub offset: i64,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// When it may be handed out again.
    pub due: Option<WallMs>,
    /// Charged failures, latest last; a bounded list.
    pub history: Vec<(WallMs, Disposition)>,
}

impl WindowRecord {
    /// Nothing of it need be remembered.
    pub fn is_idle(&self) -> bool {
        self.from >= self.end
            && self.losses == 0
            && self.suspects.is_empty()
            && self.skipped.is_empty()
    }
}
