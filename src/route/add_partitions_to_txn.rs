//! AddPartitionsToTxn 0–3, in front of a cluster: our topics take no part in transactions.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::produce::NOT_TRANSACTIONAL;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

pub(super) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: AddPartitionsToTxnRequest,
) -> Result<AddPartitionsToTxnResponse, UpstreamError> {
    let is_own = |topic: &AddPartitionsToTxnTopic| {
        router.is_own(&router.names.canonical(&topic_of(&topic.name)))
    };
    let topics = &request.v3_and_below_topics;
    let Some(ours) = topics.iter().find(|topic| is_own(topic)) else {
        return link.call(head, &request).await;
    };
    let (peer, client) = (conn.peer, conn.client());
    tracing::warn!(
        topic = %ours.name.as_str(), %peer, %client,
        "a transaction is refused: {NOT_TRANSACTIONAL}"
    );
    // As in Kafka, one that is refused keeps all the others out.
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
