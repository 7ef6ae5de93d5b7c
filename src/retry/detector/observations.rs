//! Observations for the detector of a group: requests, deliveries and commits of its members, and
//! their ends.

use std::ops::Range;

use crate::model::{MemberId, MonoMs, OffsetRuns, Sparse, TopicName, TopicPartition};
use crate::retry::RetrySubscription;

/// A member's Fetch, as far as the detector needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFetch {
    pub member: MemberId,
    /// When the request arrived.
    pub came: MonoMs,
    /// The connection: the first Fetch on another one is never evidence of a failure.
    pub conn: u64,
    /// The client's `fetch.max.wait.ms`.
    pub max_wait_ms: u64,
    /// The retry topics that the member subscribes to.
    pub retries: RetrySubscription,
}

/// One partition of a Fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    pub partition: TopicPartition,
    /// The fetch offset.
    pub offset: i64,
}

impl FetchPosition {
    /// Whether a Fetch names a partition.
    pub(in crate::retry) fn names(asked: &[Self], partition: &TopicPartition) -> bool {
        asked.iter().any(|ask| ask.partition == *partition)
    }
}

/// Records of one partition that leave for a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredRange {
    pub partition: TopicPartition,
    /// The fetch offset.
    pub from: i64,
    /// The offset after the last one delivered, from which the client goes on.
    pub end: i64,
    /// The only record, if the answer is a
    /// [`FetchDecision::Turn`](crate::retry::detector::FetchDecision::Turn). For a batch that
    /// cannot be decoded, the fetch offset.
    pub turn: Option<i64>,
    /// Offsets of which no application sees a record: transaction markers, compacted records and,
    /// for `read_committed`, aborted records.
    pub hidden: OffsetRuns,
    /// Batches with fewer records than offsets.
    pub sparse: Vec<Sparse>,
}

/// Outstanding records that a member fetches again.
pub(in crate::retry) type RefetchedRecords = (TopicPartition, Range<i64>);

/// Any other observation of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupObservation {
    /// A member has joined, or has a new generation or epoch. Its first Fetch is never evidence of
    /// a failure.
    Assigned {
        /// The member's key: its `group.instance.id` if it is static, otherwise its member id.
        member: MemberId,
        /// The generation, or the member epoch (KIP-848).
        epoch: i32,
    },
    /// A commit was accepted.
    Committed {
        partition: TopicPartition,
        /// The first offset that is not acknowledged.
        offset: i64,
    },
    /// A commit by a client that is no member was accepted: the group was reset, or skips records.
    Reset {
        partition: TopicPartition,
        /// The committed offset.
        offset: i64,
    },
    /// `incomplete-offsets`: records above the accepted commit that its metadata says are done.
    Progress {
        partition: TopicPartition,
        /// Offsets that are done, ascending.
        done: Vec<Range<i64>>,
        /// The offset after the last one that the metadata covers.
        end: i64,
    },
    /// `commit-nack`, `produced-nack`: a record was nacked, and its entry is durable.
    Nacked { partition: TopicPartition, offset: i64 },
    /// `commit-nack`, `produced-nack`: a delivery of the retry topic was nacked. A commit must pass
    /// it before it is delivered again.
    RetryNacked {
        /// A partition of the retry topic.
        partition: TopicPartition,
        offset: i64,
    },
    /// The group's committed offset, read from its coordinator; news if no commit was seen.
    Read {
        partition: TopicPartition,
        /// The first offset that is not acknowledged.
        offset: i64,
        /// `incomplete-offsets`: offsets above it that its metadata says are done, ascending.
        done: Vec<Range<i64>>,
    },
    /// The coordinator has no committed offset of the group.
    Uncommitted {
        /// A partition of the OffsetFetch answer.
        partition: TopicPartition,
    },
    /// `lost-delivery`: a commit was refused for good.
    CommitRefused {
        /// The member's key, as in [`GroupObservation::Assigned`].
        member: MemberId,
        /// All partitions of the commit that were refused.
        partitions: Vec<TopicPartition>,
    },
    /// A member sent a request: it lives.
    Alive {
        /// The member's key, as in [`GroupObservation::Assigned`].
        member: MemberId,
    },
    /// A connection on which the member sent requests is closed.
    Disconnected {
        /// The member's key, as in [`GroupObservation::Assigned`].
        member: MemberId,
    },
    /// `lost-delivery`: the member left, or its session expired.
    Lost {
        member: MemberId,
        /// The member left by itself; otherwise its session expired, some time after its last
        /// request.
        left: bool,
    },
    /// `lost-delivery`: the member rejoined by itself, and so gave up its outstanding records.
    GaveUp {
        /// The member's key, as in [`GroupObservation::Assigned`].
        member: MemberId,
    },
    /// The topic was deleted or recreated under its name.
    TopicGone {
        /// The name, not the topic id.
        topic: TopicName,
    },
}
