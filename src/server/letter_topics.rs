//! Reads the dead-letter topics of the cluster behind: the engine's dead letters follow them,
//! whoever wrote them.
//!
//! For a group without dead letters only the topic is looked for, once a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::engine::{EngineError, ReadLetters, is_letter};
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::upstream::{OwnLinks, ReadAnswer, TopicRead, Upstream, UpstreamError, WriteError};
use crate::wire::ResponseError;

/// Pause between two rounds; a written batch ends it.
const REST: Duration = Duration::from_millis(500);
/// Time between two reads of a topic without news.
const IDLE: Duration = Duration::from_secs(5);
/// Looks in a row after which a topic that had dead letters is gone. A broker may lag behind the
/// others for a moment.
const UNKNOWN_MAX: u32 = 5;
/// Time between two looks for a topic that is not there.
const ABSENT: Duration = Duration::from_mins(1);
/// Topics that are read in one round beside those of blocked entries.
const OTHERS_MAX: usize = 64;
/// Longest time of one question.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rounds that leave out a topic that could not be read.
const SKIPS: u32 = 10;

/// The reading task, which runs for as long as the server does.
struct LetterTopics {
    router: Arc<Router>,
    links: OwnLinks,
    topics: BTreeMap<GroupId, FollowedTopic>,
}

/// A dead-letter topic, as far as the cluster has told of it.
#[derive(Debug, Default)]
struct FollowedTopic {
    /// The leader of its partition.
    leader: Option<i32>,
    /// Time of the next read, as nobody asks for an earlier one.
    next_at: Duration,
    has_failed: bool,
    /// Rounds that leave the topic out, so that others are read meanwhile.
    skips: u32,
    /// Looks in a row that found no topic.
    unknown: u32,
    /// The topic has more than one partition, which was logged.
    is_wide: bool,
}

#[derive(Debug, thiserror::Error)]
enum LetterError {
    #[error(transparent)]
    Here(#[from] EngineError),
    #[error(transparent)]
    There(#[from] WriteError),
    #[error(transparent)]
    Link(#[from] UpstreamError),
    #[error(
        "the cluster does not let this sidecar read it ({0:?}): allow the user of \
             upstream.sasl to READ and DESCRIBE it"
    )]
    Answer(ResponseError),
}

impl LetterError {
    /// The cluster is not ready yet, as after a change of leaders.
    fn is_passing(&self) -> bool {
        match self {
            Self::There(error) => error.is_passing(),
            Self::Here(_) | Self::Link(_) | Self::Answer(_) => false,
        }
    }
}

/// Reads for as long as the server runs. Without a cluster the task does nothing.
pub(super) async fn run(router: Arc<Router>) {
    let Some(upstream) = &router.upstream else { return };
    let links = OwnLinks::default();
    let mut topics = LetterTopics { router: Arc::clone(&router), links, topics: BTreeMap::new() };
    loop {
        topics.round(upstream).await;
        tokio::select! {
            () = tokio::time::sleep(REST) => {}
            () = router.engine.letters_wanted() => {}
        }
    }
}

impl LetterTopics {
    /// Reads the topics of groups with blocked entries, and each other one now and then.
    async fn round(&mut self, upstream: &Upstream) {
        let blocked: BTreeSet<GroupId> =
            self.router.engine.groups_blocked().await.into_iter().collect();
        self.router.engine.keep_letter_troubles(&blocked);
        let now = self.router.clock.elapsed();
        let others = self.groups().into_iter().filter(|group| !blocked.contains(group));
        let others = others.filter(|group| self.is_due(group, now)).take(OTHERS_MAX);
        let others: Vec<GroupId> = others.collect();
        for group in blocked.iter().chain(&others) {
            let is_blocked = blocked.contains(group);
            let topic = self.topics.entry(group.clone()).or_default();
            topic.skips = topic.skips.saturating_sub(1);
            if topic.skips == 0 {
                let read = tokio::time::timeout(PATIENCE, self.read(upstream, group)).await;
                let read = read.unwrap_or(Err(UpstreamError::TooSlow.into()));
                self.note((group, is_blocked), read);
            }
        }
        let is_stopped = self.router.engine.count_letter_troubles() > 0;
        self.router.metrics.set_degraded("dead_letters_waiting", is_stopped);
    }

    fn is_due(&self, group: &GroupId, now: Duration) -> bool {
        self.topics.get(group).is_none_or(|topic| topic.next_at <= now)
    }

    /// Groups with dead letters, with members here, or whose dead-letter topic a client asked for.
    fn groups(&self) -> BTreeSet<GroupId> {
        let router = &self.router;
        let known = router.engine.dead_letter_topics().into_iter().map(|(topic, _)| topic);
        let topics = known.chain(router.topics_behind.letters_opened());
        let groups = topics.filter_map(|topic| router.names.group_of(&topic));
        let policies = router.policies.read().unwrap_or_else(PoisonError::into_inner);
        let here = router.members.groups().into_iter();
        groups.chain(here.filter(|group| policies.of(group).has_retries)).collect()
    }

    /// Notes the end of a read. Without blocked entries nobody waits for the topic.
    fn note(&mut self, (group, is_blocked): (&GroupId, bool), read: Result<(), LetterError>) {
        let topic = self.topics.entry(group.clone()).or_default();
        let is_seldom = topic.unknown > 0 || read.is_err() && !is_blocked;
        let pause = if is_seldom { ABSENT } else { IDLE };
        topic.next_at = self.router.clock.elapsed().saturating_add(pause);
        let had_failed = std::mem::replace(&mut topic.has_failed, read.is_err() && is_blocked);
        let engine = &self.router.engine;
        match read {
            Ok(()) if had_failed => {
                engine.set_letter_trouble(group, None);
            }
            Ok(()) => {}
            Err(error) => {
                topic.leader = None;
                if !error.is_passing() {
                    topic.skips = SKIPS;
                }
                if !is_blocked || error.is_passing() {
                    tracing::debug!(%group, %error, "dead letters are not read now");
                } else if engine.set_letter_trouble(group, Some(error.to_string())) {
                    tracing::warn!(
                        %group, %error,
                        "R0216 the dead-letter topic of a group cannot be read: exhausted records \
                         wait here; correct what `error` names"
                    );
                }
            }
        }
    }

    /// Reads a topic to its end.
    async fn read(&mut self, upstream: &Upstream, group: &GroupId) -> Result<(), LetterError> {
        let topic = self.router.names.dead_letter_topic(group);
        let since = self.router.engine.count_letter_batches();
        loop {
            let Some(leader) = self.leader(upstream, (group, &topic), since).await? else {
                return Ok(());
            };
            let from = self.router.engine.letters_end(&topic);
            let of = (leader, &topic, from);
            match upstream.read_log(&mut self.links, of).await? {
                ReadAnswer::Read(read) => {
                    let is_end = read.is_end();
                    self.take((group, &topic), read, since).await?;
                    if is_end {
                        return Ok(());
                    }
                }
                ReadAnswer::OutOfRange => {
                    let (start, end) =
                        upstream.log_bounds(&mut self.links, (leader, &topic)).await?;
                    if end < from {
                        tracing::warn!(
                            %group, %topic, end, from,
                            "R0224 the dead-letter topic was made anew or cut off in the cluster: \
                             its dead letters are read again"
                        );
                        self.router.engine.forget_letters(group).await?;
                    } else {
                        self.take((group, &topic), TopicRead::before(start), since).await?;
                    }
                }
                ReadAnswer::Refused(
                    error @ (ResponseError::TopicAuthorizationFailed
                    | ResponseError::ClusterAuthorizationFailed),
                ) => return Err(LetterError::Answer(error)),
                ReadAnswer::Refused(error) => {
                    return Err(WriteError::Topic { topic, error }.into());
                }
            }
        }
    }

    async fn take(
        &mut self,
        (group, topic): (&GroupId, &TopicName),
        read: TopicRead,
        since: u64,
    ) -> Result<(), LetterError> {
        let is_end = read.is_end();
        let TopicRead { mut records, next, start, .. } = read;
        records.retain(|(offset, record)| {
            let is_kept = is_letter(record);
            if !is_kept {
                tracing::warn!(
                    %group, %topic, offset,
                    "R0414 a record of the dead-letter topic is too large to be listed"
                );
            }
            is_kept
        });
        let engine = &self.router.engine;
        let read = ReadLetters { group: group.clone(), records, next, is_end, since };
        engine.take_letters(read).await?;
        if engine.letter_bounds(topic).is_some_and(|known| known.start < start) {
            engine.letters_deleted(topic, start).await?;
        }
        Ok(())
    }

    /// The leader of the topic's partition; `None`: the cluster has no such topic.
    async fn leader(
        &mut self,
        upstream: &Upstream,
        (group, topic): (&GroupId, &TopicName),
        since: u64,
    ) -> Result<Option<i32>, LetterError> {
        if let Some(leader) = self.topics.get(group).and_then(|topic| topic.leader) {
            return Ok(Some(leader));
        }
        let seen = upstream.see_topic(&mut self.links, topic).await?;
        match seen.error {
            None => {}
            Some(ResponseError::UnknownTopicOrPartition) => {
                let next = self.router.engine.letters_end(topic);
                let followed = self.topics.entry(group.clone()).or_default();
                followed.unknown = followed.unknown.saturating_add(1);
                if next > 0 && followed.unknown < UNKNOWN_MAX {
                    let error = ResponseError::UnknownTopicOrPartition;
                    return Err(WriteError::Topic { topic: topic.clone(), error }.into());
                }
                // The first dead letter makes the topic. Those of a topic that was deleted stay
                // until then.
                let (group, records) = (group.clone(), Vec::new());
                let read = ReadLetters { group, records, next, is_end: true, since };
                self.router.engine.take_letters(read).await?;
                return Ok(None);
            }
            Some(error @ ResponseError::TopicAuthorizationFailed) => {
                return Err(LetterError::Answer(error));
            }
            Some(error) => return Err(WriteError::Topic { topic: topic.clone(), error }.into()),
        }
        self.check_id(upstream, (group, topic)).await?;
        let known = self.topics.entry(group.clone()).or_default();
        known.unknown = 0;
        if seen.leaders.len() > 1 && !std::mem::replace(&mut known.is_wide, true) {
            tracing::warn!(
                %group, %topic, partitions = seen.leaders.len(),
                "R0222 a dead-letter topic has more than one partition: dead letters are written \
                 to partition 0, and those in others are not listed"
            );
        }
        known.leader = seen.leader(0);
        let error = ResponseError::LeaderNotAvailable;
        let leader = known.leader.map(Some);
        leader.ok_or_else(|| WriteError::Topic { topic: topic.clone(), error }.into())
    }

    /// Forgets the dead letters of a former topic with that name.
    async fn check_id(
        &mut self,
        upstream: &Upstream,
        (group, topic): (&GroupId, &TopicName),
    ) -> Result<(), LetterError> {
        let Some(id) = upstream.topic_id(&mut self.links, topic).await? else { return Ok(()) };
        let engine = &self.router.engine;
        match engine.letter_topic_id(topic)? {
            Some(known) if known == id => return Ok(()),
            Some(_) => {
                tracing::warn!(
                    %group, %topic,
                    "R0224 the dead-letter topic was made anew in the cluster: the dead letters \
                     of the former topic are deleted here as well"
                );
                engine.forget_letters(group).await?;
            }
            None => {}
        }
        engine.set_letter_topic_id(topic, id).await?;
        Ok(())
    }
}
