//! Partitions of topics, as consumer groups (KIP-848) name them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::TopicId;

/// One partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Of this topic.
    pub topic: TopicId,
    /// Its number there.
    pub index: i32,
}

/// What a topic is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicImage {
    /// Its id.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: i32,
}

/// Some partitions of one topic. Journalled: a change of this shape is a change of a format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPartitions {
    /// The topic.
    pub topic: TopicId,
    /// Its partitions, in order.
    pub partitions: Vec<i32>,
}

/// Partitions by topic.
pub(super) fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(partition.topic).or_default().push(partition.index);
    }
    let of = |(topic, partitions)| TopicPartitions { topic, partitions };
    topics.into_iter().map(of).collect()
}

/// The opposite of [`by_topic`].
pub(super) fn one_by_one(topics: &[TopicPartitions]) -> BTreeSet<TopicPartition> {
    let of = |of: &TopicPartitions| {
        let topic = of.topic;
        of.partitions.clone().into_iter().map(move |index| TopicPartition { topic, index })
    };
    topics.iter().flat_map(of).collect()
}
