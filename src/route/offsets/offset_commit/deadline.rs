//! The time bound of one commit.

use std::time::Duration;

use crate::clock::Clock;
use crate::engine::EngineError;
use crate::model::{GroupId, TopicName, TopicPartition};
use crate::route::owner::{OwnerCall, RequestContext};
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// Bound of a commit's wait for the nacks it passes and for the disk.
const COMMIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// The time bound of one commit, for all its waits together. Heartbeats wait behind the commit on
/// the same connection.
pub(in crate::route) struct CommitDeadline<'a> {
    clock: &'a Clock,
    began: Duration,
}

impl<'a> CommitDeadline<'a> {
    pub(in crate::route) fn begins(clock: &'a Clock) -> Self {
        Self { clock, began: clock.elapsed() }
    }

    pub(in crate::route) fn of(at: RequestContext<'a>) -> Self {
        Self { clock: &at.router.clock, began: at.began }
    }

    /// The rest of the time.
    pub(super) fn left(&self) -> Duration {
        COMMIT_WAIT_MAX.saturating_sub(self.clock.elapsed().saturating_sub(self.began))
    }

    /// Refuses a part that is not durable in time. A timeout undoes nothing: the client repeats the
    /// commit, and a repeat changes nothing that the first one did.
    pub(in crate::route) async fn bounds<T>(
        &self,
        part: impl Future<Output = Result<T, ResponseError>>,
    ) -> Result<T, ResponseError> {
        let done = tokio::time::timeout(self.left(), part).await;
        done.unwrap_or(Err(ResponseError::CoordinatorNotAvailable))
    }

    /// Waits for the engine, and maps its error to the error of a commit.
    pub(in crate::route) async fn engine(
        &self,
        answer: impl Future<Output = Result<(), EngineError>>,
    ) -> Result<(), ResponseError> {
        self.bounds(async { answer.await.map_err(|error| code::of_commit(&error)) }).await
    }

    /// Waits for every nack before a commit: first for nacks whose records are read back from the
    /// cluster, then for those in the engine's queue.
    pub(in crate::route) async fn passes_nacks(
        &self,
        router: &Router,
        group: &GroupId,
        commit: impl Iterator<Item = (TopicName, i32, i64)>,
    ) -> Result<(), ResponseError> {
        let passed = async {
            let reading = router.origins.reading();
            if !reading.is_idle() {
                let commit: Vec<_> = router.origin_offsets(commit).collect();
                reading.passed_by(group, &commit).await;
            }
            router.engine.nacks_durable(group).await
        };
        self.engine(passed).await
    }

    /// Waits for the decisions of the group's detector before the cluster behind stores a commit.
    /// The embedded cluster stores it in the log that has the decisions, behind them.
    pub(in crate::route) async fn settled(
        &self,
        call: &OwnerCall<'_>,
        group: &GroupId,
    ) -> Result<(), ResponseError> {
        if !call.is_behind() {
            return Ok(());
        }
        self.engine(call.at.router.engine.settled(group)).await
    }

    /// Makes the withheld records that a commit passes dead letters. A record that is not settled
    /// in time holds the commit back.
    pub(super) async fn settle_withheld(
        &self,
        router: &Router,
        group: &GroupId,
        passing: Vec<(TopicPartition, i64)>,
    ) {
        let settled = router.settle_withheld(group, passing);
        // A late part is no error: the caller looks at the state afterwards.
        let _ = tokio::time::timeout(self.left(), settled).await;
    }
}
