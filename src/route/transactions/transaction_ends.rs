//! Applies the outcomes of ended transactions to their pending commits.

use std::sync::Arc;
use std::time::Duration;

use crate::route::offsets::offset_commit::{CommitDeadline, report_stored};
use crate::route::transactions::pending_transactions::OpenTransaction;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// Longest pause between checks for transactions that have timed out.
const LOOK_AGAIN_MS: u64 = 60_000;

/// Pause after a failed journal append or a failed end.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Router {
    /// Applies the outcomes of the ended transactions of this id. A failed one is tried again, by
    /// the next request and by the timer.
    pub(super) async fn tell_ends(&self, id: &str) -> Result<(), ResponseError> {
        while let Some(end) = self.transactions.first_untold(id) {
            if end.seq > 0 {
                let durable = self.broker.durable(end.seq).await;
                durable.map_err(|error| code::of_coordinator(&error, false))?;
            }
            if end.commits {
                end.held.commit(self).await?;
            }
            self.transactions.told(id, end.number);
        }
        Ok(())
    }

    /// Applies the outcomes for callers that do not need the result.
    pub(super) async fn try_to_tell_ends(&self, id: &str) {
        if let Err(error) = self.tell_ends(id).await {
            let error = code::name(error);
            tracing::debug!(id, %error, "the end of a transaction is not told yet");
        }
    }
}

/// Aborts transactions of this node that have timed out, and applies outcomes that failed before.
/// Runs for as long as the server.
pub async fn run(router: Arc<Router>) {
    let transactions = &router.broker.transactions;
    loop {
        for id in router.transactions.untold() {
            router.try_to_tell_ends(&id).await;
        }
        let now = router.clock.now().wall;
        let left_ms = transactions.next_due().map_or(LOOK_AGAIN_MS, |due| due.since(now));
        let mut pause = Duration::from_millis(left_ms.min(LOOK_AGAIN_MS));
        if !router.transactions.untold().is_empty() {
            pause = pause.min(TRY_AGAIN);
        }
        if !pause.is_zero() {
            // Every event leads to the next round.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = transactions.opened() => {}
                () = router.transactions.ended.notified() => {}
            }
            continue;
        }
        match router.broker.abort_overdue() {
            Ok(None) => {}
            Ok(Some((id, by, seq))) => {
                router.metrics.transaction_ended("timed_out");
                router.transactions.ended(&id, by, false, Vec::new(), seq);
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "R0420 the abort of an overdue transaction is not journalled: it is tried \
                     again; check the disk"
                );
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }
}

impl OpenTransaction {
    /// Applies the commit; idempotent.
    async fn commit(&self, router: &Router) -> Result<(), ResponseError> {
        let deadline = CommitDeadline::begins(&router.clock);
        for (group, offsets) in &self.groups {
            deadline.engine(router.note(group, offsets.clone())).await?;
            report_stored(router, group, None, offsets.clone());
        }
        Ok(())
    }
}
