//! Writes due retries and dead letters into their topics in the cluster behind.
//!
//! A batch whose fate is unknown is sent again as it was, so that its broker recognises it. Only a
//! restart in between repeats it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{ReleaseBatch, ReleaseOutcome, ReleaseTarget};
use crate::route::Router;
use crate::upstream::{FailureKind, Failures, TopicWriter, Upstream, WriteError};
use crate::wire::ResponseError;

/// Batches that are written at once, each of another partition.
pub(super) const WRITERS: usize = 4;
/// Pause between attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
/// Attempts to write dead letters before the writer is free for other batches, about 12 s. The
/// topic is read to its end before they are sent again.
const LETTER_ATTEMPTS_MAX: u32 = 8;
/// Attempts in a row that find no topic, after which it is lost. A broker may lag behind the
/// others for a moment.
const UNKNOWN_MAX: u32 = 5;

/// Writes batches for as long as the server runs. A stop waits for the end of an attempt, so that
/// no retry is written and not noted.
pub(super) async fn run(router: Arc<Router>, mut stopped: watch::Receiver<bool>) {
    let Some(upstream) = &router.upstream else { return };
    let (mut retries, mut letters) = (TopicWriter::of_retries(), TopicWriter::default());
    loop {
        let batch = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            batch = router.engine.next_release() => batch,
        };
        let writer = match &batch.target {
            ReleaseTarget::Retries(..) => &mut retries,
            ReleaseTarget::Letters(_) => &mut letters,
        };
        let outcome = write(&router, upstream, (writer, &stopped), &batch).await;
        router.engine.release_ended(batch, outcome);
    }
}

async fn write(
    router: &Router,
    upstream: &Upstream,
    (writer, stopped): (&mut TopicWriter, &watch::Receiver<bool>),
    batch: &ReleaseBatch,
) -> ReleaseOutcome {
    let ReleaseBatch { topic, records, .. } = batch;
    let partition = batch.partition();
    if let ReleaseTarget::Retries(pair, _) = &batch.target
        && let Some(why) = router.endangered_retry(pair, records).await
    {
        return ReleaseOutcome::Refused(why);
    }
    let (mut failures, mut unknown) = (Failures::default(), 0);
    loop {
        let now = router.clock.now().wall;
        let error = match writer.write(upstream, topic, partition, records, now).await {
            Ok(Some(base)) => {
                note_trouble(router, batch, None);
                return ReleaseOutcome::Written { base };
            }
            // The records lie there at an unknown offset. A second copy of a retry is better than
            // none; dead letters are looked for in their topic.
            Ok(None) => return ReleaseOutcome::Later,
            Err(error) if error.kind() == FailureKind::Refused => {
                return ReleaseOutcome::Refused(error.to_string());
            }
            Err(error) => error,
        };
        note_trouble(router, batch, Some(&error));
        // Before this attempt there was no other one, so the cluster has none of the records.
        let is_denied = error.kind() == FailureKind::Denied && failures.count() == 0;
        if *stopped.borrow() {
            return ReleaseOutcome::Later;
        }
        unknown = if is_unknown(&error) { unknown + 1 } else { 0 };
        if let ReleaseTarget::Retries(pair, _) = &batch.target {
            if unknown >= UNKNOWN_MAX {
                router.retry_topic_lost(pair);
                return ReleaseOutcome::Later;
            }
            if failures.count() == 0 && !error.is_passing() {
                tracing::warn!(
                    group = %pair.group, %topic, partition, %error,
                    "R0432 due retries cannot be written into their topic and wait: correct what \
                     `error` names"
                );
            }
        }
        if is_denied {
            return ReleaseOutcome::Denied(error.to_string());
        }
        let is_letters = matches!(batch.target, ReleaseTarget::Letters(_));
        if is_letters && failures.count() >= LETTER_ATTEMPTS_MAX {
            return ReleaseOutcome::Later;
        }
        tokio::time::sleep(failures.add(PAUSE_FIRST, PAUSE_MOST)).await;
    }
}

/// Notes whether dead letters reach their topic.
fn note_trouble(router: &Router, batch: &ReleaseBatch, error: Option<&WriteError>) {
    let ReleaseTarget::Letters(group) = &batch.target else { return };
    if error.is_some_and(|error| error.is_passing() || error.is_pause()) {
        return;
    }
    let is_news = router.engine.set_letter_trouble(group, error.map(ToString::to_string));
    let topic = &batch.topic;
    match error {
        Some(error) if is_news => tracing::warn!(
            %group, %topic, %error,
            "R0216 dead letters cannot be written into their topic and wait here: correct what \
             `error` names"
        ),
        None if is_news => tracing::info!(%group, %topic, "dead letters go on"),
        _ => {}
    }
}

fn is_unknown(error: &WriteError) -> bool {
    matches!(error, WriteError::Topic { error: ResponseError::UnknownTopicOrPartition, .. })
}
