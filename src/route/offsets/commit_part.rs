//! The effect of a commit on one partition.

use crate::broker::offsets::CommitItem;
use crate::model::TopicName;
use crate::wire::ResponseError;

/// The common result of all partitions with one effect.
pub(super) type PartitionResult = Result<(), ResponseError>;

/// The effect of a commit on one of its partitions.
#[derive(Clone, Debug)]
pub(in crate::route) enum CommitPart {
    /// An offset to store.
    Store(CommitItem),
    Refuse(ResponseError),
}

impl CommitPart {
    /// An offset to store, with the client's metadata.
    pub(super) fn with_metadata(&self) -> Option<(&TopicName, i32, i64, &str)> {
        match self {
            Self::Store(item) => Some((&item.topic, item.partition, item.offset, &item.metadata)),
            Self::Refuse(_) => None,
        }
    }

    /// An offset to store.
    pub(super) fn stored(&self) -> Option<(TopicName, i32, i64)> {
        match self {
            Self::Store(item) => Some((item.topic.clone(), item.partition, item.offset)),
            Self::Refuse(_) => None,
        }
    }

    /// The error code of this partition.
    pub(super) fn code(&self, stored: PartitionResult) -> i16 {
        let done = match self {
            Self::Store(_) => stored,
            Self::Refuse(error) => Err(*error),
        };
        done.map_or_else(|error| error.code(), |()| 0)
    }
}
