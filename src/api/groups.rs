//! The sidecar and its groups.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use super::selector::RecordStage;

/// Counts of failed records by state. A record is in one state at a time, so the states
/// add up to what is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCounts {
    /// Retries whose delay runs.
    pub waiting: u64,
    /// Retries that are due and not released: nobody reads the topic, or its window is full.
    pub due: u64,
    /// Retries in the retry topic, neither acknowledged nor failed.
    pub unread: u64,
    /// Due retries that cannot enter their topic, and exhausted records for which the dead letters
    /// have no room.
    pub blocked: u64,
}

impl StateCounts {
    /// The sum of all states: records that would be lost with the sidecar's data.
    pub fn pending(&self) -> u64 {
        self.waiting + self.due + self.unread + self.blocked
    }

    /// The count of one state; `None`: it is not among them.
    pub fn of(&self, state: RecordStage) -> Option<u64> {
        match state {
            RecordStage::Waiting => Some(self.waiting),
            RecordStage::Due => Some(self.due),
            RecordStage::Unread => Some(self.unread),
            RecordStage::Blocked => Some(self.blocked),
            RecordStage::Dead | RecordStage::Discarded | RecordStage::Redriven => None,
        }
    }

    /// Retries that are not released.
    pub fn owed(&self) -> u64 {
        self.waiting + self.due
    }
}

impl Sum for StateCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            waiting: sum.waiting + one.waiting,
            due: sum.due + one.due,
            unread: sum.unread + one.unread,
            blocked: sum.blocked + one.blocked,
        })
    }
}

/// Whether the sidecar can do its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// At least some requests can be served.
    pub ready: bool,
    /// The reason, where only a restart helps.
    pub restart_reason: Option<String>,
    /// Limited functions, a sentence each (`disk full: retries are held`).
    pub degraded: Vec<String>,
}

/// The totals of the sidecar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// States of a breaker in which deliveries go on.
pub const IDLE_BREAKER: [&str; 2] = ["off", "closed"];

/// One consumer group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

impl GroupView {
    /// The members that are heard of.
    pub fn live_members(&self) -> impl Iterator<Item = &MemberView> {
        self.members.iter().filter(|member| !member.silent)
    }
}

/// Members of a group that are not connected through this sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElsewhereView {
    /// Number of these members, as the cluster last told a leader of the group here.
    pub members: u64,
    /// The number of them that subscribe to the retry topic.
    pub subscribed: u64,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// The number of retries on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelView {
    /// Level in the table, from 1; absent for exact delays and back-offs.
    pub level: Option<u32>,
    pub records: u64,
}

/// One committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetView {
    pub topic: String,
    pub partition: i32,
    /// The next record the group will read.
    pub committed: i64,
    /// The next offset that will be written; absent when unknown.
    pub end: Option<i64>,
}
