//! Errors of group requests.

/// Each variant is the Kafka error of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The group is being deleted, or its state could not be made durable. Retriable.
    #[error("the coordinator of this group is not available")]
    CoordinatorNotAvailable,
    /// The group id is empty.
    #[error("a group id must not be empty")]
    InvalidGroupId,
    /// The session timeout is outside the configured limits.
    #[error("the session timeout is outside the allowed range")]
    InvalidSessionTimeout,
    /// No protocol that every member supports, or another protocol type than the group's.
    #[error("the member shares no protocol with the rest of the group")]
    InconsistentGroupProtocol,
    /// The member id does not belong to a member.
    #[error("the group does not know this member id")]
    UnknownMemberId,
    /// Join again with the member id of this answer (KIP-394).
    #[error("the member must join again with the member id it was given")]
    MemberIdRequired,
    /// The generation is not the current one.
    #[error("the generation is not the group's current one")]
    IllegalGeneration,
    /// The member must join again.
    #[error("the group is rebalancing, the member must join again")]
    RebalanceInProgress,
    /// Another process took over this instance id (KIP-345).
    #[error("a newer process took over this instance id")]
    FencedInstanceId,
    /// The limit on members is reached.
    #[error("the group has as many members as it may have")]
    GroupMaxSizeReached,
    /// Only an empty group can be deleted.
    #[error("the group still has members")]
    NonEmptyGroup,
    /// The group does not exist, or has the other protocol.
    #[error("there is no such group")]
    GroupIdNotFound,
    /// A request that no client makes.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The member's epoch is wrong: the member must give up its partitions and join again.
    #[error("the member's epoch is not its own any more, it must join again")]
    FencedMemberEpoch,
    /// The member has a newer epoch, which its next heartbeat returns.
    #[error("the member's epoch is not the current one")]
    StaleMemberEpoch,
    /// A KIP-848 member commits with a version before OffsetCommit 9.
    #[error("a member of a KIP-848 group commits with OffsetCommit 9 or later")]
    UnsupportedVersion,
    /// A process with this instance id is still a member.
    #[error("another member still uses this instance id")]
    UnreleasedInstanceId,
    /// The assignor is neither `uniform` nor `range`.
    #[error("there is no such assignor here; there are uniform and range")]
    UnsupportedAssignor,
    /// The pattern has no entry in `matching`: it could not be evaluated.
    #[error(
        "this cluster evaluates no regular expressions; subscribe to topics by name, or with a \
         pattern that the client evaluates"
    )]
    InvalidRegularExpression,
}
