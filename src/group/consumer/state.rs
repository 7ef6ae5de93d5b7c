//! Persisted state and description of a consumer group.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::group::partition::TopicIdPartitions;
use crate::group::state::Protocol;
use crate::model::{ClientId, MemberId, TopicId, TopicName};

/// State of a consumer group, named as in `ConsumerGroupDescribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerPhase {
    Empty,
    /// Members still revoke or receive partitions.
    Reconciling,
    /// Every member has its target.
    Stable,
    Dead,
}

impl fmt::Display for ConsumerPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        })
    }
}

/// Whole state of a consumer group. Journalled: a change of its shape is a change of the format.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConsumerState {
    /// Epoch of the group and of its targets.
    pub epoch: i32,
    /// Topics from which the targets were made.
    pub topics: Vec<TargetTopic>,
    /// Sorted by member id.
    pub members: Vec<ConsumerMember>,
    /// Further state of classic members.
    pub classic: Vec<ClassicMember>,
    /// Further state of members with a pattern.
    pub patterns: Vec<PatternMember>,
}

/// The subscription of a member with a pattern. Journalled: a change of its shape is a change of
/// the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternMember {
    pub member_id: MemberId,
    /// RE2 syntax, for whole topic names.
    pub pattern: String,
    /// Topics that the member names in addition to the pattern.
    pub names: Vec<TopicName>,
}

/// Further state of a member with the classic protocol. Journalled: a change of its shape is a
/// change of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicMember {
    pub member_id: MemberId,
    /// Silence after which it is removed.
    pub session_timeout_ms: u64,
    /// Supported protocols in order of preference.
    pub protocols: Vec<Protocol>,
}

/// A topic at the time of the last target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetTopic {
    pub name: TopicName,
    pub id: TopicId,
    pub partitions: i32,
}

/// One member of a [`ConsumerState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerMember {
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// The client's rack.
    pub rack_id: Option<String>,
    /// The client's `client.id`.
    pub client_id: ClientId,
    /// The client's address as text.
    pub client_host: String,
    /// Time limit for a revocation.
    pub rebalance_timeout_ms: u64,
    /// The assignor that the member prefers.
    pub assignor: Option<String>,
    /// All subscribed topics, the matches of the pattern included.
    pub topics: Vec<TopicName>,
    /// Last epoch sent to the member; −2 while a static member is away.
    pub epoch: i32,
    /// The epoch before the current one.
    pub epoch_before: i32,
    /// The target assignment.
    pub target: Vec<TopicIdPartitions>,
    /// The current assignment.
    pub assigned: Vec<TopicIdPartitions>,
    /// Partitions that the member must revoke and may still own.
    pub revoking: Vec<TopicIdPartitions>,
}

/// Description of a consumer group, for the HTTP interface and `ConsumerGroupDescribe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerDescription {
    pub phase: ConsumerPhase,
    /// The assignor in use.
    pub assignor: String,
    pub state: ConsumerState,
}
