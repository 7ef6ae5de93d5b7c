//! Requests to a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::group::assignor;
use crate::group::error::GroupError;
use crate::group::partition::{TopicIdPartition, TopicImage};
use crate::group::state::Protocol;
use crate::model::{ClientId, MemberId, TopicName};

/// Epoch of a heartbeat that joins.
pub const JOINS: i32 = 0;
/// Epoch of a static member that leaves temporarily; −1 leaves for good.
pub(super) const LEAVES_FOR_A_WHILE: i32 = -2;

/// Identifies one waiting request; the driver chooses it, and the answer carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One request to one group. Every request gets an answer with its token, at once or later.
#[derive(Clone, Debug)]
pub enum GroupInput {
    /// `JoinGroup`; answered when the join phase ends.
    Join(RequestId, JoinRequest),
    /// `SyncGroup`; answered when the leader has sent the assignments.
    Sync(RequestId, Sync),
    /// `Heartbeat`; answered at once.
    Heartbeat(RequestId, Heartbeat),
    /// `LeaveGroup`; answered at once.
    Leave(RequestId, LeaveRequest),
    /// `ConsumerGroupHeartbeat`: joins, stays, leaves; answered at once.
    ConsumerHeartbeat(RequestId, Box<ConsumerHeartbeat>),
    /// Checks whether a member may commit offsets. Answered at once; success counts as a heartbeat.
    CommitCheck(RequestId, CommitCheck),
    /// `DeleteGroups`; answered at once, granted only to an empty group.
    Delete(RequestId),
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The member's id; empty for a new member.
    pub member_id: MemberId,
    /// Set by static members (KIP-345).
    pub instance_id: Option<String>,
    /// The member id to use if the join needs a new one: `<client id>-<uuid>`, or
    /// `<instance id>-<uuid>` for a static member. Every id is used once.
    pub fresh_id: MemberId,
    /// The client's `client.id`.
    pub client_id: ClientId,
    /// The client's address as text.
    pub client_host: String,
    /// Silence after which the member is removed.
    pub session_timeout_ms: u64,
    /// Time that a rebalance waits for the member to join again; for version 0 the session timeout.
    pub rebalance_timeout_ms: u64,
    /// `consumer`, `connect`, …
    pub protocol_type: String,
    /// Assignors in order of preference, each with the member's metadata for it.
    pub protocols: Vec<Protocol>,
    /// Version 4 and above: a new dynamic member is first sent its id (KIP-394).
    pub require_known_member_id: bool,
    /// Version 9 and above: the leader can be told to skip the assignment (KIP-814).
    pub can_skip_assignment: bool,
    /// A consumer's parsed subscription, if it can be parsed; used in a group with KIP-848 members.
    pub consuming: Option<Box<ParsedSubscription>>,
}

/// A classic consumer's subscription, parsed for the coordinator.
#[derive(Clone, Debug)]
pub struct ParsedSubscription {
    /// All topics it subscribes to.
    pub topics: BTreeSet<TopicName>,
    /// The partitions that the member owns.
    pub owned: BTreeSet<TopicIdPartition>,
    /// Current images of the topics of the group and the request; `None`: no such topic.
    pub cluster: BTreeMap<TopicName, Option<TopicImage>>,
}

/// A SyncGroup request; the leader's has all assignments.
#[derive(Clone, Debug)]
pub struct Sync {
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// The generation from the JoinGroup answer.
    pub generation: i32,
    /// The member's protocol type; absent below version 5.
    pub protocol_type: Option<String>,
    /// The member's protocol; absent below version 5.
    pub protocol: Option<String>,
    /// From the leader: member id and assignment. Empty from the others.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// A Heartbeat request.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    pub generation: i32,
}

/// A LeaveGroup request.
#[derive(Clone, Debug)]
pub struct LeaveRequest {
    /// The leaving members; exactly one below version 3.
    pub members: Vec<Leaver>,
}

/// One member that leaves or is removed by an administrator.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Member id; empty for a removal by instance id.
    pub member_id: MemberId,
    /// Set by static members, and for a removal by instance id.
    pub instance_id: Option<String>,
    /// The client's reason (KIP-800).
    pub reason: Option<String>,
}

/// Identity of a client that wants to commit offsets.
#[derive(Clone, Debug)]
pub struct CommitCheck {
    /// Empty for a client outside group management.
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// Generation or member epoch. −1 for a client outside group management, which may commit while
    /// the group is empty.
    pub generation: i32,
    /// The commit is part of a transaction, which a rebalance does not delay.
    pub transactional: bool,
    /// The request version has member epochs; KIP-848 members need such a version.
    pub has_epochs: bool,
}

/// A `ConsumerGroupHeartbeat` (KIP-848). An absent field has not changed.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeat {
    /// Member id, made by the client.
    pub member_id: MemberId,
    /// The member's epoch; 0 joins, −1 leaves, −2 is a static member's temporary leave.
    pub epoch: i32,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// The client's rack.
    pub rack_id: Option<String>,
    /// The client's `client.id`.
    pub client_id: ClientId,
    /// The client's address as text.
    pub client_host: String,
    /// Time limit for a revocation.
    pub rebalance_timeout_ms: Option<u64>,
    /// All topics that the member subscribes to by name.
    pub topics: Option<BTreeSet<TopicName>>,
    /// The subscription pattern; an empty string removes it.
    pub pattern: Option<String>,
    /// The assignor that the member prefers.
    pub assignor: Option<String>,
    /// The partitions that the member owns.
    pub owned: Option<BTreeSet<TopicIdPartition>>,
    /// Current images of the topics of the group and the request; `None`: no such topic.
    pub cluster: BTreeMap<TopicName, Option<TopicImage>>,
    /// The topics that currently match the patterns of the group and the request. A missing pattern
    /// cannot be evaluated.
    pub matching: BTreeMap<String, Arc<BTreeSet<TopicName>>>,
}

impl ConsumerHeartbeat {
    /// Refuses requests that no client sends, whatever the state of the group.
    pub fn check(&self) -> Result<(), GroupError> {
        let invalid = |why| Err(GroupError::InvalidRequest(why));
        let is_empty = |text: &Option<String>| text.as_deref() == Some("");
        if self.member_id.as_str().is_empty() {
            return invalid("a member id must not be empty");
        }
        if is_empty(&self.instance_id) || is_empty(&self.rack_id) {
            return invalid("an instance id and a rack id must not be empty");
        }
        if self.epoch < LEAVES_FOR_A_WHILE {
            return invalid("a member epoch is at least -2");
        }
        if self.epoch == LEAVES_FOR_A_WHILE && self.instance_id.is_none() {
            return invalid("only a static member leaves for a while: an instance id is missing");
        }
        if self.epoch == JOINS {
            if self.rebalance_timeout_ms.is_none() {
                return invalid("a member that joins says its rebalance timeout");
            }
            if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("a member that joins says that it owns no partitions");
            }
            if self.topics.is_none() && self.pattern.is_none() {
                return invalid("a member that joins says what it subscribes to");
            }
        }
        if self.assignor.as_deref().is_some_and(|name| !assignor::is_known(name)) {
            return Err(GroupError::UnsupportedAssignor);
        }
        let pattern = self.pattern.as_deref().filter(|pattern| !pattern.is_empty());
        if pattern.is_some_and(|pattern| !self.matching.contains_key(pattern)) {
            return Err(GroupError::InvalidRegularExpression);
        }
        Ok(())
    }
}
