//! `DescribeTopicPartitions` 0 (KIP-966): topics like Metadata, in pages.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
};

use crate::model::TopicName;
use crate::route::convert::{topic_of, wire_topic};
use crate::route::security::authorized_operations::OF_TOPIC;
use crate::route::{NODE_ID, Router};
use crate::wire::ResponseError;
use crate::wire::batch::LEADER_EPOCH;

/// Kafka's default of `max.request.partition.size.limit`.
const PARTITIONS_MAX: i32 = 2000;

pub(in crate::route) fn answer(
    router: &Router,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let mut names: BTreeSet<TopicName> = if request.topics.is_empty() {
        router.listed()
    } else {
        request.topics.iter().map(|topic| topic_of(&topic.name)).collect()
    };
    let mut first = 0;
    if let Some(cursor) = &request.cursor {
        let from = topic_of(&cursor.topic_name);
        names.retain(|name| *name >= from);
        if names.first() == Some(&from) {
            first = cursor.partition_index.max(0);
        }
    }
    let mut left = request.response_partition_limit.clamp(1, PARTITIONS_MAX);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        if left == 0 {
            response.next_cursor = Some(cursor(&name, first));
            break;
        }
        let (topic, next) = describe(router, &name, first, left);
        left -= i32::try_from(topic.partitions.len()).unwrap_or(left).min(left);
        response.topics.push(topic);
        first = 0;
        if let Some(next) = next {
            response.next_cursor = Some(cursor(&name, next));
            break;
        }
    }
    response
}

fn cursor(name: &TopicName, partition: i32) -> Cursor {
    let mut cursor = Cursor::default();
    cursor.topic_name = wire_topic(name);
    cursor.partition_index = partition;
    cursor
}

/// One topic from partition `first`, and the first partition of the next page.
fn describe(
    router: &Router,
    name: &TopicName,
    first: i32,
    limit: i32,
) -> (DescribeTopicPartitionsResponseTopic, Option<i32>) {
    let mut topic = DescribeTopicPartitionsResponseTopic::default();
    topic.name = Some(wire_topic(name));
    let Some(place) = router.place_or_make(name) else {
        topic.error_code = ResponseError::UnknownTopicOrPartition.code();
        return (topic, None);
    };
    topic.topic_id = router.id_of(name, &place);
    topic.topic_authorized_operations = OF_TOPIC;
    let end = place.partitions().min(first.saturating_add(limit));
    let node = BrokerId(NODE_ID);
    topic.partitions = (first..end)
        .map(|index| {
            let mut partition = DescribeTopicPartitionsResponsePartition::default();
            partition.partition_index = index;
            partition.leader_id = node;
            partition.leader_epoch = LEADER_EPOCH;
            partition.replica_nodes = vec![node];
            partition.isr_nodes = vec![node];
            partition.eligible_leader_replicas = Some(Vec::new());
            partition.last_known_elr = Some(Vec::new());
            partition
        })
        .collect();
    (topic, (end < place.partitions()).then_some(end))
}
