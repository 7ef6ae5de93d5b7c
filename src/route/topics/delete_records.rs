//! `DeleteRecords` 0–2: moves the start of a partition. A dead-letter topic loses its first dead
//! letters for good, with a record in the audit log. By itself a deleted retry does not come any
//! more.

use std::sync::Arc;

use kafka_protocol::messages::delete_records_request::DeleteRecordsPartition;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::engine::Operator;
use crate::model::TopicName;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// `low_watermark` of a failed or unknown partition.
const NO_OFFSET: i64 = -1;
/// `offset` of a request that deletes all records.
const TO_THE_END: i64 = -1;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut response = DeleteRecordsResponse::default();
    let mut last = 0;
    for asked in request.topics {
        let name = topic_of(&asked.name);
        let letters = router.names.is_dead_letters(&name).then(|| name.clone());
        let found = router.changeable(&name).map_err(|error| code::of_broker(&error));
        let mut topic = DeleteRecordsTopicResult::default();
        topic.name = asked.name;
        for partition in &asked.partitions {
            let deleted = match (&letters, &found) {
                (Some(letters), _) => delete_letters(router, conn, letters, partition).await,
                (None, Ok(topic)) => delete(router, topic, partition).await,
                (None, Err(error)) => Err(*error),
            };
            if let Ok((low_watermark, seq)) = deleted {
                last = last.max(seq);
                router.retries_deleted(&name, partition.partition_index, low_watermark);
                tracing::info!(
                    topic = %name, partition = partition.partition_index, low_watermark,
                    "records deleted"
                );
            }
            topic.partitions.push(result(partition, deleted.map(|(start, _)| start)));
        }
        response.topics.push(topic);
    }
    // Without this wait a deleted record could be there again after a crash.
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

/// Returns the new start offset and sequence 0: the engine has made the deletion durable.
async fn delete_letters(
    router: &Router,
    conn: &Conn,
    topic: &TopicName,
    asked: &DeleteRecordsPartition,
) -> Result<(i64, u64), ResponseError> {
    let bounds = router.engine.letter_bounds(topic);
    let (start, end) = bounds.map_or((0, 0), |bounds| (bounds.start, bounds.visible_end));
    let up_to = if asked.offset == TO_THE_END { end } else { asked.offset };
    if asked.partition_index != 0 {
        return Err(ResponseError::UnknownTopicOrPartition);
    }
    if !(0..=end).contains(&up_to) {
        return Err(ResponseError::OffsetOutOfRange);
    }
    if up_to <= start {
        return Ok((start, 0));
    }
    let by = Operator {
        name: conn.client().to_string(),
        peer: conn.host(),
        note: "DeleteRecords".to_owned(),
        is_claimed: true,
    };
    let deleted = router.engine.delete_letters(topic, up_to, by).await;
    deleted.map(|(start, _)| (start, 0)).map_err(|error| code::of_engine(&error))
}

/// Returns the new start offset and the journal sequence to wait for.
async fn delete(
    router: &Router,
    topic: &Arc<Topic>,
    asked: &DeleteRecordsPartition,
) -> Result<(i64, u64), ResponseError> {
    let (broker, topic) = (Arc::clone(&router.broker), Arc::clone(topic));
    let (index, offset) = (asked.partition_index, asked.offset);
    // Deletion reads every batch it removes, which may block for long.
    let deleting = tokio::task::spawn_blocking(move || {
        let partition = topic.partition(index).ok_or(BrokerError::UnknownTopicOrPartition)?;
        broker.delete_records(partition, offset)
    });
    let deleted = deleting.await.map_err(|_| ResponseError::KafkaStorageError)?;
    deleted.map_err(|error| code::of_broker(&error))
}
