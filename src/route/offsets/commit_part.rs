//! The kind of one partition in a commit.

use crate::broker::offsets::CommitItem;
use crate::model::{LaneOffset, TopicName};
use crate::wire::ResponseError;

/// The common result of all partitions of one kind.
pub(super) type PartitionResult = Result<(), ResponseError>;

/// The kind of one partition in the request.
#[derive(Clone, Debug)]
pub(in crate::route) enum CommitPart {
    /// An offset to store.
    Store(CommitItem),
    /// An offset of a retry partition of the group.
    Lane(LaneOffset),
    /// An offset without effect: of the snapshot, or of another group's retry topic.
    Ignore,
    Refuse(ResponseError),
}

impl CommitPart {
    /// An offset to store, with the client's metadata.
    pub(super) fn explained(&self) -> Option<(&TopicName, i32, i64, &str)> {
        match self {
            Self::Store(item) => Some((&item.topic, item.partition, item.offset, &item.metadata)),
            _ => None,
        }
    }

    /// An offset to store.
    pub(super) fn stored(&self) -> Option<(TopicName, i32, i64)> {
        match self {
            Self::Store(item) => Some((item.topic.clone(), item.partition, item.offset)),
            _ => None,
        }
    }

    /// The error code of this partition, from the results of the two kinds.
    pub(super) fn code(&self, lane: PartitionResult, stored: PartitionResult) -> i16 {
        let done = match self {
            Self::Store(_) => stored,
            Self::Lane(_) => lane,
            Self::Ignore => Ok(()),
            Self::Refuse(error) => Err(*error),
        };
        done.map_or_else(|error| error.code(), |()| 0)
    }
}
