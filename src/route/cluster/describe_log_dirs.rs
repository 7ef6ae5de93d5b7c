//! `DescribeLogDirs` 1–4: one directory, and the bytes of each partition in it.
//!
//! In front of a cluster the brokers hold the logs of its partitions. Clients treat an answer
//! without directories as a refusal, so this node names an empty one.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::broker::topic::{Partition, Topic};
use crate::model::TopicName;
use crate::route::Router;
use crate::route::convert::{text, topic_of, wire_topic};
use crate::route::topics::topic_names::TopicKind;

/// Not a path: clients do not learn where the journal lies.
pub(in crate::route) const LOG_DIR: &str = "reprise";

pub(in crate::route) fn answer(
    router: &Router,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let mut result = DescribeLogDirsResult::default();
    result.log_dir = text(LOG_DIR);
    result.usable_bytes = i64::try_from(router.broker.free_bytes()).unwrap_or(i64::MAX);
    result.topics = match request.topics {
        None => all(router).iter().filter_map(|name| topic(router, name, None)).collect(),
        Some(asked) => {
            let one = asked.into_iter().filter_map(|asked| {
                let name = topic_of(&asked.topic);
                topic(router, &name, Some(&asked.partitions))
            });
            one.collect()
        }
    };
    let mut response = DescribeLogDirsResponse::default();
    response.results.push(result);
    response
}

fn all(router: &Router) -> BTreeSet<TopicName> {
    let local = router.broker.topics.list();
    let local = local.iter().map(|topic| topic.name.clone());
    local.chain(router.names.listed()).collect()
}

/// The requested partitions of a topic with a log (`None`: all); `None`: no such partition.
fn topic(router: &Router, name: &TopicName, asked: Option<&[i32]>) -> Option<DescribeLogDirsTopic> {
    let found = match router.place(name)? {
        TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic)) => topic,
        // Retry entries live in the ledger and have no log of their own.
        TopicKind::DeadLetters(None) => return None,
    };
    let mut described = DescribeLogDirsTopic::default();
    described.name = wire_topic(name);
    described.partitions = partitions(router, &found, asked);
    (!described.partitions.is_empty()).then_some(described)
}

fn partitions(
    router: &Router,
    topic: &Topic,
    asked: Option<&[i32]>,
) -> Vec<DescribeLogDirsPartition> {
    let described = |partition: &Partition| {
        let mut described = DescribeLogDirsPartition::default();
        described.partition_index = partition.index;
        let bytes = router.broker.bounds(partition).bytes;
        described.partition_size = i64::try_from(bytes).unwrap_or(i64::MAX);
        described
    };
    match asked {
        None => topic.partitions.iter().map(described).collect(),
        Some(asked) => {
            let found = asked.iter().filter_map(|index| topic.partition(*index));
            found.map(described).collect()
        }
    }
}
