//! Observations for the detector of a group: requests, deliveries and commits of its members, and
//! their ends.

use std::ops::Range;

use crate::model::{LaneOffset, MemberId, MonoMs, Runs, Sparse, TopicName, TopicPartition};
use crate::retry::detector::LaneGiven;

/// A member's Fetch, as far as the detector needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// Who asks.
    pub member: MemberId,
    /// When it came.
    pub came: MonoMs,
    /// On which connection: what is asked on another one than before is no evidence.
    pub conn: u64,
    /// How long the client lets a broker wait, in milliseconds (`fetch.max.wait.ms`).
    pub max_wait_ms: u64,
    /// A retry topic is this member's way back: what fails need not hold its partition.
    pub has_lane: bool,
}

/// One partition of a Fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub partition: TopicPartition,
    /// From where on.
    pub offset: i64,
}

impl Asked {
    /// Whether a Fetch asks for a partition.
    pub(in crate::retry) fn names(asked: &[Self], partition: &TopicPartition) -> bool {
        asked.iter().any(|ask| ask.partition == *partition)
    }
}

/// Records of one partition that leave for a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The offset that was asked for.
    pub from: i64,
    /// The offset after the last one given: where the client goes on.
    pub end: i64,
    /// The one record there is, where it is given as
    /// [`Serve::Turn`](crate::retry::detector::Serve::Turn) says; of a batch that nobody can read
    /// the first one asked for.
    pub turn: Option<i64>,
    /// Offsets of which no application sees a record: ends of transactions, what a log cleaner has
    /// taken out and, for who reads committed records, what was aborted.
    pub hidden: Runs,
    /// Batches with fewer records than offsets.
    pub sparse: Vec<Sparse>,
}

/// Anything else that is seen of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A member has joined, or its generation or epoch is another one: what it fetches first is no
    /// evidence.
    Assigned {
        /// Who.
        member: MemberId,
        /// The generation, or the member epoch (KIP-848).
        epoch: i32,
    },
    /// A commit was accepted.
    Committed {
        /// Of what.
        partition: TopicPartition,
        /// The first offset that is not acknowledged.
        offset: i64,
    },
    /// A commit was accepted of somebody who is no member: the group was reset, or skips.
    Reset {
        /// Of what.
        partition: TopicPartition,
        /// Where the group goes on.
        offset: i64,
        /// Where it stood, where that is known.
        before: Option<i64>,
    },
    /// E10: what the commit that was just accepted says of the records above it.
    Progress {
        /// Of what.
        partition: TopicPartition,
        /// Offsets that are done, ascending.
        done: Vec<Range<i64>>,
        /// The offset after the last one it speaks of.
        end: i64,
    },
    /// E1, E2: a record was nacked, and its entry is durable.
    Nacked {
        /// Of what.
        partition: TopicPartition,
        /// Which.
        offset: i64,
    },
    /// Records have entries behind another one of their key, durably.
    Parked {
        /// Of what.
        partition: TopicPartition,
        /// Which.
        offsets: Vec<i64>,
    },
    /// A Fetch of the retry topic is answered.
    LaneGiven(LaneGiven),
    /// Hand-outs of a slot were acknowledged, or are back in the queue.
    LaneBelow {
        /// Those below.
        up_to: LaneOffset,
    },
    /// Retries that were given out were acknowledged.
    LaneDone { count: usize },
    /// One was nacked by its hand-out, durably.
    LaneFailed {
        /// Which hand-out.
        lane: LaneOffset,
    },
    /// What the group has committed, as its coordinator says: news where no commit was seen.
    Read {
        /// Of what.
        partition: TopicPartition,
        /// The first offset that is not acknowledged.
        offset: i64,
        /// E10: what its metadata says is done above it, ascending.
        done: Vec<Range<i64>>,
    },
    /// The group has committed nothing, as its coordinator says.
    Uncommitted {
        /// Of what.
        partition: TopicPartition,
    },
    /// E8: a commit was refused for good.
    CommitRefused {
        /// Who.
        member: MemberId,
        /// Of what.
        partition: TopicPartition,
    },
    /// A member was heard of: it lives.
    Alive {
        /// Who.
        member: MemberId,
    },
    /// E7: the member is gone.
    Lost {
        /// Who.
        member: MemberId,
        /// It said so itself, just now; otherwise it was missed, some time after it was heard of.
        left: bool,
    },
    /// E7: the member has joined anew though nobody asked it to: it has given up what it held.
    GaveUp {
        /// Who.
        member: MemberId,
    },
    /// Another topic by the same name: nothing that is known of it holds.
    TopicGone {
        /// Its name.
        topic: TopicName,
    },
}
