//! The effect of a commit on one partition.

use crate::broker::offsets::CommitItem;
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
    /// An offset to store.
    pub(in crate::route) fn item(&self) -> Option<&CommitItem> {
        match self {
            Self::Store(item) => Some(item),
            Self::Refuse(_) => None,
        }
    }

    /// The error code of this partition.
    pub(in crate::route) fn code(&self, stored: PartitionResult) -> i16 {
        let done = match self {
            Self::Store(_) => stored,
            Self::Refuse(error) => Err(*error),
        };
        done.map_or_else(|error| error.code(), |()| 0)
    }
}
