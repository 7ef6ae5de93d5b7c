//! Partitions identified by topic id, as in consumer groups (KIP-848).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::TopicId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicIdPartition {
    pub topic: TopicId,
    /// Partition index in the topic.
    pub index: i32,
}

/// Current id and partition count of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicImage {
    pub id: TopicId,
    pub partitions: i32,
}

/// Some partitions of one topic. Journalled: a change of the shape is a change of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicIdPartitions {
    pub topic: TopicId,
    /// Partition indexes, sorted.
    pub partitions: Vec<i32>,
}

/// Groups partitions by topic.
pub(super) fn by_topic(partitions: &BTreeSet<TopicIdPartition>) -> Vec<TopicIdPartitions> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(partition.topic).or_default().push(partition.index);
    }
    let of = |(topic, partitions)| TopicIdPartitions { topic, partitions };
    topics.into_iter().map(of).collect()
}

/// Inverse of [`by_topic`].
pub(super) fn one_by_one(topics: &[TopicIdPartitions]) -> BTreeSet<TopicIdPartition> {
    let of = |of: &TopicIdPartitions| {
        let topic = of.topic;
        of.partitions.clone().into_iter().map(move |index| TopicIdPartition { topic, index })
    };
    topics.iter().flat_map(of).collect()
}
