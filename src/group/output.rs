//! Outputs of a group.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::group::consumer::ConsumerState;
use crate::group::error::GroupError;
use crate::group::input::RequestId;
use crate::group::partition::TopicIdPartition;
use crate::group::state::GroupState;
use crate::model::{MemberId, TopicName};

/// Outputs take effect in order: an answer after a `Persist` must wait until that state is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOutput {
    /// Answers the request with this token.
    Answer(RequestId, GroupAnswer),
    /// Persists the group's state; replaces the earlier one.
    Persist(GroupState),
    /// Persists the state of a consumer group (KIP-848); replaces the earlier one.
    PersistConsumer(ConsumerState),
    /// Deletes the persisted state, because the group was deleted.
    Forget,
    /// A member is no longer part of the group.
    MemberGone(MemberGone),
    /// The join phase ended or the target changed; carries the new generation or group epoch.
    Generation(i32),
}

/// One answer; the variants are named as the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnswer {
    Join(Result<JoinResult, JoinRefusal>),
    Sync(Result<SyncResult, GroupError>),
    Heartbeat(Result<(), GroupError>),
    /// One result per member of the request, in its order.
    Leave(Result<Vec<LeaveResult>, GroupError>),
    ConsumerHeartbeat(Result<Alive, GroupError>),
    CommitCheck(Result<(), GroupError>),
    Delete(Result<(), GroupError>),
}

/// The answer to a successful JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinResult {
    /// The member's id, which may be new.
    pub member_id: MemberId,
    pub generation: i32,
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor the members voted for.
    pub protocol: Option<String>,
    pub leader: MemberId,
    /// Set for a restarted leader of a stable group, which must not assign again (KIP-814).
    pub skip_assignment: bool,
    /// All members, for the leader; empty for the others.
    pub members: Vec<JoinedMember>,
}

/// One member in the leader's JoinGroup answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// The member's metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// The answer to a refused JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefusal {
    pub error: GroupError,
    /// For `MemberIdRequired` the id that the client must use next, otherwise the member's own id.
    pub member_id: MemberId,
}

/// The answer to a successful SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncResult {
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor in use.
    pub protocol: Option<String>,
    /// The leader's bytes; empty if the leader assigned nothing to the member.
    pub assignment: Bytes,
    /// The assignment made by the coordinator, if the coordinator assigns.
    pub held: Option<BTreeMap<TopicName, Vec<i32>>>,
}

/// The answer to a successful `ConsumerGroupHeartbeat`, a leave included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    pub member_id: MemberId,
    /// The member's epoch; for a leave, the epoch of the request.
    pub epoch: i32,
    /// Time until the next heartbeat.
    pub heartbeat_interval_ms: u64,
    /// The whole assignment; absent if the member knows it.
    pub assignment: Option<BTreeSet<TopicIdPartition>>,
}

/// The result of one entry of LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveResult {
    pub member_id: MemberId,
    pub instance_id: Option<String>,
    pub result: Result<(), GroupError>,
}

/// A member that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberGone {
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    pub cause: GoneCause,
}

/// Cause of a member's removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoneCause {
    /// The session or the rebalance timeout passed.
    Expired,
    /// The member left, with its reason.
    Left(Option<String>),
    /// A new process took over the instance id.
    Replaced,
}
