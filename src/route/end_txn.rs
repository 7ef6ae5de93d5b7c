//! EndTxn 0–5: what a transaction holds is done, or nothing of it.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use crate::broker::transactions::{Ended, Incarnation};
use crate::route::conn::Conn;
use crate::route::offset_commit::{Patience, noted};
use crate::route::produce::take_held;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// Since then a commit of nothing is refused (KIP-890).
const NOTHING_REFUSED_SINCE: i16 = 5;
/// Since then a producer is given its next epoch at every end (KIP-890).
const RAISES_SINCE: i16 = 5;
/// A fenced producer is told so (KIP-588).
const FENCED_SINCE: i16 = 2;

pub(super) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: EndTxnRequest,
) -> EndTxnResponse {
    let mut response = EndTxnResponse::default();
    (response.producer_id, response.producer_epoch) = ((-1).into(), -1);
    match end(router, conn, head, &request).await {
        Ok((id, epoch)) => (response.producer_id, response.producer_epoch) = (id.into(), epoch),
        Err(error) => response.error_code = error.code(),
    }
    response
}

async fn end(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: &EndTxnRequest,
) -> Result<Incarnation, ResponseError> {
    let id = request.transactional_id.as_str();
    let by = (request.producer_id.0, request.producer_epoch);
    let of = |error| code::of_coordinator(&error, head.version >= FENCED_SINCE);
    let patience = Patience::begins(&router.clock);
    if request.committed {
        let nacks = router.broker.held_in_transaction(id, by).map_err(of)?;
        patience.bounds(take_held(router, conn, nacks)).await?;
        // Its offsets go behind every nack that came before.
        for group in router.broker.transactions.groups(id) {
            patience.bounds(noted(router.engine.origin_commits(&group, Vec::new()))).await?;
        }
    }
    let raises = head.version >= RAISES_SINCE;
    let ended = router.broker.end_transaction(id, by, request.committed, raises).map_err(of)?;
    let Ended { producer, committed, is_news, seq } = ended;
    if is_news {
        router.metrics.transaction_ended(if request.committed { "committed" } else { "aborted" });
    }
    // Before anything is waited for: who asks again, or nobody, does not know of these.
    router.transactions.ended(id, by, request.committed, committed, seq);
    router.broker.durable(seq).await.map_err(of)?;
    router.tell_ends(id).await?;
    Ok(producer)
}

/// The same in front of a cluster: what the transaction holds of our topics ends with it.
pub(super) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    mut request: EndTxnRequest,
) -> Result<EndTxnResponse, UpstreamError> {
    let id = request.transactional_id.clone();
    let by = (request.producer_id.0, request.producer_epoch);
    if !router.transactions.knows(&id, by) {
        return link.call(head, &request).await;
    }
    let committed = request.committed;
    let mut response: EndTxnResponse = link.call(head, &request).await?;
    let nothing = ResponseError::InvalidTxnState.code();
    if committed && head.version >= NOTHING_REFUSED_SINCE && response.error_code == nothing {
        // All it has is ours: for the cluster the transaction never began, and to abort that is
        // how the producer gets its next epoch.
        request.committed = false;
        response = link.call(head, &request).await?;
    }
    match ResponseError::try_from_code(response.error_code) {
        // The codec's own list forgets the second.
        Some(error) if error.is_retriable() || error == ResponseError::ConcurrentTransactions => {
            return Ok(response);
        }
        None => router.transactions.ended(&id, by, committed, Vec::new(), 0),
        Some(_) => router.transactions.ended(&id, by, false, Vec::new(), 0),
    }
    let told = router.tell_ends(&id).await;
    if let (0, Err(error)) = (response.error_code, told) {
        // The producer tries again, the cluster agrees again.
        response.error_code = error.code();
    }
    Ok(response)
}
