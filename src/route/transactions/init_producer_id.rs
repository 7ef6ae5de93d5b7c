//! `InitProducerId` 0–5: a new id for idempotent producers, the next epoch for transactional ones.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use crate::broker::error::BrokerError;
use crate::broker::transactions::Incarnation;
use crate::route::Router;
use crate::route::code;
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// First version whose clients know `PRODUCER_FENCED` (KIP-588).
const FENCED_SINCE: i16 = 4;

pub(in crate::route) async fn answer(
    router: &Router,
    head: &RequestHead,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let made = if let Some(id) = &request.transactional_id {
        begin(router, head, id, &request).await
    } else {
        let made = router.broker.next_producer_id().await;
        made.map(|id| (id, 0)).map_err(|error| code::of_broker(&error))
    };
    let mut response = InitProducerIdResponse::default();
    response.producer_id = ProducerId(-1);
    response.producer_epoch = -1;
    match made {
        Ok((id, epoch)) => (response.producer_id, response.producer_epoch) = (id.into(), epoch),
        Err(error) => response.error_code = error.code(),
    }
    response
}

/// Fences the former producer of the transactional id and aborts its open transaction.
async fn begin(
    router: &Router,
    head: &RequestHead,
    id: &str,
    request: &InitProducerIdRequest,
) -> Result<Incarnation, ResponseError> {
    let refused = |error: &BrokerError| {
        let error = code::of_coordinator(error, head.version >= FENCED_SINCE);
        tracing::info!(transactional_id = %id, error = %code::name(error), "a producer is refused");
        error
    };
    let by = (request.producer_id.0, request.producer_epoch);
    let by = (by.0 >= 0).then_some(by);
    let begun = router.broker.begin_producer(id, by, request.transaction_timeout_ms);
    let begun = begun.map_err(|error| refused(&error))?;
    if begun.aborted {
        router.metrics.transaction_ended("aborted");
    }
    router.transactions.begun(id, begun.producer, begun.committed, begun.seq);
    router.broker.durable(begun.seq).await.map_err(|error| refused(&error))?;
    // The outcome of the last transaction may still be undelivered if its EndTxn failed.
    router.tell_ends(id).await?;
    Ok(begun.producer)
}

/// In front of a cluster, the coordinator is upstream: its answer means that an open transaction of
/// the id was aborted.
pub(in crate::route) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: InitProducerIdRequest,
) -> Result<InitProducerIdResponse, UpstreamError> {
    let response = link.call(head, &request).await?;
    if let Some(id) = request.transactional_id
        && response.error_code == 0
    {
        let producer = (response.producer_id.0, response.producer_epoch);
        router.transactions.begun(&id, producer, false, 0);
        router.try_to_tell_ends(&id).await;
    }
    Ok(response)
}
