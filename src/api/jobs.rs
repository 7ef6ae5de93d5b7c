//! Jobs on dead letters: requests, plans and progress.

use serde::{Deserialize, Serialize};

use super::selector::Selector;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    #[default]
    Running,
    Paused,
    Done,
    Cancelled,
    /// Too many redriven records failed again.
    Stopped,
}

impl JobState {
    /// The status name for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
        }
    }
}

/// The terms of a job, apart from its conditions and those of a redrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobRequest {
    /// `redrive` or `discard`.
    pub action: Option<String>,
    /// Records in a second; 0: no limit.
    pub rate: Option<u32>,
    pub canary: Option<u32>,
    pub stop_percent: Option<u8>,
    pub redrives_max: Option<u32>,
    /// The letters that the plan has counted: the job starts only if as many match.
    pub expected: Option<u64>,
    pub note: Option<String>,
}

/// A change of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobChangeRequest {
    pub note: Option<String>,
}

/// A job and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    pub id: u64,
    pub group: String,
    pub action: String,
    /// The topic that the records are sent to.
    pub target: Option<String>,
    pub state: JobState,
    pub awaits_canary: bool,
    pub changed: u64,
    pub left: u64,
    pub acknowledged: u64,
    pub failed: u64,
    /// Redriven records without an outcome.
    pub pending: usize,
    /// Letters that the conditions admit, if they were counted before the start.
    pub matched: Option<u64>,
    /// The offset of the next batch, and the end of the job.
    pub cursor: i64,
    pub end: i64,
    pub started_ms: i64,
    pub ended_ms: Option<i64>,
    pub name: String,
    /// The caller has claimed the name, without a token.
    pub claimed: bool,
    pub peer: String,
    pub note: String,
    pub rate: u32,
    pub canary: u32,
    pub stop_percent: u8,
    pub redrives_max: u32,
    pub selector: Selector,
    pub patch: PatchView,
}

/// The changes that a job makes in each record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchView {
    pub set_headers: Vec<String>,
    pub remove_headers: Vec<String>,
    pub merge: Option<String>,
}

/// The count of letters that a job would change, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPlan {
    pub matched: u64,
    /// The offset behind the last letter that was looked at.
    pub end: i64,
    /// Bytes of their keys, values and headers.
    pub bytes: u64,
    /// Letters that stay, because they were redriven too often.
    pub looped: u64,
    /// Letters that stay, because the patch does not apply, and the first reason.
    pub unpatched: u64,
    pub unpatched_reason: Option<String>,
    /// The topics of the next deliveries.
    pub retry_topic: String,
    /// The members that would receive the records; or the reason why none would.
    pub receivers: String,
    /// Nobody would receive one of the records: the job starts only with `anyway`.
    pub is_refused: bool,
    /// Retries that each record has from then on.
    pub max_reconsume_times: u32,
    pub samples: Vec<PlanSample>,
}

/// A letter that a job would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSample {
    pub offset: i64,
    pub origin: Option<String>,
    pub error: Option<String>,
    pub redrives: u32,
    /// The value that a patch makes; absent without a patch.
    pub value: Option<String>,
}
