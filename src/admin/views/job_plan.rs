//! The letters that a job would change.

use serde::Serialize;

/// The count of letters that a job would change, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobPlan {
    pub matched: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanSample {
    pub offset: i64,
    pub origin: Option<String>,
    pub error: Option<String>,
    pub redrives: u32,
    /// The value that a patch makes; absent without a patch.
    pub value: Option<String>,
}
