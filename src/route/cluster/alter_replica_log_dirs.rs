//! `AlterReplicaLogDirs` 1–2: there is one directory, and every log lies in it already.

use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};

use crate::model::TopicName;
use crate::route::Router;
use crate::route::cluster::describe_log_dirs::LOG_DIR;
use crate::route::convert::topic_of;
use crate::route::topics::topic_names::TopicKind;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(
    router: &Router,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    let mut response = AlterReplicaLogDirsResponse::default();
    for dir in request.dirs {
        let is_ours = dir.path.as_str() == LOG_DIR;
        for topic in dir.topics {
            let mut result = AlterReplicaLogDirTopicResult::default();
            let name = topic_of(&topic.name);
            let partitions = topic.partitions.into_iter();
            result.partitions =
                partitions.map(|index| moved(router, &name, index, is_ours)).collect();
            result.topic_name = topic.name;
            response.results.push(result);
        }
    }
    response
}

fn moved(
    router: &Router,
    name: &TopicName,
    index: i32,
    is_ours: bool,
) -> AlterReplicaLogDirPartitionResult {
    let mut result = AlterReplicaLogDirPartitionResult::default();
    result.partition_index = index;
    let has_log = match router.place(name) {
        Some(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) => {
            topic.partition(index).is_some()
        }
        Some(TopicKind::DeadLetters(None)) | None => false,
    };
    // The directory comes first, as in Kafka's replica manager.
    if !is_ours {
        result.error_code = ResponseError::LogDirNotFound.code();
    } else if !has_log {
        result.error_code = ResponseError::UnknownTopicOrPartition.code();
    }
    result
}
