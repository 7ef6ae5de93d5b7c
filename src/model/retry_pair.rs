//! Owners of retry topics.

use crate::model::{GroupId, RetryPartition, TopicName};

/// The owner of a retry topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryPair {
    pub group: GroupId,
    /// The topic whose retries the retry topic has; `None`: it is that of the whole group.
    pub source: Option<TopicName>,
}

impl RetryPair {
    /// The owner of the retry topic of a whole group.
    pub fn of_group(group: &GroupId) -> Self {
        Self { group: group.clone(), source: None }
    }

    /// The partition of the retry topic with that stream.
    pub fn partition(&self, stream: u32, index: u16) -> RetryPartition {
        RetryPartition { stream, index, by_topic: self.source.is_some() }
    }
}
