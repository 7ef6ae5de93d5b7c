//! EndTxn 0–5, in front of a cluster: what the transaction holds of our topics ends with it.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use crate::route::Router;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// Since then a commit of nothing is refused (KIP-890).
const NOTHING_REFUSED_SINCE: i16 = 5;

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
