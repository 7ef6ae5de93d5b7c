//! `EndTxn` 0–5: commits or aborts a transaction as a whole.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use crate::broker::transactions::{EndResult, Incarnation};
use crate::route::offsets::offset_commit::CommitDeadline;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// First version in which every end bumps the producer epoch (KIP-890).
const RAISES_SINCE: i16 = 5;
/// First version whose clients know `PRODUCER_FENCED` (KIP-588).
const FENCED_SINCE: i16 = 2;

pub(in crate::route) async fn answer(
    router: &Router,
    head: &RequestHead,
    request: EndTxnRequest,
) -> EndTxnResponse {
    let mut response = EndTxnResponse::default();
    (response.producer_id, response.producer_epoch) = ((-1).into(), -1);
    match end(router, head, &request).await {
        Ok((id, epoch)) => (response.producer_id, response.producer_epoch) = (id.into(), epoch),
        Err(error) => response.error_code = error.code(),
    }
    response
}

async fn end(
    router: &Router,
    head: &RequestHead,
    request: &EndTxnRequest,
) -> Result<Incarnation, ResponseError> {
    let id = request.transactional_id.as_str();
    let by = (request.producer_id.0, request.producer_epoch);
    let of = |error| code::of_coordinator(&error, head.version >= FENCED_SINCE);
    let raises = head.version >= RAISES_SINCE;
    let may = || {
        let may = router.broker.transactions.may_end(id, by, request.committed, raises);
        may.map_err(|error| of(error.into()))
    };
    may()?;
    // A producer that was fenced meanwhile learns that, instead of a retriable error.
    let late = |late| may().err().unwrap_or(late);
    let deadline = CommitDeadline::begins(&router.clock);
    if request.committed {
        // Offsets of the transaction go behind every nack that was queued before it.
        for group in router.broker.transactions.groups(id) {
            let nacks = deadline.passes_nacks(router, &group, std::iter::empty());
            nacks.await.map_err(late)?;
        }
    }
    let ended = router.broker.end_transaction(id, by, request.committed, raises).map_err(of)?;
    let EndResult { producer, committed, is_news, seq } = ended;
    if is_news {
        let outcome = if request.committed { "committed" } else { "aborted" };
        router.metrics.transaction_ended(outcome);
    }
    // Before the next await: a repeated EndTxn does not return the committed offsets again.
    router.transactions.ended(id, by, request.committed, committed, seq);
    router.broker.durable(seq).await.map_err(of)?;
    router.tell_ends(id).await?;
    Ok(producer)
}

/// In front of a cluster: the offsets of the transaction count with its end.
pub(in crate::route) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: EndTxnRequest,
) -> Result<EndTxnResponse, UpstreamError> {
    let id = request.transactional_id.clone();
    let by = (request.producer_id.0, request.producer_epoch);
    if !router.transactions.knows(&id, by) {
        return link.call(head, &request).await;
    }
    let committed = request.committed;
    let mut response: EndTxnResponse = link.call(head, &request).await?;
    match ResponseError::try_from_code(response.error_code) {
        // The codec's `is_retriable` omits `CONCURRENT_TRANSACTIONS`.
        Some(error) if error.is_retriable() || error == ResponseError::ConcurrentTransactions => {
            return Ok(response);
        }
        None => router.transactions.ended(&id, by, committed, Vec::new(), 0),
        Some(_) => router.transactions.ended(&id, by, false, Vec::new(), 0),
    }
    let told = router.tell_ends(&id).await;
    if let (0, Err(error)) = (response.error_code, told) {
        // The producer sends EndTxn again, and the cluster answers it again with success.
        response.error_code = error.code();
    }
    Ok(response)
}
