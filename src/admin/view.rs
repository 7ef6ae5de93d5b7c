//! What the admin port shows: plain structs, filled by the server, written as JSON.

use serde::Serialize;

use super::mask::Concealment;
use super::states::StateCounts;

/// Whether the sidecar can do its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Recovery is done and every listener is open.
    pub started: bool,
    /// Anything at all can be served.
    pub ready: bool,
    /// The reason why only a restart helps.
    pub restart_reason: Option<String>,
    /// What is impaired meanwhile, a sentence each (`disk full: retries are held`).
    pub degraded: Vec<String>,
}

/// The whole at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The Kafka cluster id.
    pub cluster_id: String,
    /// The Kafka node id.
    pub node_id: i32,
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
    /// The sum of these states.
    pub pending: u64,
    /// Dead letters kept, in all groups.
    pub dead_letters: u64,
    /// Produced records that wait before they enter their topic.
    pub delayed: u64,
    /// Those of them that are due and cannot be read.
    pub delayed_unreadable: u64,
    /// Bytes of the journal on disk.
    pub journal_bytes: u64,
}

/// What is pending before a sidecar goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// It was told to stop and serves until the last client has left.
    pub draining: bool,
    /// Open client connections.
    pub connections: u64,
    /// Records that lie here and nowhere else: failed ones in any state, and produced ones that
    /// are to enter their topic later.
    pub pending: u64,
    /// The latter of them.
    pub delayed: u64,
    /// What those take in the log.
    pub delayed_bytes: u64,
    /// Dead letters that lie here and nowhere else.
    pub dead_letters: u64,
    /// When the next one comes back, or enters its topic, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
    /// Groups with something pending or dead letters, by name; at most 1000.
    pub groups: Vec<DrainGroup>,
    /// Such groups that are not listed.
    pub more_groups: u64,
}

/// The part of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainGroup {
    /// Its id.
    pub group: String,
    /// Failed records of the group by state.
    #[serde(flatten)]
    pub states: StateCounts,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// When its next one comes back, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
}

/// One consumer group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupView {
    /// Its id.
    pub group: String,
    /// `classic` or, by KIP-848, `consumer`.
    pub kind: String,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Reconciling`, `Stable` or `Dead`;
    /// `InCluster` when only the cluster behind knows: then `members` are those connected here.
    pub phase: String,
    /// The cluster behind coordinates it; `members` are those connected through this sidecar.
    pub in_cluster: bool,
    /// Its generation, or its epoch.
    pub generation: i32,
    /// The assignor in use.
    pub protocol: Option<String>,
    /// Where its breaker stands, in words.
    pub breaker: String,
    /// Its retry topic on the Kafka wire.
    pub retry_topic: String,
    /// Its dead letters on the Kafka wire.
    pub dead_letter_topic: String,
    /// Members, silent ones included.
    pub members: Vec<MemberView>,
    /// Members connected to the cluster, not through this sidecar; absent when nothing is known
    /// of such members.
    pub elsewhere: Option<ElsewhereView>,
    /// The rules in force.
    pub policy: PolicyView,
    /// Failed records of the group by state.
    #[serde(flatten)]
    pub states: StateCounts,
    /// The sum of these states.
    pub pending: u64,
    /// Retries whose delay runs or that are due, by level.
    pub levels: Vec<LevelView>,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// Their bytes.
    pub dead_letter_bytes: u64,
    /// Their way to the cluster; absent when they stay here.
    pub forward: Option<ForwardView>,
    /// Committed offsets.
    pub offsets: Vec<OffsetView>,
    /// What the operator should know, a sentence each; [`GroupView::advise`] adds to it.
    pub advice: Vec<String>,
}

/// Members of a group that are not connected through this sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ElsewhereView {
    /// Members, as a leader of the group here was last told.
    pub members: u64,
    /// The number of them that subscribe to the retry topic, which the cluster does not have.
    pub subscribed: u64,
}

/// Dead letters on their way to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForwardView {
    /// The topic there.
    pub topic: String,
    /// Not taken yet.
    pub pending: u64,
    /// Refused for what they are; kept here.
    pub refused: u64,
    /// Why nothing moves; absent while it does.
    pub trouble: Option<String>,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemberView {
    /// Its id.
    pub member_id: String,
    /// Its static id.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Its address.
    pub host: String,
    /// Not heard of for the session timeout: no live member.
    pub silent: bool,
    /// Whether it subscribes to the group's retry topic.
    pub takes_retries: bool,
    /// What it holds, `topic-partition` each; without its partition of the retry topic.
    pub assignment: Vec<String>,
    /// Its slot there.
    pub slot: Option<u16>,
}

/// The rules of retrying in force for a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyView {
    /// Delays in milliseconds, from level 1.
    pub levels_ms: Vec<u64>,
    /// Retries before the dead letters.
    pub max_reconsume_times: u32,
    /// How long a hand-out may stay open, in milliseconds.
    pub consume_timeout_ms: u64,
    /// Whether exhausted records are kept.
    pub keep_dead_letters: bool,
    /// What the kept ones may take, in bytes; absent = no bound.
    pub dead_letters_max_bytes: Option<u64>,
}

/// A record that waits before it enters its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayedView {
    /// `<topic>-<partition>@<number>`; no offset, but as unique.
    pub id: String,
    /// The number.
    pub number: u64,
    /// Where it is to enter.
    pub topic: String,
    /// The same.
    pub partition: i32,
    /// When, Unix milliseconds.
    pub due_ms: i64,
    /// What it takes in the log.
    pub bytes: u64,
    /// Why it cannot be read; absent when it can, then the rest is there.
    pub unreadable: Option<String>,
    /// Its producer's time, Unix milliseconds.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, without those that said when.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The part of the value that a mask has taken away.
    pub concealment: Concealment,
}

/// How many wait on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelView {
    /// Level in the table, from 1; absent for exact delays and back-offs.
    pub level: Option<u32>,
    /// Retries.
    pub records: u64,
}

/// One committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OffsetView {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next record the group will read.
    pub committed: i64,
    /// The next offset that will be written; absent when unknown.
    pub end: Option<i64>,
}

/// One failed record on its way back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryView {
    /// Its number, for ever.
    pub id: u64,
    /// Its group.
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// `waiting`, `ready`, `inflight`, `parked`, `held`, `exported` or `behind`.
    pub state: String,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Level in the delay table, absent for exact delays.
    pub level: Option<u32>,
    /// When it comes back, Unix ms; absent while inflight and for what is held.
    pub due_ms: Option<i64>,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// Why it failed.
    pub disposition: Option<String>,
    /// What the application said.
    pub reason: Option<String>,
    /// The member that has it; absent unless inflight.
    pub member: Option<String>,
}

/// One dead letter, with the record's bytes; the admin port decides how much of them it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its group.
    pub group: String,
    /// Its offset in the dead-letter topic.
    pub offset: i64,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// Failures charged, the last one included.
    pub reconsume_times: u32,
    /// `dead`; `discarded`: it can be restored; `redriven`: its record is on its way back;
    /// `edited`: its changed record is a later dead letter; `produced`: by a client, to the topic
    /// of the dead letters.
    pub state: String,
    /// Times the record was sent back before.
    pub redrives: u32,
    /// Why it is here.
    pub disposition: String,
    /// What the application said.
    pub reason: Option<String>,
    /// When it became a dead letter, Unix ms.
    pub at_ms: i64,
    /// When it first failed, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// How large the record's value is; absent when it has none.
    pub value_bytes: Option<usize>,
    /// The record's value; a list has none.
    pub value: Option<Vec<u8>>,
    /// The record's headers, ours included, in order, duplicates kept; a list has none.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Times (Unix ms) and causes of its last failures, latest last; a list has none.
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
