//! AddPartitionsToTxn 0–3: adds partitions that a transaction will write to. Nacks take no part in
//! transactions.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use crate::broker::transactions::{Joining, TransactionPartition, part};
use crate::model::TopicName;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::produce::NOT_TRANSACTIONAL;
use crate::route::topics::topic_names::{ProduceTarget, TopicKind};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// First version whose clients know `PRODUCER_FENCED` (KIP-588).
const FENCED_SINCE: i16 = 2;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let (id, topics) = (&request.v3_and_below_transactional_id, &request.v3_and_below_topics);
    let found: Vec<Vec<_>> = topics.iter().map(|topic| parts(router, conn, id, topic)).collect();
    let all: Result<Vec<TransactionPartition>, _> = found.iter().flatten().cloned().collect();
    let error = match all {
        Ok(parts) => join(router, head, &request, parts).await.err().map_or(0, |e| e.code()),
        // A refused partition keeps all the others out, as in Kafka.
        Err(_) => ResponseError::OperationNotAttempted.code(),
    };
    let mut response = AddPartitionsToTxnResponse::default();
    for (topic, parts) in topics.iter().zip(found) {
        let mut result = AddPartitionsToTxnTopicResult::default();
        result.name = topic.name.clone();
        for (index, part) in topic.partitions.iter().zip(parts) {
            let mut partition = AddPartitionsToTxnPartitionResult::default();
            partition.partition_index = *index;
            partition.partition_error_code = part.err().map_or(error, |error| error.code());
            result.results_by_partition.push(partition);
        }
        response.results_by_topic_v3_and_below.push(result);
    }
    response
}

fn parts(
    router: &Router,
    conn: &Conn,
    id: &str,
    asked: &AddPartitionsToTxnTopic,
) -> Vec<Result<TransactionPartition, ResponseError>> {
    let name = topic_of(&asked.name);
    let place = router.target_for(conn, &name);
    let one = |index: &i32| match &place {
        Ok(ProduceTarget::Topic(TopicKind::Local(topic))) => {
            let partition = topic.partition(*index);
            partition.map(|of| part(topic, of)).ok_or(ResponseError::UnknownTopicOrPartition)
        }
        Ok(ProduceTarget::Nacks(_) | ProduceTarget::Topic(TopicKind::DeadLetters(_))) => {
            warn(router, conn, id, &name);
            Err(ResponseError::InvalidTxnState)
        }
        Err(error) => Err(*error),
    };
    asked.partitions.iter().map(one).collect()
}

/// Logs the refusal of a transaction, once for each transactional id.
fn warn(router: &Router, conn: &Conn, id: &str, topic: &TopicName) {
    if router.markers.warns(id, "a transaction", "ours") {
        let (peer, client) = (conn.peer, conn.client());
        tracing::warn!(
            transactional_id = id, %topic, %peer, %client,
            "R0604 a transaction is refused: {NOT_TRANSACTIONAL}; more of this kind are only \
             counted (reprise_request_errors_total)"
        );
    }
}

async fn join(
    router: &Router,
    head: &RequestHead,
    request: &AddPartitionsToTxnRequest,
    parts: Vec<TransactionPartition>,
) -> Result<(), ResponseError> {
    let id = request.v3_and_below_transactional_id.as_str();
    let by = (request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch);
    let joining = Joining { parts, ..Joining::default() };
    let of = |error| code::of_coordinator(&error, head.version >= FENCED_SINCE);
    let seq = router.broker.join_transaction(id, by, joining).map_err(of)?;
    router.broker.durable(seq).await.map_err(of)
}

/// In front of a cluster, its coordinator answers, unless the request names a retry topic.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: AddPartitionsToTxnRequest,
) -> Result<AddPartitionsToTxnResponse, UpstreamError> {
    let is_own =
        |topic: &AddPartitionsToTxnTopic| router.retry_group(&topic_of(&topic.name)).is_some();
    let topics = &request.v3_and_below_topics;
    let Some(ours) = topics.iter().find(|topic| is_own(topic)) else {
        return link.call(head, &request).await;
    };
    let (id, name) = (&request.v3_and_below_transactional_id, topic_of(&ours.name));
    warn(router, conn, id, &name);
    // A refused partition keeps all the others out, as in Kafka.
    let mut response = AddPartitionsToTxnResponse::default();
    for topic in topics {
        let error = if is_own(topic) {
            ResponseError::InvalidTxnState
        } else {
            ResponseError::OperationNotAttempted
        };
        let mut result = AddPartitionsToTxnTopicResult::default();
        result.name = topic.name.clone();
        for index in &topic.partitions {
            let mut partition = AddPartitionsToTxnPartitionResult::default();
            partition.partition_index = *index;
            partition.partition_error_code = error.code();
            result.results_by_partition.push(partition);
        }
        response.results_by_topic_v3_and_below.push(result);
    }
    Ok(response)
}
