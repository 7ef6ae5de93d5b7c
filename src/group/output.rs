//! What a group says.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::group::consumer::ConsumerState;
use crate::group::error::GroupError;
use crate::group::input::Token;
use crate::group::partition::TopicPartition;
use crate::group::state::GroupState;
use crate::model::{MemberId, TopicName};

/// In the order it must take effect: an answer after a `Persist` must not leave before that state
/// is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answers the request of this token.
    Answer(Token, Answer),
    /// Keep this as the group's state; replaces what was kept before.
    Persist(GroupState),
    /// The same of a consumer group (KIP-848).
    PersistConsumer(ConsumerState),
    /// The group was deleted: forget what was kept.
    Forget,
    /// A member is no longer part of the group.
    MemberGone(MemberGone),
    /// The join phase ended, or there is another target assignment: the group's generation, or its
    /// epoch, is now this.
    Generation(i32),
}

/// One answer, of the kind of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Join`.
    Join(Result<Joined, JoinRefusal>),
    /// To `Sync`.
    Sync(Result<Synced, GroupError>),
    /// To `Heartbeat`.
    Heartbeat(Result<(), GroupError>),
    /// To `Leave`: one per member asked for, in that order.
    Leave(Result<Vec<Left>, GroupError>),
    /// To `ConsumerHeartbeat`.
    ConsumerHeartbeat(Result<Alive, GroupError>),
    /// To `CommitCheck`.
    CommitCheck(Result<(), GroupError>),
    /// To `Delete`.
    Delete(Result<(), GroupError>),
}

/// The member is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its id from now on.
    pub member_id: MemberId,
    /// The group's generation.
    pub generation: i32,
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor the members voted for.
    pub protocol: Option<String>,
    /// Who assigns.
    pub leader: MemberId,
    /// The leader of a stable group that came back: it must not assign anew (KIP-814).
    pub skip_assignment: bool,
    /// Everyone, for the leader; empty for the others.
    pub members: Vec<JoinedMember>,
}

/// One member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// The member is not in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefusal {
    /// Why.
    pub error: GroupError,
    /// The id to answer with: the one it must use next for `MemberIdRequired`, else its own.
    pub member_id: MemberId,
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor in use.
    pub protocol: Option<String>,
    /// As the leader wrote it; empty if it left this member out.
    pub assignment: Bytes,
    /// The same where the coordinator assigns.
    pub held: Option<BTreeMap<TopicName, Vec<i32>>>,
}

/// The member of a consumer group (KIP-848) is in, or has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// Its id.
    pub member_id: MemberId,
    /// The epoch it names from now on; as asked when it left.
    pub epoch: i32,
    /// When it is to be heard again.
    pub heartbeat_interval_ms: u64,
    /// All it is to hold; absent when the member knows it.
    pub assignment: Option<BTreeSet<TopicPartition>>,
}

/// What became of one leaver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// As asked.
    pub member_id: MemberId,
    /// As asked.
    pub instance_id: Option<String>,
    /// By which name (`member_key`) the one was known who is gone, or why nobody is: a static
    /// member may leave by its id alone.
    pub result: Result<MemberId, GroupError>,
}

/// A member that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberGone {
    /// Its id.
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// How.
    pub cause: GoneCause,
}

/// How a member went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoneCause {
    /// Silent for its session timeout, or absent from a rebalance for longer than that may take.
    Expired,
    /// It left, with the reason it gave.
    Left(Option<String>),
    /// A new process took over its instance id.
    Replaced,
}
