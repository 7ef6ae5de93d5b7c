//! `AddOffsetsToTxn` 0–4: adds a group whose offsets a transaction will commit.

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use crate::broker::transactions::Joining;
use crate::route::convert::group_of;
use crate::route::{Router, code};
use crate::wire::{RequestHead, ResponseError};

/// First version whose clients know `PRODUCER_FENCED` (KIP-588).
const FENCED_SINCE: i16 = 2;

pub(in crate::route) async fn answer(
    router: &Router,
    head: &RequestHead,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let mut response = AddOffsetsToTxnResponse::default();
    if let Err(error) = join(router, head, &request).await {
        response.error_code = error.code();
    }
    response
}

async fn join(
    router: &Router,
    head: &RequestHead,
    request: &AddOffsetsToTxnRequest,
) -> Result<(), ResponseError> {
    let group = group_of(&request.group_id);
    if group.is_reserved() {
        return Err(ResponseError::InvalidGroupId);
    }
    let by = (request.producer_id.0, request.producer_epoch);
    let joining = Joining { group: Some(group), ..Joining::default() };
    let of = |error| code::of_coordinator(&error, head.version >= FENCED_SINCE);
    let joined = router.broker.join_transaction(&request.transactional_id, by, joining);
    router.broker.durable(joined.map_err(of)?).await.map_err(of)
}
