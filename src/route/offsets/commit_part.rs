//! The effect of a commit on one partition.

use crate::broker::offsets::CommitItem;
use crate::model::{LaneOffset, TopicName};
use crate::wire::ResponseError;

/// The common result of all partitions with one effect.
pub(super) type PartitionResult = Result<(), ResponseError>;

/// The effect of a commit on one of its partitions.
#[derive(Clone, Debug)]
pub(in crate::route) enum CommitPart {
    /// An offset to store.
    Store(CommitItem),
    /// Acknowledges the deliveries of the group's retry topic below the offset.
    Acknowledge(LaneOffset),
    /// Stores nothing and succeeds: an offset that no delivery of a retry topic had, or one of
    /// another group's retry topic.
    Ignore,
    Refuse(ResponseError),
}

impl CommitPart {
    /// An offset to store, with the client's metadata.
    pub(super) fn with_metadata(&self) -> Option<(&TopicName, i32, i64, &str)> {
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

    /// The error code of this partition.
    pub(super) fn code(&self, acknowledged: PartitionResult, stored: PartitionResult) -> i16 {
        let done = match self {
            Self::Store(_) => stored,
            Self::Acknowledge(_) => acknowledged,
            Self::Ignore => Ok(()),
            Self::Refuse(error) => Err(*error),
        };
        done.map_or_else(|error| error.code(), |()| 0)
    }
}
