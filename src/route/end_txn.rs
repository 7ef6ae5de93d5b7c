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
    router.broker.durable(ended.seq).await.map_err(of)?;
    let Ended { producer, committed, .. } = ended;
    for (group, offsets) in committed {
        let told = router.engine.origin_commits(&group, offsets.clone()).await;
        told.map_err(|error| code::of_commit(&error))?;
        router.commit_stored(&group, offsets);
    }
    if let Some(held) = router.transactions.held(id, by) {
        if request.committed {
            held.commit(router).await?;
        } else {
            held.abort(router);
        }
        router.transactions.done(id, by);
    }
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
    let Some(open) = router.transactions.take_of(&id, by) else {
        return link.call(head, &request).await;
    };
    let committed = request.committed;
    let mut answered: Result<EndTxnResponse, _> = link.call(head, &request).await;
    let nothing = ResponseError::InvalidTxnState.code();
    if let Ok(response) = &answered
        && committed
        && head.version >= NOTHING_REFUSED_SINCE
        && response.error_code == nothing
    {
        // All it has is ours: for the cluster the transaction never began, and to abort that is
        // how the producer gets its next epoch.
        request.committed = false;
        answered = link.call(head, &request).await;
    }
    let mut response = match answered {
        Ok(response) => response,
        Err(error) => {
            router.transactions.put_back(&id, open);
            return Err(error);
        }
    };
    match ResponseError::try_from_code(response.error_code) {
        None if committed => {
            if let Err(error) = open.commit(router).await {
                // The producer tries again, the cluster agrees again.
                router.transactions.put_back(&id, open);
                response.error_code = error.code();
            }
        }
        // The codec's own list forgets the second.
        Some(error) if error.is_retriable() || error == ResponseError::ConcurrentTransactions => {
            router.transactions.put_back(&id, open);
        }
        None | Some(_) => open.abort(router),
    }
    Ok(response)
}
