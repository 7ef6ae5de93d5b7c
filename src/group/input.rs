//! What a group is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::group::consumer::join;
use crate::group::error::GroupError;
use crate::group::partition::{TopicImage, TopicPartition};
use crate::group::state::Protocol;
use crate::model::{ClientId, MemberId, TopicName};

/// Names one waiting request; the driver chooses it, the answer carries it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One request to one group. Every one is answered under its token, at once or later.
#[derive(Clone, Debug)]
pub enum Input {
    /// `JoinGroup`; answered when the join phase ends.
    Join(Token, Join),
    /// `SyncGroup`; answered when the leader has sent the assignments.
    Sync(Token, Sync),
    /// `Heartbeat`; answered at once.
    Heartbeat(Token, Heartbeat),
    /// `LeaveGroup`; answered at once.
    Leave(Token, Leave),
    /// `ConsumerGroupHeartbeat`: joins, stays, leaves; answered at once.
    ConsumerHeartbeat(Token, Box<ConsumerHeartbeat>),
    /// May this member commit offsets? Answered at once; a yes counts as a heartbeat.
    CommitCheck(Token, CommitCheck),
    /// `DeleteGroups`; answered at once, granted only to an empty group.
    Delete(Token),
}

/// A member wants to be part of the next generation.
#[derive(Clone, Debug)]
pub struct Join {
    /// The id the member has; empty for a new one.
    pub member_id: MemberId,
    /// Set by static members (KIP-345).
    pub instance_id: Option<String>,
    /// The member id to use if this join needs a new one: `<client id>-<uuid>`, or
    /// `<instance id>-<uuid>` for a static member. Never used twice.
    pub fresh_id: MemberId,
    /// What the client calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub client_host: String,
    /// Silence after which the member is removed.
    pub session_timeout_ms: u64,
    /// How long a rebalance waits for this member to join again; for version 0 the session timeout.
    pub rebalance_timeout_ms: u64,
    /// `consumer`, `connect`, …
    pub protocol_type: String,
    /// Assignors in order of preference, each with the member's metadata for it.
    pub protocols: Vec<Protocol>,
    /// Version 4 and above: a new dynamic member is first sent its id (KIP-394).
    pub require_known_member_id: bool,
    /// Version 9 and above: the leader can be told to skip the assignment (KIP-814).
    pub can_skip_assignment: bool,
    /// Of a consumer, as far as it can be read: for a group that others speak to by KIP-848.
    pub consuming: Option<Box<Consuming>>,
}

/// What a consumer says of itself in a join, in the coordinator's words.
#[derive(Clone, Debug)]
pub struct Consuming {
    /// All topics it subscribes to.
    pub topics: BTreeSet<TopicName>,
    /// What it holds.
    pub owned: BTreeSet<TopicPartition>,
    /// What the topics of this group and of this request are at the moment; none: no such topic.
    pub cluster: BTreeMap<TopicName, Option<TopicImage>>,
}

/// A member asks for its assignment; the leader brings everyone's.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Who asks.
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// The generation of its join answer.
    pub generation: i32,
    /// As the member knows it; absent below version 5.
    pub protocol_type: Option<String>,
    /// As the member knows it; absent below version 5.
    pub protocol: Option<String>,
    /// From the leader: member id and assignment. Empty from the others.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// A member is alive.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Who.
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// Its generation.
    pub generation: i32,
}

/// Members go.
#[derive(Clone, Debug)]
pub struct Leave {
    /// Who; one below version 3.
    pub members: Vec<Leaver>,
}

/// One member that goes, or is removed by an administrator.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Its id; empty when it is removed by instance id.
    pub member_id: MemberId,
    /// Set by static members and by the administrator.
    pub instance_id: Option<String>,
    /// Why, in the client's words (KIP-800).
    pub reason: Option<String>,
}

/// Who wants to commit offsets.
#[derive(Clone, Debug)]
pub struct CommitCheck {
    /// Empty for a client outside group management.
    pub member_id: MemberId,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// Or the member's epoch. −1 for a client outside group management: granted while the group is
    /// empty.
    pub generation: i32,
    /// In a transaction: a rebalance that goes on holds up none.
    pub transactional: bool,
    /// The request is of a version that has member epochs; a KIP-848 member speaks no other.
    pub has_epochs: bool,
}

/// A member of a consumer group (KIP-848) speaks. What is absent has not changed.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeat {
    /// Who; made by the client.
    pub member_id: MemberId,
    /// The epoch it was last told; 0 joins, −1 leaves, −2 leaves a static member's place to its
    /// next process.
    pub epoch: i32,
    /// Set by static members.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// What the client calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub client_host: String,
    /// How long it may take to give up partitions.
    pub rebalance_timeout_ms: Option<u64>,
    /// All topics it subscribes to by name.
    pub topics: Option<BTreeSet<TopicName>>,
    /// The pattern it subscribes by; empty: by none any more.
    pub pattern: Option<String>,
    /// The assignor it votes for.
    pub assignor: Option<String>,
    /// What it holds.
    pub owned: Option<BTreeSet<TopicPartition>>,
    /// What the topics of this group and of this request are at the moment; none: no such topic.
    pub cluster: BTreeMap<TopicName, Option<TopicImage>>,
    /// The topics that match the patterns of this group and of this request at the moment. A
    /// pattern that is missing here cannot be evaluated.
    pub matching: BTreeMap<String, Arc<BTreeSet<TopicName>>>,
}

impl ConsumerHeartbeat {
    /// What no client sends, whatever the group looks like.
    pub fn check(&self) -> Result<(), GroupError> {
        join::check(self)
    }
}
