//! InitProducerId 0–5: a fresh id for idempotent producers. This node alone has no transactions.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use crate::route::Router;
use crate::route::code;
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

pub(super) async fn answer(
    router: &Router,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let mut response = InitProducerIdResponse::default();
    response.producer_id = ProducerId(-1);
    response.producer_epoch = -1;
    if let Some(id) = request.transactional_id {
        tracing::warn!(
            transactional_id = %id.0.as_str(),
            "transactions are not served here; produce without transactional.id"
        );
        response.error_code = ResponseError::TransactionalIdAuthorizationFailed.code();
        return response;
    }
    match router.broker.next_producer_id().await {
        Ok(id) => {
            response.producer_id = ProducerId(id);
            response.producer_epoch = 0;
        }
        Err(error) => response.error_code = code::of_broker(&error).code(),
    }
    response
}

/// The same in front of a cluster, which has the transactions: whoever begins anew has aborted what
/// was open under its transactional id.
pub(super) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: InitProducerIdRequest,
) -> Result<InitProducerIdResponse, UpstreamError> {
    let response = link.call(head, &request).await?;
    if let Some(id) = request.transactional_id
        && response.error_code == 0
        && let Some(held) = router.transactions.take(&id)
    {
        held.abort(router);
    }
    Ok(response)
}
