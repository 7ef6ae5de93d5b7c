//! `DeleteRecords` 0–2: a partition begins later. Retry and dead-letter topics lose nothing.

use std::sync::Arc;

use kafka_protocol::messages::delete_records_request::DeleteRecordsPartition;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::route::convert::topic_of;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// `low_watermark` of a partition of which nothing is known.
const NO_OFFSET: i64 = -1;

pub(super) async fn answer(
    router: &Router,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut response = DeleteRecordsResponse::default();
    let mut last = 0;
    for asked in request.topics {
        let name = router.names.canonical(&topic_of(&asked.name));
        let found = router.changeable(&name).map_err(|error| code::of_broker(&error));
        let mut topic = DeleteRecordsTopicResult::default();
        topic.name = asked.name;
        for partition in &asked.partitions {
            let deleted = match &found {
                Ok(topic) => delete(router, topic, partition).await,
                Err(error) => Err(*error),
            };
            if let Ok((low_watermark, seq)) = deleted {
                last = last.max(seq);
                tracing::info!(
                    topic = %name, partition = partition.partition_index, low_watermark,
                    "records deleted"
                );
            }
            topic.partitions.push(result(partition, deleted.map(|(start, _)| start)));
        }
        response.topics.push(topic);
    }
    // Nothing that was deleted may be there again after a crash.
    if let Err(error) = router.broker.durable(last).await {
        let refused = code::of_broker(&error);
        let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        for one in partitions.filter(|one| one.error_code == 0) {
            (one.error_code, one.low_watermark) = (refused.code(), NO_OFFSET);
        }
    }
    response
}

fn result(
    asked: &DeleteRecordsPartition,
    deleted: Result<i64, ResponseError>,
) -> DeleteRecordsPartitionResult {
    let mut result = DeleteRecordsPartitionResult::default();
    result.partition_index = asked.partition_index;
    match deleted {
        Ok(start) => result.low_watermark = start,
        Err(error) => (result.error_code, result.low_watermark) = (error.code(), NO_OFFSET),
    }
    result
}

/// The first offset kept, and the entry to wait for.
async fn delete(
    router: &Router,
    topic: &Arc<Topic>,
    asked: &DeleteRecordsPartition,
) -> Result<(i64, u64), ResponseError> {
    let (broker, topic) = (Arc::clone(&router.broker), Arc::clone(topic));
    let (index, offset) = (asked.partition_index, asked.offset);
    // Every batch that goes is looked at, which may take its time.
    let deleting = tokio::task::spawn_blocking(move || {
        let partition = topic.partition(index).ok_or(BrokerError::UnknownTopicOrPartition)?;
        broker.delete_records(partition, offset)
    });
    let deleted = deleting.await.map_err(|_| ResponseError::KafkaStorageError)?;
    deleted.map_err(|error| code::of_broker(&error))
}
