//! Deletes records of the cluster behind that nobody needs any more: retries that their group
//! committed past a day ago, settled dead letters, and those past their retention.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::EngineError;
use crate::model::{MonoMs, TopicName};
use crate::route::Router;
use crate::route::topics::retry_topics::TrimMarks;
use crate::server::housekeeping::{oldest_letter, oldest_settled};
use crate::upstream::{FailureKind, OwnLinks, Upstream, WriteError};

/// Time between two looks at the topics.
const INTERVAL_MS: u64 = 60_000;
/// Pause between two looks at the clock.
const REST: Duration = Duration::from_secs(1);

/// The deleting task, which runs for as long as the server does.
struct TopicTrimming {
    router: Arc<Router>,
    links: OwnLinks,
    marks: TrimMarks,
    /// Topics whose records the sidecar may not delete.
    denied: BTreeSet<TopicName>,
}

/// Deletes for as long as the server runs. Without a cluster the task does nothing.
pub(super) async fn run(router: Arc<Router>) {
    let Some(upstream) = &router.upstream else { return };
    let mut trimming = TopicTrimming {
        router: Arc::clone(&router),
        links: OwnLinks::default(),
        marks: TrimMarks::default(),
        denied: BTreeSet::new(),
    };
    let mut last: Option<MonoMs> = None;
    loop {
        let now = router.clock.now().mono;
        if last.is_none_or(|last| INTERVAL_MS <= now.since(last)) {
            last = Some(now);
            trimming.trim_retries(upstream, now).await;
            if let Err(error) = trimming.trim_letters(upstream).await {
                tracing::debug!(%error, "no dead letters are deleted now");
            }
        }
        tokio::time::sleep(REST).await;
    }
}

impl TopicTrimming {
    async fn trim_retries(&mut self, upstream: &Upstream, now: MonoMs) {
        for (topic, partition, committed) in self.router.engine.retry_commits().await {
            let end = self.marks.note((topic.clone(), partition), now, committed);
            if let Some(end) = end.filter(|end| *end > 0) {
                self.delete(upstream, (&topic, partition), end).await;
            }
        }
    }

    async fn trim_letters(&mut self, upstream: &Upstream) -> Result<(), EngineError> {
        let router = Arc::clone(&self.router);
        let engine = &router.engine;
        for (topic, _) in engine.dead_letter_topics() {
            let Some(group) = router.names.group_of(&topic) else { continue };
            let end = engine.settled_end(&topic, oldest_settled(&router)).await?;
            if let Some(end) = end
                && self.delete(upstream, (&topic, 0), end).await
            {
                engine.letters_deleted(&topic, end).await?;
            }
            let Some(oldest) = oldest_letter(&router, &group) else { continue };
            let end = engine.expired_end(&topic, oldest).await?;
            if let Some(end) = end
                && self.delete(upstream, (&topic, 0), end).await
            {
                let letters = engine.letters_expired(&topic, end).await?;
                tracing::info!(%group, letters, "retention removed dead letters");
            }
        }
        Ok(())
    }

    /// Deletes the records of a partition before an offset; false: they are still there.
    async fn delete(
        &mut self,
        upstream: &Upstream,
        (topic, partition): (&TopicName, i32),
        end: i64,
    ) -> bool {
        let deleted = upstream.delete_records(&mut self.links, (topic, partition), end).await;
        let Err(error) = deleted else {
            tracing::debug!(%topic, partition, end, "records were deleted in the cluster");
            return true;
        };
        if error.kind() == FailureKind::Denied && self.denied.insert(topic.clone()) {
            tracing::warn!(
                %topic, %error,
                "R0223 records that nobody needs any more cannot be deleted, and the topic grows: \
                 allow the user of upstream.sasl to DELETE it"
            );
        }
        // The records are gone already, with those of a former topic.
        is_gone(&error)
    }
}

fn is_gone(error: &WriteError) -> bool {
    use crate::wire::ResponseError::{OffsetOutOfRange, UnknownTopicOrPartition};
    matches!(error, WriteError::Topic { error: OffsetOutOfRange | UnknownTopicOrPartition, .. })
}
