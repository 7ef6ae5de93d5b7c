//! Copies dead letters into the topics of the cluster behind (`names.dead_letters`).
//!
//! ```text
//! dead letter, durable here ──▶ batch ──▶ Produce, acks=all ──▶ cursor, durable here
//!                                ▲  not stored: after a pause, repeated │
//!                                └──────────────────────────────────────┘
//! ```
//! **Invariant:** the cursor passes a dead letter only when every replica in sync of the cluster
//! has it, or when it is written down as refused.
//!
//! The entry is settled by the local dead letter, before the cluster has it. So the engine waits
//! for no network, and a cluster that is away for days costs disk only. A crash repeats at most the
//! letters between an acknowledgement and its cursor. Lists, jobs and redrives rest on the local
//! dead letters; the cluster's records stay for other readers whatever becomes of those.

mod batch;
mod statuses;
mod topic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use batch::{ForwardBatch, partition_of};
pub(super) use statuses::{ForwardStatus, ForwardStatuses};
use topic::ForwardedTopic;

use crate::engine::{DeadLetter, EngineError, ForwardProgress, REFUSED_MAX};
use crate::journal::Bounds;
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::upstream::{FailureKind, TopicWriter, Upstream, WriteError};

/// Pause after a round without work.
const REST: Duration = Duration::from_millis(500);
/// Bytes of dead letters in one batch: below the smallest usual `max.message.bytes`, 1 MiB. A
/// larger dead letter is sent by itself.
const BATCH_BYTES: usize = 512 << 10;

/// The forwarding task, which runs for as long as the server does.
struct Forwarder {
    router: Arc<Router>,
    statuses: ForwardStatuses,
    writer: TopicWriter,
    topics: BTreeMap<TopicName, ForwardedTopic>,
}

/// The reason why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error(transparent)]
    Here(#[from] EngineError),
    #[error(transparent)]
    There(#[from] WriteError),
}

/// Reads the cursors before new dead letters arrive, and returns the task that runs for as long as
/// the server does. Without a cluster the task does nothing.
pub(super) fn begin(
    router: &Arc<Router>,
    statuses: &ForwardStatuses,
) -> impl Future<Output = ()> + use<> {
    let mut forwarder = Forwarder {
        router: Arc::clone(router),
        statuses: statuses.clone(),
        writer: TopicWriter::default(),
        topics: BTreeMap::new(),
    };
    for (source, bounds) in router.engine.dead_letter_topics() {
        let target = forwarder.target(&source, bounds);
        forwarder.topics.extend(target.map(|target| (source, target)));
    }
    async move {
        while forwarder.router.upstream.is_some() {
            if !forwarder.round().await {
                tokio::time::sleep(REST).await;
            }
        }
    }
}

impl Forwarder {
    /// Visits every topic once; returns whether anything was sent.
    async fn round(&mut self) -> bool {
        let mut moved = false;
        let mut current = BTreeMap::new();
        for (source, bounds) in self.router.engine.dead_letter_topics() {
            let Some(mut target) = self.target(&source, bounds) else { continue };
            match self.step(&source, bounds, &mut target).await {
                Ok(step_moved) => moved |= step_moved,
                Err(ForwardError::There(error)) => {
                    let metrics = &self.router.metrics;
                    metrics.dead_letters_not_forwarded(target.group.as_str(), &error.word());
                    target.record_failure(&error, self.router.clock.elapsed());
                }
                Err(ForwardError::Here(error)) => {
                    unreadable(&source, &error);
                }
            }
            current.insert(target.group.clone(), status_of(&target, bounds));
            self.topics.insert(source, target);
        }
        self.statuses.replace(current);
        self.router.metrics.set_degraded("dead_letters_waiting", self.statuses.count_stopped() > 0);
        moved
    }

    /// The target of a topic, if it has dead letters.
    fn target(&mut self, source: &TopicName, bounds: Bounds) -> Option<ForwardedTopic> {
        let cached = self.topics.remove(source);
        let group = match &cached {
            Some(target) => target.group.clone(),
            None if bounds.start < bounds.next => self.group_of(source, bounds)?,
            None => return None,
        };
        let topic = self.router.names.dead_letter_topic(&group);
        match cached {
            Some(target) if target.topic == topic => Some(target),
            _ => match self.router.engine.forwarded(source) {
                Ok(cursor) => Some(ForwardedTopic::new(group, topic, cursor, bounds.next)),
                Err(error) => {
                    unreadable(source, &error);
                    None
                }
            },
        }
    }

    /// The group of a dead-letter topic: as its first dead letter says, or else as the topic's name
    /// says.
    fn group_of(&self, source: &TopicName, bounds: Bounds) -> Option<GroupId> {
        let first = self.router.engine.letters(source, bounds.start, 1).ok()?;
        let named = first.letters.into_iter().find_map(|letter| Some(letter.entry?.group));
        named.or_else(|| self.router.names.group_of(source))
    }

    /// Takes the next step for a topic; returns whether another one may follow at once.
    async fn step(
        &mut self,
        source: &TopicName,
        bounds: Bounds,
        target: &mut ForwardedTopic,
    ) -> Result<bool, ForwardError> {
        let router = Arc::clone(&self.router);
        let Some(upstream) = &router.upstream else { return Ok(false) };
        let now = router.clock.elapsed();
        let mut moved = false;
        // A refused dead letter that fails again must not hold up the later ones.
        let mut attempt = Ok(());
        if target.may_try(now) {
            if target.is_refused_due(now) {
                attempt = self.try_refused(upstream, source, target).await;
                target.record_refused_attempt(now, attempt.is_ok());
            }
            if target.cursor.next.max(bounds.start) < bounds.visible_end {
                if target.cursor.is_full() {
                    target.stop_full(now);
                } else {
                    self.send(upstream, source, target).await?;
                    moved = true;
                }
            }
        }
        attempt.map(|()| moved)
    }

    /// Sends the batch in flight, or the next one.
    async fn send(
        &mut self,
        upstream: &Upstream,
        source: &TopicName,
        target: &mut ForwardedTopic,
    ) -> Result<(), ForwardError> {
        let router = Arc::clone(&self.router);
        let letters = router.engine.letters(source, target.cursor.next, BATCH_BYTES)?;
        let mut batch = target.batch.take().unwrap_or_else(|| ForwardBatch::new(&letters));
        let sent = self.send_batch(upstream, target, &mut batch, &letters.letters).await;
        if let Err(error) = sent {
            target.batch = Some(batch);
            return Err(error.into());
        }
        let mut cursor = target.cursor.clone();
        cursor.next = batch.end;
        for (offset, why) in &batch.refused {
            let (group, topic) = (&target.group, &target.topic);
            tracing::warn!(
                %group, %topic, offset, %why,
                "R0217 the cluster refuses a dead letter: it is kept here and tried again every \
                 10 minutes, the next ones go on; change the topic"
            );
            router.metrics.dead_letters_not_forwarded(group.as_str(), "Refused");
            cursor.refuse(*offset, why);
        }
        self.save_cursor(source, target, cursor).await?;
        if !batch.refused.is_empty() {
            target.record_refused_attempt(router.clock.elapsed(), true);
        }
        router.metrics.dead_letters_forwarded(target.group.as_str(), batch.count_stored());
        target.record_success();
        Ok(())
    }

    async fn send_batch(
        &mut self,
        upstream: &Upstream,
        target: &ForwardedTopic,
        batch: &mut ForwardBatch,
        letters: &[DeadLetter],
    ) -> Result<(), WriteError> {
        let topic = &target.topic;
        let partitions = self.writer.partitions(upstream, topic).await?;
        while let Some(request) = batch.next(letters, partitions) {
            if batch.refused.len() + target.cursor.refused.len() >= REFUSED_MAX {
                batch.cut(letters);
                break;
            }
            let partition = request.partition;
            let now = self.router.clock.now().wall;
            match self.writer.write(upstream, topic, partition, &request.records, now).await {
                Ok(_) => batch.record_stored(&request),
                Err(error) if error.kind() == FailureKind::Refused => {
                    batch.refuse(&request, &error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends refused dead letters again. The cursor is saved even if a later one fails; otherwise
    /// the stored ones would be sent once more.
    async fn try_refused(
        &mut self,
        upstream: &Upstream,
        source: &TopicName,
        target: &mut ForwardedTopic,
    ) -> Result<(), ForwardError> {
        let mut cursor = target.cursor.clone();
        let attempt = self.send_refused(upstream, source, target, &mut cursor).await;
        let stored = target.cursor.refused.len() - cursor.refused.len();
        if stored > 0 {
            self.save_cursor(source, target, cursor).await?;
            let stored = u64::try_from(stored).unwrap_or(u64::MAX);
            self.router.metrics.dead_letters_forwarded(target.group.as_str(), stored);
        }
        attempt?;
        if !target.cursor.is_full() {
            target.record_success();
        }
        Ok(())
    }

    /// Sends each refused dead letter by itself and takes a stored one off the list, up to the
    /// first without a verdict.
    async fn send_refused(
        &mut self,
        upstream: &Upstream,
        source: &TopicName,
        target: &ForwardedTopic,
        cursor: &mut ForwardProgress,
    ) -> Result<(), ForwardError> {
        let partitions = self.writer.partitions(upstream, &target.topic).await?;
        for offset in target.cursor.refused.keys() {
            let letters = self.router.engine.letters(source, *offset, 1)?.letters;
            let Some(letter) = letters.into_iter().find(|letter| letter.offset == *offset) else {
                continue;
            };
            let partition = partition_of(&letter, partitions);
            let records = [letter.record];
            let now = self.router.clock.now().wall;
            match self.writer.write(upstream, &target.topic, partition, &records, now).await {
                Ok(_) => {
                    cursor.refused.remove(offset);
                }
                Err(error) if error.kind() == FailureKind::Refused => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Saves the cursor of a target. It counts at once, even if saving fails: records that the
    /// cluster has stored are not sent a second time.
    async fn save_cursor(
        &self,
        source: &TopicName,
        target: &mut ForwardedTopic,
        cursor: ForwardProgress,
    ) -> Result<(), EngineError> {
        target.cursor = cursor;
        self.router.engine.set_forwarded(source, &target.cursor).await
    }
}

fn unreadable(topic: &TopicName, error: &EngineError) {
    tracing::error!(
        %topic, %error,
        "R0414 dead letters cannot be read: none of the topic is forwarded; check the disk"
    );
}

fn status_of(target: &ForwardedTopic, bounds: Bounds) -> ForwardStatus {
    let pending = bounds.visible_end.saturating_sub(target.cursor.next.max(bounds.start));
    ForwardStatus {
        topic: target.topic.clone(),
        pending: u64::try_from(pending).unwrap_or(0),
        refused: u64::try_from(target.cursor.refused.len()).unwrap_or(u64::MAX),
        trouble: target.trouble().map(str::to_owned),
    }
}
