//! Why a group refuses.

/// Each variant is the Kafka error of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The group is being deleted, or its state could not be made durable. Retriable.
    #[error("the coordinator of this group is not available")]
    CoordinatorNotAvailable,
    /// The group id is empty.
    #[error("a group id must not be empty")]
    InvalidGroupId,
    /// Outside the configured bounds.
    #[error("the session timeout is outside the allowed range")]
    InvalidSessionTimeout,
    /// No protocol that every member supports, or another protocol type than the group's.
    #[error("the member shares no protocol with the rest of the group")]
    InconsistentGroupProtocol,
    /// Not a member, or no longer.
    #[error("the group does not know this member id")]
    UnknownMemberId,
    /// Join again with the member id of this answer (KIP-394).
    #[error("the member must join again with the member id it was given")]
    MemberIdRequired,
    /// Of an older generation, or one that never was.
    #[error("the generation is not the group's current one")]
    IllegalGeneration,
    /// Join again.
    #[error("the group is rebalancing, the member must join again")]
    RebalanceInProgress,
    /// Another process took over this instance id (KIP-345).
    #[error("a newer process took over this instance id")]
    FencedInstanceId,
    /// The group is full.
    #[error("the group has as many members as it may have")]
    GroupMaxSizeReached,
    /// Only an empty group can be deleted.
    #[error("the group still has members")]
    NonEmptyGroup,
    /// No such group, or one of the other protocol.
    #[error("there is no such group")]
    GroupIdNotFound,
    /// A request that no client makes.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The member is not where its epoch says: it gives up its partitions and joins again.
    #[error("the member's epoch is not its own any more, it must join again")]
    FencedMemberEpoch,
    /// The member has moved on; it knows its epoch after its next heartbeat.
    #[error("the member's epoch is not the current one")]
    StaleMemberEpoch,
    /// A KIP-848 member commits by a version before OffsetCommit 9.
    #[error("a member of a KIP-848 group commits with OffsetCommit 9 or later")]
    UnsupportedVersion,
    /// A process with this instance id is still a member.
    #[error("another member still uses this instance id")]
    UnreleasedInstanceId,
    /// Not one of the assignors of this cluster.
    #[error("there is no such assignor here; there are uniform and range")]
    UnsupportedAssignor,
    /// Regular expressions are not evaluated here.
    #[error(
        "this cluster evaluates no regular expressions; subscribe to topics by name, or with a \
         pattern that the client evaluates"
    )]
    InvalidRegularExpression,
}
