//! The answers of the admin port: plain structs, filled by the server, written as JSON.

pub(super) mod action_request;
pub(super) mod explanation;
pub(super) mod failed_record;
pub(super) mod fingerprint;
pub(super) mod job_plan;
pub(super) mod journal_view;

use serde::Serialize;

use super::payload::concealment::Concealment;
use super::state_counts::StateCounts;

/// A part of a list: the records that a selector admits among those looked at.
#[derive(Clone, Debug)]
pub struct Selected<T> {
    pub items: Vec<T>,
    pub looked_at: usize,
    /// Bytes of the records that the items hold.
    pub bytes: usize,
    /// The place to go on after; `None`: the list ends here.
    pub next: Option<i64>,
}

/// Whether the sidecar can do its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Recovery is done and every listener is open.
    pub started: bool,
    /// At least some requests can be served.
    pub ready: bool,
    /// The reason, where only a restart helps.
    pub restart_reason: Option<String>,
    /// Limited functions, a sentence each (`disk full: retries are held`).
    pub degraded: Vec<String>,
}

/// The totals of the sidecar.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The Kafka cluster id.
    pub cluster_id: String,
    /// Milliseconds since start.
    pub uptime_ms: u64,
    /// Addresses clients connect to.
    pub listen: Vec<String>,
    /// Open client connections.
    pub connections: u64,
    /// Topics of this cluster, without retry and dead-letter topics.
    pub topics: u64,
    /// Consumer groups known.
    pub groups: u64,
    /// Failed records by state, in all groups.
    #[serde(flatten)]
    pub states: StateCounts,
    /// The sum of `states`.
    pub pending: u64,
    /// Dead letters kept, in all groups.
    pub dead_letters: u64,
    /// Produced records that wait before they enter their topic.
    pub delayed: u64,
    /// Delayed records that are due and cannot be read.
    pub delayed_unreadable: u64,
    /// Bytes of the journal on disk.
    pub journal_bytes: u64,
}

/// The records that are pending before the sidecar may be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainView {
    /// The sidecar was told to stop and serves until the last client has left.
    pub draining: bool,
    /// Open client connections.
    pub connections: u64,
    /// Records that exist only here: failed ones in any state, and delayed ones.
    pub pending: u64,
    /// The delayed ones of `pending`.
    pub delayed: u64,
    /// Bytes of the delayed records in the journal.
    pub delayed_bytes: u64,
    /// Dead letters that exist only here.
    pub dead_letters: u64,
    /// The next due time of a retry or a delayed record, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
    /// Groups with something pending or dead letters, by name; at most 1000.
    pub groups: Vec<DrainGroup>,
    /// Such groups that are not listed.
    pub more_groups: u64,
}

/// The pending records of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainGroup {
    pub group: String,
    /// Failed records of the group by state.
    #[serde(flatten)]
    pub states: StateCounts,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// The due time of the group's next retry, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
}

/// One consumer group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupView {
    pub group: String,
    /// `classic` or, by KIP-848, `consumer`.
    pub kind: String,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Reconciling`, `Stable` or `Dead`;
    /// `InCluster` when only the upstream knows it: then `members` are those connected here.
    pub phase: String,
    /// The upstream coordinates the group; `members` are those connected through this sidecar.
    pub in_cluster: bool,
    /// The generation, or for `consumer` groups the epoch.
    pub generation: i32,
    /// The assignor in use.
    pub protocol: Option<String>,
    /// The breaker's state, in words.
    pub breaker: String,
    /// The name of the retry topic that clients see.
    pub retry_topic: String,
    /// The name of the dead-letter topic that clients see.
    pub dead_letter_topic: String,
    /// Members, silent ones included.
    pub members: Vec<MemberView>,
    /// Members connected to the cluster, not through this sidecar; absent when none are known.
    pub elsewhere: Option<ElsewhereView>,
    /// The rules in force.
    pub policy: PolicyView,
    /// Failed records of the group by state.
    #[serde(flatten)]
    pub states: StateCounts,
    /// The sum of `states`.
    pub pending: u64,
    /// Retries whose delay runs or that are due, by level.
    pub levels: Vec<LevelView>,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// Whether somebody reads a retry topic of the group.
    pub is_read: bool,
    /// The reason why no member would receive a dead letter sent back, and the way out.
    pub no_receiver: Option<String>,
    /// Due retries that are blocked, and the reason of one.
    pub refused: u64,
    pub refusal: Option<String>,
    /// Bytes of these dead letters.
    pub dead_letter_bytes: u64,
    /// An exhausted record has no room among the dead letters.
    pub dead_letters_full: bool,
    /// The reason why dead letters do not reach their topic in the cluster.
    pub letter_trouble: Option<String>,
    pub offsets: Vec<OffsetView>,
    /// Advice for the operator, a sentence each; [`GroupView::advise`] adds to it.
    pub advice: Vec<String>,
}

/// Members of a group that are not connected through this sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ElsewhereView {
    /// Number of these members, as the cluster last told a leader of the group here.
    pub members: u64,
    /// The number of them that subscribe to the retry topic.
    pub subscribed: u64,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemberView {
    pub member_id: String,
    /// The member's `group.instance.id`.
    pub instance_id: Option<String>,
    /// The client's own name, `client.id`.
    pub client_id: String,
    pub host: String,
    /// The session timeout.
    pub session_ms: u64,
    /// The member has closed its connection and not left the group.
    pub disconnected: bool,
    /// No heartbeat for the session timeout: the member does not count as live.
    pub silent: bool,
    /// Whether the member subscribes to the group's retry topic.
    pub takes_retries: bool,
    /// The assigned partitions, each as `topic-partition`.
    pub assignment: Vec<String>,
}

/// The rules of retrying in force for a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyView {
    /// Delays in milliseconds, from level 1.
    pub levels_ms: Vec<u64>,
    /// Delays of the retries of a record that names no level, in their order. Further retries wait
    /// as long as the last.
    pub delays_ms: Vec<u64>,
    /// Retries before the dead letters.
    pub max_reconsume_times: u32,
    /// Milliseconds after which a delivery times out.
    pub consume_timeout_ms: u64,
    /// Whether exhausted records are kept.
    pub keep_dead_letters: bool,
    /// The quota of dead letters in bytes; absent: no bound.
    pub dead_letters_max_bytes: Option<u64>,
}

/// A delayed record: it waits before it enters its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayedView {
    /// `<topic>-<partition>@<number>`: no offset, but as unique as one.
    pub id: String,
    pub number: u64,
    pub topic: String,
    pub partition: i32,
    /// The time at which it enters its topic, Unix ms.
    pub due_ms: i64,
    /// Bytes in the journal.
    pub bytes: u64,
    /// The reason why the record cannot be read; when absent, the fields below are set.
    pub unreadable: Option<String>,
    /// The producer's timestamp, Unix ms.
    pub timestamp_ms: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Without the headers that set the delay.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The part of the value that a mask has taken away.
    pub concealment: Concealment,
}

/// The number of retries on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelView {
    /// Level in the table, from 1; absent for exact delays and back-offs.
    pub level: Option<u32>,
    pub records: u64,
}

/// One committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OffsetView {
    pub topic: String,
    pub partition: i32,
    /// The next record the group will read.
    pub committed: i64,
    /// The next offset that will be written; absent when unknown.
    pub end: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryView {
    /// The id of the entry; it never changes.
    pub id: u64,
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// `waiting`, `due`, `unread` or `blocked`.
    pub state: String,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Level in the delay table, absent for exact delays.
    pub level: Option<u32>,
    /// The due time, Unix ms; absent for `unread`, and for an exhausted record that is `blocked`.
    pub due_ms: Option<i64>,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// The cause of the last failure.
    pub cause: Option<String>,
    /// The text the application gave.
    pub error: Option<String>,
    /// The reason why a due retry is `blocked`.
    pub refusal: Option<String>,
    /// The pattern of its key, and the size class of its record.
    pub key_shape: Option<String>,
    pub size: String,
}

impl RetryView {
    /// Whether an operator may act on it: it is not released.
    pub fn waits(&self) -> bool {
        self.due_ms.is_some()
    }
}

/// One dead letter with its record; the admin port decides which bytes it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterView {
    pub group: String,
    pub offset: i64,
    /// The pattern of its key, and the size class of its record.
    pub key_shape: String,
    pub size: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// Failures charged, the last one included.
    pub reconsume_times: u32,
    /// `dead`, `discarded` or `redriven`.
    pub state: String,
    /// Time until which a discarded letter can be restored, Unix ms.
    pub restorable_until_ms: Option<i64>,
    /// Earlier redrives of the record.
    pub redrives: u32,
    /// The cause of the dead letter.
    pub cause: String,
    /// The text the application gave.
    pub error: Option<String>,
    /// The time of death, Unix ms.
    pub at_ms: i64,
    /// The first failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    /// Bytes of the value; absent for a tombstone.
    pub value_bytes: Option<usize>,
    /// Absent in a list.
    pub value: Option<Vec<u8>>,
    /// In order, duplicates and the headers of reprise included; empty in a list.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Times (Unix ms) and causes of the last failures, latest last; empty in a list.
    pub history: Vec<(i64, String)>,
    /// The part of the value that a mask has taken away.
    pub concealment: Concealment,
}

/// A retry with its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryRecord {
    pub retry: RetryView,
    /// Times (Unix ms) and causes of its last failures, latest last.
    pub history: Vec<(i64, String)>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Headers of the record as produced, in order, duplicates kept.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The part of the value that a mask has taken away.
    pub concealment: Concealment,
}
