//! Writes due retries into the retry topics of the cluster behind.
//!
//! A batch whose fate is unknown is sent again as it was, so that its broker recognises it. Only a
//! restart in between repeats it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{ReleaseBatch, ReleaseOutcome};
use crate::route::Router;
use crate::upstream::{FailureKind, Failures, TopicWriter, Upstream, WriteError};
use crate::wire::ResponseError;

/// Batches that are written at once, each of another partition.
pub(super) const WRITERS: usize = 4;
/// Pause between attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
/// Attempts in a row that find no topic, after which it is lost. A broker may lag behind the
/// others for a moment.
const UNKNOWN_MAX: u32 = 5;

/// Writes batches for as long as the server runs. A stop waits for the end of an attempt, so that
/// no retry is written and not noted.
pub(super) async fn run(router: Arc<Router>, mut stopped: watch::Receiver<bool>) {
    let Some(upstream) = &router.upstream else { return };
    let mut writer = TopicWriter::of_retries();
    loop {
        let batch = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            batch = router.engine.next_release() => batch,
        };
        let outcome = write(&router, upstream, (&mut writer, &stopped), &batch).await;
        router.engine.release_ended(batch, outcome);
    }
}

async fn write(
    router: &Router,
    upstream: &Upstream,
    (writer, stopped): (&mut TopicWriter, &watch::Receiver<bool>),
    batch: &ReleaseBatch,
) -> ReleaseOutcome {
    let ReleaseBatch { pair, topic, partition, records, .. } = batch;
    let (group, partition) = (&pair.group, partition.index);
    let (mut failures, mut unknown) = (Failures::default(), 0);
    loop {
        let now = router.clock.now().wall;
        let error = match writer.write(upstream, topic, i32::from(partition), records, now).await {
            Ok(Some(base)) => return ReleaseOutcome::Written { base },
            // The records lie there at an unknown offset. A second copy is better than none.
            Ok(None) => return ReleaseOutcome::Later,
            Err(error) if error.kind() == FailureKind::Refused => {
                return ReleaseOutcome::Refused(error.to_string());
            }
            Err(error) => error,
        };
        // Before this attempt there was no other one, so the cluster has none of the records.
        let is_denied = error.kind() == FailureKind::Denied && failures.count() == 0;
        if *stopped.borrow() {
            return ReleaseOutcome::Later;
        }
        unknown = if is_unknown(&error) { unknown + 1 } else { 0 };
        if unknown >= UNKNOWN_MAX {
            router.retry_topic_lost(pair);
            return ReleaseOutcome::Later;
        }
        if failures.count() == 0 && !error.is_passing() {
            tracing::warn!(
                %group, %topic, partition, %error,
                "R0432 due retries cannot be written into their topic and wait: correct what \
                 `error` names"
            );
        }
        if is_denied {
            return ReleaseOutcome::Denied(error.to_string());
        }
        tokio::time::sleep(failures.add(PAUSE_FIRST, PAUSE_MOST)).await;
    }
}

fn is_unknown(error: &WriteError) -> bool {
    matches!(error, WriteError::Topic { error: ResponseError::UnknownTopicOrPartition, .. })
}
