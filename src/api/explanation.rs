//! The state and the suspects of a group's consumers, and the history of one record.

use serde::{Deserialize, Serialize};

/// The history of one record, and the present state of its partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordHistory {
    /// The record as `<topic>-<partition>@<offset>`.
    pub record: String,
    /// The record's partition at present, in every requested group whose failures are inferred.
    pub now: Vec<GroupExplanation>,
    /// The last thousand events that the journal still has, oldest first.
    pub past: Vec<PastView>,
}

/// One event in the history of a record in one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastView {
    pub group: String,
    /// Unix milliseconds; `None`: between the times of the events before and after.
    pub at: Option<i64>,
    /// Evidence in a word, such as `nack`.
    pub evidence: Option<String>,
    /// A sentence for the operator.
    pub says: String,
    /// The end of a wait that has a time.
    pub until: Option<i64>,
    /// Failures charged by then.
    pub reconsume_times: Option<u32>,
    /// The text the application gave.
    pub error: Option<String>,
    /// The member that gave the evidence.
    pub member: Option<String>,
    /// The member's `client.id`.
    pub client: Option<String>,
}

/// A group's consumers, as failure detection sees them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupExplanation {
    pub group: String,
    /// Every key of `retry` in force; left out where only one record is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleView>,
    /// Failures are inferred (`retry.delivery`).
    pub watched: bool,
    /// The breaker's state, in words.
    pub breaker: String,
    /// Advice for the operator, a sentence each; left out where only one record is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Records that may end their consumer: those outstanding at every recent lost delivery.
    pub suspects: Vec<SuspectsView>,
    /// Partitions that were fetched or committed lately.
    pub partitions: Vec<PartitionView>,
}

/// A set of records, one of which may end its consumer. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectsView {
    /// `counted`, `tested`, `isolated`, `withheld` or `ended`.
    pub stage: String,
    /// Number of these records.
    pub records: u64,
    /// Offsets, such as `orders-0@4..15` (both included); at most 16 ranges.
    pub offsets: Vec<String>,
    /// Delivered suspects that are neither committed nor lost.
    pub granted: Vec<String>,
    /// Members that have the granted ones.
    pub members: Vec<String>,
    /// Lost deliveries at which all of them were outstanding.
    pub losses: u32,
    /// Since the first of these losses, or since the start.
    pub since_ms: u64,
    /// Since the last of these losses.
    pub last_loss_ms: u64,
    /// Failed deliveries of the record that is left.
    pub failures: u32,
    /// The failure that makes it an entry of the retry topic, or a dead letter.
    pub failures_max: u32,
    /// The reason, in words.
    pub why: String,
    /// The next step, in words.
    pub next: String,
}

/// One key of `retry` in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleView {
    /// Dotted, such as `dead_letters.keep`.
    pub key: String,
    /// The value as it is written in the configuration.
    pub value: String,
    /// The innermost place of the configuration that sets the value.
    pub from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionView {
    pub topic: String,
    pub partition: i32,
    /// The member that the partition is assigned to.
    pub member: Option<String>,
    /// The group's committed offset, as last seen here.
    pub committed: Option<i64>,
    /// The offset after the last one delivered.
    pub handed_out: i64,
    /// The reason why seek-backs are not judged here; absent when they are judged.
    pub unjudged: Option<String>,
    /// Records that the member sought back to, with the count since its assignment.
    pub seek_backs: Vec<SeekBackView>,
    /// Records that are suspected, or have failed.
    pub suspects: Vec<SuspectView>,
    /// Offsets of final records that are left out of fetches until a commit passes them.
    pub skipped: Vec<i64>,
}

/// A member's seek-backs to one record: failures, if the group says so (`on_seek_back: retry`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeekBackView {
    pub offset: i64,
    /// Seek-backs since the member was assigned.
    pub times: u32,
}

/// A record that is suspected, or has failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuspectView {
    pub offset: i64,
    pub reconsume_times: u32,
    /// Failures after which the next one is the last.
    pub max_reconsume_times: u32,
    /// The record's state, in words.
    pub stands: String,
    /// Charged failures, oldest first: Unix milliseconds and why.
    pub history: Vec<(i64, String)>,
}
