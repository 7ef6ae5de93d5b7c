//! `EndTxn` 0–5: commits or aborts a transaction as a whole.

use std::sync::Arc;

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};
use tokio::sync::oneshot;

use crate::broker::error::BrokerError;
use crate::broker::transactions::{EndResult, HeldBatches, Incarnation};
use crate::engine::{self, EngineError, EntrySource};
use crate::observe::Metrics;
use crate::route::clients::conn::Conn;
use crate::route::nacks::nack_batches::word_of;
use crate::route::offsets::offset_commit::{CommitDeadline, commit_result};
use crate::route::transactions::pending_transactions::PendingTransactions;
use crate::route::{Router, code, produce};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// First version in which the commit of an empty transaction is refused (KIP-890).
const NOTHING_REFUSED_SINCE: i16 = 5;
/// First version in which every end bumps the producer epoch (KIP-890).
const RAISES_SINCE: i16 = 5;
/// First version whose clients know `PRODUCER_FENCED` (KIP-588).
const FENCED_SINCE: i16 = 2;

pub(in crate::route) async fn answer(
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
    let raises = head.version >= RAISES_SINCE;
    let may = || {
        let may = router.broker.transactions.may_end(id, by, request.committed, raises);
        may.map_err(|error| of(error.into()))
    };
    may()?;
    // A producer that was fenced meanwhile learns that, instead of a retriable error.
    let late = |late| may().err().unwrap_or(late);
    let deadline = CommitDeadline::begins(&router.clock);
    let mut nacks = HeldBatches::default();
    if request.committed {
        // Offsets of the transaction go behind every nack that was queued before it.
        for group in router.broker.transactions.groups(id) {
            let nacks = router.engine.nacks_durable(&group);
            deadline.bounds(commit_result(nacks)).await.map_err(late)?;
        }
        nacks = router.broker.held_in_transaction(id, by).map_err(of)?;
    }
    let end = PendingEnd { id: id.to_owned(), by, commits: request.committed, raises };
    let ended = if nacks.batches.is_empty() {
        let ended = router.broker.end_transaction(id, by, request.committed, raises);
        end.told((&router.metrics, &router.transactions), ended)
    } else {
        deadline.bounds(end.with(router, conn, nacks)).await.map_err(late)?
    };
    let EndResult { producer, seq, .. } = ended.map_err(of)?;
    router.broker.durable(seq).await.map_err(of)?;
    router.tell_ends(id).await?;
    Ok(producer)
}

/// A transaction's end before it is journalled.
struct PendingEnd {
    id: String,
    by: Incarnation,
    commits: bool,
    raises: bool,
}

impl PendingEnd {
    /// Records the outcome. It runs before the next await: a repeated EndTxn does not return the
    /// committed offsets again.
    fn told(
        &self,
        (metrics, transactions): (&Metrics, &PendingTransactions),
        ended: Result<EndResult, BrokerError>,
    ) -> Result<EndResult, BrokerError> {
        let mut ended = ended?;
        if ended.is_news {
            metrics.transaction_ended(if self.commits { "committed" } else { "aborted" });
        }
        let committed = std::mem::take(&mut ended.committed);
        transactions.ended(&self.id, self.by, self.commits, committed, ended.seq);
        Ok(ended)
    }

    /// Ends the transaction together with its nacks, in one atomic group.
    async fn with(
        self,
        router: &Router,
        conn: &Conn,
        held: HeldBatches,
    ) -> Result<Result<EndResult, BrokerError>, ResponseError> {
        let batches = produce::held(router, conn, &held.batches)?;
        let stops: Vec<_> = batches.iter().map(|batch| router.key_stops(batch)).collect();
        let id = self.id.clone();
        let (told, ended) = oneshot::channel();
        let (broker, metrics) = (Arc::clone(&router.broker), router.metrics.clone());
        let transactions = Arc::clone(&router.transactions);
        let end = Box::new(move |more: EntrySource<'_>| {
            let done = broker.commit_held((&self.id, self.by), self.raises, &held, more);
            let (ended, refs) = match done {
                Ok((ended, refs)) => (Ok(ended), Some(refs)),
                Err(error) => (Err(error), None),
            };
            // The receiver is dropped if the client has closed its connection.
            drop(told.send(self.told((&metrics, &transactions), ended)));
            refs
        });
        let ending = engine::TransactionEnd { nacks: batches, end };
        let replies = router.engine.ends(ending).await.map_err(|error| {
            if router.markers.warns(&id, "a transaction", word_of(&error)) {
                tracing::warn!(
                    transactional_id = %id, %error,
                    "R0602 nacks were refused, and their transaction with them; more of this kind \
                     are only counted (reprise_request_errors_total)"
                );
            }
            match error {
                EngineError::BadNacks(_) | EngineError::BatchTooLarge { .. } => {
                    ResponseError::InvalidTxnState
                }
                error => code::of_commit(&error),
            }
        })?;
        for (stops, reply) in stops.into_iter().zip(&replies) {
            router.stop_keys(stops, reply).await;
        }
        ended.await.map_err(|_| ResponseError::CoordinatorNotAvailable)
    }
}

/// In front of a cluster: the parts of the transaction in our topics end with it.
pub(in crate::route) async fn relayed(
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
        // The transaction has only our topics, so for the cluster it never began. Its abort gives
        // the producer its next epoch.
        request.committed = false;
        response = link.call(head, &request).await?;
    }
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
