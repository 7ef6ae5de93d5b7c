//! Sends dead letters to the real cluster (`retry.dead_letters.upstream_topic`).
//!
//! ```text
//! dead letter, durable here ──▶ parcel ──▶ Produce, acks=all ──▶ mark, durable here ──▶ discarded
//!                                 ▲  not taken: after a pause, the same again │
//!                                 └───────────────────────────────────────────┘
//! ```
//! **Invariant:** the mark passes a dead letter only when every replica in sync of the cluster has
//! it, or when it is written down as refused; only what the mark has passed is ever discarded.
//!
//! The entry is settled by the local dead letter, before the cluster has it. So the engine waits
//! for no network, and a cluster that is away for days costs disk only. A crash repeats at most the
//! letters between an acknowledgement and its mark.

mod board;
mod lane;
mod parcel;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub(super) use board::{ForwardStatus, ForwardStatuses};
use lane::ForwardedTopic;
use parcel::{ForwardBatch, partition_of};

use crate::engine::{DeadLetter, EngineError, ForwardProgress, REFUSED_MAX};
use crate::journal::Bounds;
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::upstream::{FailureKind, TopicWriter, Upstream, WriteError};
use crate::wire::names::Templates;

/// Pause after a round without work.
const REST: Duration = Duration::from_millis(500);
/// Bytes of dead letters in one batch: below the smallest usual `max.message.bytes`, 1 MiB. A
/// larger dead letter is sent by itself.
const PARCEL_BYTES: usize = 512 << 10;

/// The forwarding task, which runs for as long as the server does.
struct Forwarder {
    router: Arc<Router>,
    board: ForwardStatuses,
    writer: TopicWriter,
    lanes: BTreeMap<TopicName, ForwardedTopic>,
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
    board: &ForwardStatuses,
) -> impl Future<Output = ()> + use<> {
    let mut forwarder = Forwarder {
        router: Arc::clone(router),
        board: board.clone(),
        writer: TopicWriter::default(),
        lanes: BTreeMap::new(),
    };
    for (source, bounds) in router.engine.dead_letter_topics() {
        let lane = forwarder.lane(&source, bounds);
        forwarder.lanes.extend(lane.map(|lane| (source, lane)));
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
    /// Visits every topic once; returns whether anything was sent or discarded.
    async fn round(&mut self) -> bool {
        let mut moved = false;
        let mut standings = BTreeMap::new();
        let topics = self.router.engine.dead_letter_topics();
        for (source, bounds) in topics {
            let Some(mut lane) = self.lane(&source, bounds) else { continue };
            match self.step(&source, bounds, &mut lane).await {
                Ok(step_moved) => moved |= step_moved,
                Err(ForwardError::There(error)) => {
                    let metrics = &self.router.metrics;
                    metrics.dead_letters_not_forwarded(lane.group.as_str(), &error.word());
                    lane.failed(&error, self.router.clock.elapsed());
                }
                Err(ForwardError::Here(error)) => {
                    unreadable(&source, &error);
                }
            }
            standings.insert(lane.group.clone(), standing(&lane, bounds));
            self.lanes.insert(source, lane);
        }
        self.board.replace(standings);
        self.router.metrics.set_degraded("dead_letters_waiting", self.board.troubled() > 0);
        moved
    }

    /// The lane of a topic, if its dead letters are forwarded.
    fn lane(&mut self, source: &TopicName, bounds: Bounds) -> Option<ForwardedTopic> {
        let known = self.lanes.remove(source);
        let group = match &known {
            Some(lane) => lane.group.clone(),
            None if bounds.start < bounds.next => self.group_of(source, bounds)?,
            None => return None,
        };
        let policies = self.router.policies.read().unwrap_or_else(PoisonError::into_inner);
        let template = policies.of(&group).dead_letters_topic.clone();
        drop(policies);
        let topic = Templates::cluster_topic(&template?, &group);
        match known {
            Some(lane) if lane.topic == topic => Some(lane),
            _ => match self.router.engine.forwarded(source) {
                Ok(mark) => Some(ForwardedTopic::new(group, topic, mark, bounds.next)),
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
        let told = first.letters.into_iter().find_map(|letter| Some(letter.entry?.group));
        told.or_else(|| self.router.names.group_of(source))
    }

    /// Takes the next step for a topic; returns whether another one may follow at once.
    async fn step(
        &mut self,
        source: &TopicName,
        bounds: Bounds,
        lane: &mut ForwardedTopic,
    ) -> Result<bool, ForwardError> {
        let router = Arc::clone(&self.router);
        let Some(upstream) = &router.upstream else { return Ok(false) };
        let now = router.clock.elapsed();
        let mut moved = false;
        // A refused dead letter that fails again must not hold up the later ones.
        let mut tried = Ok(());
        if lane.may_try(now) {
            if lane.is_refused_due(now) {
                tried = self.try_refused(upstream, source, lane).await;
                lane.were_tried(now, tried.is_ok());
            }
            if lane.mark.next.max(bounds.start) < bounds.visible_end {
                if lane.mark.is_full() {
                    lane.is_full(now);
                } else {
                    self.send(upstream, source, lane).await?;
                    moved = true;
                }
            }
        }
        let taken = lane.mark.taken_up_to();
        if bounds.start < taken.min(bounds.visible_end) && lane.is_discard_due(now) {
            let gone = router.engine.discard_forwarded(source, taken).await?;
            lane.discarded(gone, now);
            moved |= gone > 0;
        }
        tried.map(|()| moved)
    }

    /// Sends the batch in flight, or the next one.
    async fn send(
        &mut self,
        upstream: &Upstream,
        source: &TopicName,
        lane: &mut ForwardedTopic,
    ) -> Result<(), ForwardError> {
        let router = Arc::clone(&self.router);
        let letters = router.engine.letters(source, lane.mark.next, PARCEL_BYTES)?;
        let mut parcel = lane.parcel.take().unwrap_or_else(|| ForwardBatch::new(&letters));
        let sent = self.send_parcel(upstream, lane, &mut parcel, &letters.letters).await;
        if let Err(error) = sent {
            lane.parcel = Some(parcel);
            return Err(error.into());
        }
        let mut mark = lane.mark.clone();
        mark.next = parcel.end;
        for (offset, why) in &parcel.refused {
            let (group, topic) = (&lane.group, &lane.topic);
            tracing::warn!(
                %group, %topic, offset, %why,
                "R0217 the cluster refuses a dead letter: it is kept here and tried again every \
                 10 minutes, the next ones go on; change the topic"
            );
            router.metrics.dead_letters_not_forwarded(group.as_str(), "Refused");
            mark.refuse(*offset, why);
        }
        self.mark(source, lane, mark).await?;
        if !parcel.refused.is_empty() {
            lane.were_tried(router.clock.elapsed(), true);
        }
        router.metrics.dead_letters_forwarded(lane.group.as_str(), parcel.count_taken());
        lane.worked();
        Ok(())
    }

    async fn send_parcel(
        &mut self,
        upstream: &Upstream,
        lane: &ForwardedTopic,
        parcel: &mut ForwardBatch,
        letters: &[DeadLetter],
    ) -> Result<(), WriteError> {
        let topic = &lane.topic;
        let partitions = self.writer.partitions(upstream, topic).await?;
        while let Some(piece) = parcel.next(letters, partitions) {
            if parcel.refused.len() + lane.mark.refused.len() >= REFUSED_MAX {
                parcel.cut(letters);
                break;
            }
            let partition = piece.partition;
            match self.writer.write(upstream, topic, partition, &piece.records).await {
                Ok(()) => parcel.taken(&piece),
                Err(error) if error.kind() == FailureKind::Refused => {
                    parcel.refuse(&piece, &error.to_string());
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
        lane: &mut ForwardedTopic,
    ) -> Result<(), ForwardError> {
        let mut mark = lane.mark.clone();
        let tried = self.send_refused(upstream, source, lane, &mut mark).await;
        let taken = lane.mark.refused.len() - mark.refused.len();
        if taken > 0 {
            self.mark(source, lane, mark).await?;
            let taken = u64::try_from(taken).unwrap_or(u64::MAX);
            self.router.metrics.dead_letters_forwarded(lane.group.as_str(), taken);
        }
        tried?;
        if !lane.mark.is_full() {
            lane.worked();
        }
        Ok(())
    }

    /// Sends each refused dead letter by itself and takes a stored one off the list, up to the
    /// first without a verdict.
    async fn send_refused(
        &mut self,
        upstream: &Upstream,
        source: &TopicName,
        lane: &ForwardedTopic,
        mark: &mut ForwardProgress,
    ) -> Result<(), ForwardError> {
        let partitions = self.writer.partitions(upstream, &lane.topic).await?;
        for offset in lane.mark.refused.keys() {
            let letters = self.router.engine.letters(source, *offset, 1)?.letters;
            let Some(letter) = letters.into_iter().find(|letter| letter.offset == *offset) else {
                continue;
            };
            let partition = partition_of(&letter, partitions);
            let records = [letter.record];
            match self.writer.write(upstream, &lane.topic, partition, &records).await {
                Ok(()) => {
                    mark.refused.remove(offset);
                }
                Err(error) if error.kind() == FailureKind::Refused => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Saves the cursor of a lane. It counts at once, even if saving fails: records that the
    /// cluster has stored are not sent a second time.
    async fn mark(
        &self,
        source: &TopicName,
        lane: &mut ForwardedTopic,
        mark: ForwardProgress,
    ) -> Result<(), EngineError> {
        lane.mark = mark;
        self.router.engine.set_forwarded(source, &lane.mark).await
    }
}

fn unreadable(topic: &TopicName, error: &EngineError) {
    tracing::error!(
        %topic, %error,
        "R0414 dead letters cannot be read: none of the topic is forwarded; check the disk"
    );
}

fn standing(lane: &ForwardedTopic, bounds: Bounds) -> ForwardStatus {
    let pending = bounds.visible_end.saturating_sub(lane.mark.next.max(bounds.start));
    ForwardStatus {
        topic: lane.topic.clone(),
        pending: u64::try_from(pending).unwrap_or(0),
        refused: u64::try_from(lane.mark.refused.len()).unwrap_or(u64::MAX),
        trouble: lane.trouble().map(str::to_owned),
    }
}
