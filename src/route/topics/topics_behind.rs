//! Retry and dead-letter topics of the cluster behind: each is there before a request that names it
//! passes. The engine releases due retries into a retry topic.

use std::time::Duration;

use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, CreateTopicsRequest, DescribeTopicPartitionsRequest,
    JoinGroupRequest, MetadataRequest,
};

use crate::engine::RetryPartitionLog;
use crate::journal::StreamId;
use crate::model::{GroupId, RetryPair, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::topics::opened_topics::{OpenedTopic, TopicRefusal, TopicTrouble};
use crate::upstream::{
    GroupLookupError, Link, OwnLinks, RetentionDanger, TopicSeen, TopicWriter, Upstream,
    UpstreamError, WriteError,
};
use crate::wire::assignment::Subscription;
use crate::wire::batch::RawRecord;
use crate::wire::{Api, DecodeError, RequestHead, ResponseError, decode};

/// Longest wait for a new topic, the leaders of its partitions and the group's coordinator.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest look for readers.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// Pause between questions to a cluster that is not ready yet.
const PAUSE: Duration = Duration::from_millis(100);

/// Time in which a topic that could not be opened is not tried again.
const REFUSED_MS: u64 = 1_000;

/// Time between looks for readers that are connected elsewhere.
const LOOK: Duration = Duration::from_secs(5);

/// Time between looks at settings that endanger retries.
const SETTINGS_LOOK_MS: u64 = 5_000;

/// Requests that name a topic before its first Fetch or Produce.
const NAMING: &[Api] = &[
    Api::Metadata,
    Api::DescribeTopicPartitions,
    Api::JoinGroup,
    Api::ConsumerGroupHeartbeat,
    Api::CreateTopics,
];

/// A retry topic cannot be opened.
#[derive(Debug, thiserror::Error)]
enum RetryTopicError {
    #[error(transparent)]
    Topic(#[from] WriteError),
    #[error(transparent)]
    Group(#[from] GroupLookupError),
}

impl RetryTopicError {
    /// The cluster is not ready yet: the next attempt may succeed.
    fn is_passing(&self) -> bool {
        match self {
            Self::Topic(WriteError::Upstream(error))
            | Self::Group(GroupLookupError::Upstream(error)) => error.is_late(),
            Self::Topic(WriteError::NotMade { error, .. }) => {
                *error == ResponseError::RequestTimedOut
            }
            Self::Topic(error) => error.is_passing(),
            Self::Group(GroupLookupError::Group(error)) => error.is_retriable(),
        }
    }
}

impl Router {
    /// Opens the retry and dead-letter topics that a request names, before it passes. A topic that
    /// cannot be made gets the cluster's own answer.
    pub(in crate::route) async fn open_named(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
    ) -> Result<(), UpstreamError> {
        if !NAMING.contains(&head.api) || !self.names.may_be_in(&head.body) {
            return Ok(());
        }
        // The handler of the API reports a malformed request.
        let names = named(head).unwrap_or_default();
        if let Some(group) = joined(head) {
            self.names.learn(&group, &names);
        }
        for name in names {
            if self.open_for(&name).is_none() && !self.may_open(conn, link, head, &name).await? {
                continue;
            }
            if self.names.is_dead_letters(&name) {
                self.open_letters(&name).await;
            }
            if let Some(pair) = self.retry_pair(&name) {
                self.open_behind(&pair).await;
                if matches!(head.api, Api::JoinGroup | Api::ConsumerGroupHeartbeat) {
                    // The assigned reader may be connected elsewhere.
                    self.engine.reads_retries(&pair, self.clock.now().mono);
                }
            }
        }
        Ok(())
    }

    /// Whether a client may have the topic made: topics are made with the sidecar's own rights.
    async fn may_open(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        topic: &TopicName,
    ) -> Result<bool, UpstreamError> {
        let Some(group) = self.names.group_of(topic) else { return Ok(false) };
        self.may_read(conn, (link, head), &group).await
    }

    /// Age of the opening of a topic in the cluster, in milliseconds.
    pub(super) fn open_for(&self, topic: &TopicName) -> Option<u64> {
        let retries = || Some(self.topics_behind.opened(&self.retry_pair(topic)?)?.at);
        let at = self.topics_behind.letters_at(topic).or_else(retries)?;
        Some(self.clock.now().mono.since(at))
    }

    /// Whether the retry topic is one of the cluster behind, and not open.
    pub(in crate::route) fn awaits_retry_topic(&self, pair: &RetryPair) -> bool {
        self.upstream.is_some() && self.topics_behind.opened(pair).is_none()
    }

    /// Whether the cluster is not ready yet to open this topic.
    pub(super) fn may_open_soon(&self, topic: &TopicName) -> bool {
        let refused = self.retry_pair(topic).and_then(|pair| self.topics_behind.refused(&pair));
        refused.is_some_and(|(_, is_passing)| is_passing)
    }

    /// Notes that the retry topics among these are read.
    pub(in crate::route) fn note_retry_readers<'a>(
        &self,
        topics: impl Iterator<Item = &'a TopicName>,
    ) {
        for pair in topics.filter_map(|topic| self.retry_pair(topic)) {
            self.engine.reads_retries(&pair, self.clock.now().mono);
        }
    }

    /// The offset that a group goes on from in a retry topic of its own. Without a commit that is
    /// the start: by `auto.offset.reset=latest` the client would skip retries.
    pub(in crate::route) fn first_retry(
        &self,
        group: &GroupId,
        topic: &TopicName,
        offset: i64,
    ) -> i64 {
        let is_bare = offset < 0 && self.retry_group(topic).as_ref() == Some(group);
        if is_bare { 0 } else { offset }
    }

    /// Opens the topics of groups with retries, for as long as the server runs.
    pub async fn open_wanted(&self) {
        let mut links = OwnLinks::default();
        loop {
            for name in self.names.listed() {
                if let Some(pair) = self.retry_pair(&name) {
                    self.open_behind(&pair).await;
                }
            }
            for pair in self.engine.topics_unseen().await {
                self.look_for_readers(&mut links, &pair).await;
            }
            self.metrics.set_degraded("retries_waiting", self.retry_topic_trouble().is_some());
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.topics_behind.wants.notified() => {}
            }
        }
    }

    /// Asks the cluster for commits and members that other ways lead to.
    async fn look_for_readers(&self, links: &mut OwnLinks, pair: &RetryPair) {
        let Some(upstream) = &self.upstream else { return };
        let Some(partitions) = self.topics_behind.partitions(pair) else { return };
        let (topic, group) = (self.names.retry_topic(pair), &pair.group);
        let found = async {
            let of = (group, upstream.coordinator(links, group).await?);
            let committed = upstream.committed(links, of, (&topic, partitions)).await?;
            let is_read = upstream.subscribes(links, of, &topic).await?;
            Ok::<_, GroupLookupError>((committed, is_read))
        };
        let found = tokio::time::timeout(LOOK_PATIENCE, found).await;
        match found.unwrap_or(Err(UpstreamError::TooSlow.into())) {
            Ok((committed, is_read)) => {
                let of =
                    |(index, offset): (i32, Option<i64>)| Some((topic.clone(), index, offset?));
                let news: Vec<_> = (0..).zip(committed).filter_map(of).collect();
                let is_news = |(topic, index, offset): &(TopicName, i32, i64)| {
                    self.positions.differs(group, topic, *index, *offset)
                };
                let news = news.into_iter().filter(is_news).collect();
                if let Err(error) = self.note(group, news).await {
                    tracing::debug!(%group, %error, "commits elsewhere are not noted");
                }
                if is_read {
                    self.engine.reads_retries(pair, self.clock.now().mono);
                }
            }
            Err(error) => tracing::debug!(%group, %error, "readers of a retry topic are not known"),
        }
    }

    /// A retry topic is no more: the retries that were released to it are due again.
    pub fn retry_topic_lost(&self, pair: &RetryPair) {
        self.topics_behind.lose(pair);
        self.engine.serve_topic_behind(pair, Vec::new());
        self.topics_behind.want(pair);
    }

    /// The topic is no more in the cluster: the next request that names it makes it anew.
    pub(super) fn lose_behind(&self, topic: &TopicName) {
        let pair = self.upstream.as_ref().and_then(|_| self.retry_pair(topic));
        if let Some(pair) = pair {
            self.retry_topic_lost(&pair);
        }
        self.topics_behind.lose_letters(topic);
    }

    /// Loses a topic that a broker does not know, unless another answer names it: a broker may lag.
    pub(super) async fn doubt_behind(&self, topic: &TopicName) {
        let Some(upstream) = &self.upstream else { return };
        let seen = upstream.see_topic(&mut OwnLinks::default(), topic).await;
        let is_gone = |seen: TopicSeen| seen.error == Some(ResponseError::UnknownTopicOrPartition);
        if seen.is_ok_and(is_gone) {
            self.topic_ids.forget(topic);
            self.lose_behind(topic);
        }
    }

    /// Why retries wait for an operator, with what to do; one line stands for all topics.
    pub fn retry_topic_trouble(&self) -> Option<String> {
        let troubles = self.topics_behind.troubles(self.clock.now().mono);
        let (pair, trouble) = troubles.first()?;
        let topic = self.names.retry_topic(pair);
        let why = match trouble {
            TopicTrouble::Closed(why) => why.clone(),
            TopicTrouble::Dangerous(danger) => {
                format!("{topic} would delete some by its settings: {}", danger.mending(&topic))
            }
        };
        let more = match troubles.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more topics)"),
        };
        Some(format!("retries waiting: {why}{more}"))
    }

    /// Opens the retry topic of a pair, unless that has failed just now.
    pub(in crate::route) async fn open_behind(&self, pair: &RetryPair) {
        let Some(upstream) = &self.upstream else { return };
        let (topic, group) = (self.names.retry_topic(pair), &pair.group);
        if self.is_settled(pair) || !self.names.is_owner(pair) {
            return;
        }
        let mut links = self.topics_behind.turn(&topic).await;
        if self.is_settled(pair) {
            return;
        }
        let mut writer = TopicWriter::of_new_topics(self.new_partitions(group), PATIENCE);
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let by = (&mut writer, &mut *links);
                match self.look_behind(upstream, by, (group, &topic)).await {
                    Err(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                    found => return found,
                }
            }
        });
        let late = |_| Err(GroupLookupError::from(UpstreamError::TooSlow).into());
        let found = found.await.unwrap_or_else(late);
        let now = self.clock.now().mono;
        match found {
            Ok((number, committed, danger)) => {
                let partitions = i32::try_from(committed.len()).unwrap_or(i32::MAX);
                let log = |committed: Option<i64>| RetryPartitionLog {
                    stream: number,
                    committed: committed.unwrap_or(0),
                };
                self.names.register(pair);
                self.engine.serve_topic_behind(pair, committed.into_iter().map(log).collect());
                warn_of_danger(group, &topic, danger);
                let opened = OpenedTopic {
                    partitions,
                    number,
                    at: now,
                    has_grown: false,
                    danger,
                    settings_at: now,
                };
                self.topics_behind.set_open(pair, opened);
            }
            // A topic that has grown keeps the partitions that are known.
            Err(error) if self.topics_behind.opened(pair).is_some() => {
                tracing::debug!(%group, %topic, %error, "new partitions are not known yet");
            }
            Err(error) => {
                let why = if error.is_passing() {
                    TopicRefusal::Passing
                } else {
                    TopicRefusal::Lasting(error.to_string())
                };
                if !self.topics_behind.is_refused_anew(pair, now, why) {
                    tracing::debug!(%group, %topic, %error, "a retry topic is still not open");
                    return;
                }
                tracing::warn!(
                    %group, %topic, %error,
                    "R0431 the retry topic of a group cannot be opened in the cluster: its retries \
                     wait; create the topic, or allow the user of upstream.sasl to"
                );
            }
        }
    }

    /// The reason why the cluster would delete one of these retries from their topic; `None`: it
    /// keeps them. An operator may have changed the settings, so they are looked at once more.
    pub async fn endangered_retry(
        &self,
        pair: &RetryPair,
        records: &[RawRecord],
    ) -> Option<String> {
        let upstream = self.upstream.as_ref()?;
        let now = self.clock.now();
        let known = self.topics_behind.opened(pair)?;
        known.danger.setting_against(records, now.wall)?;
        let topic = self.names.retry_topic(pair);
        let mut danger = known.danger;
        if now.mono.since(known.settings_at) >= SETTINGS_LOOK_MS {
            let mut links = self.topics_behind.turn(&topic).await;
            let looked = upstream.mend_retry_topic(&mut links, &topic);
            let looked = tokio::time::timeout(LOOK_PATIENCE, looked).await;
            danger = looked.ok().and_then(Result::ok).unwrap_or(danger);
            self.topics_behind.set_danger(pair, danger, now.mono);
        }
        Some(danger.setting_against(records, now.wall)?.refusal(&topic))
    }

    /// Whether the retry topic is open, or could not be opened just now.
    fn is_settled(&self, pair: &RetryPair) -> bool {
        let now = self.clock.now().mono;
        let refused = self.topics_behind.refused(pair);
        self.topics_behind.opened(pair).is_some_and(|topic| !topic.has_grown)
            || refused.is_some_and(|(at, _)| now.since(at) < REFUSED_MS)
    }

    /// Makes a dead-letter topic that is missing: the cluster would make it with settings by which
    /// dead letters are deleted.
    async fn open_letters(&self, topic: &TopicName) {
        let Some(upstream) = &self.upstream else { return };
        if self.topics_behind.letters_at(topic).is_some() {
            return;
        }
        let _turn = self.topics_behind.turn(topic).await;
        let mut writer = TopicWriter::of_new_topics(1, PATIENCE);
        match writer.partitions(upstream, topic).await {
            Ok(_) => self.topics_behind.add_letters(topic, self.clock.now().mono),
            Err(error) => tracing::debug!(%topic, %error, "a dead-letter topic cannot be opened"),
        }
    }

    /// The number of a retry topic, which is made if it does not exist, the group's offset in each
    /// partition, and the danger by its settings.
    async fn look_behind(
        &self,
        upstream: &Upstream,
        (writer, links): (&mut TopicWriter, &mut OwnLinks),
        (group, topic): (&GroupId, &TopicName),
    ) -> Result<(StreamId, Vec<Option<i64>>, RetentionDanger), RetryTopicError> {
        let count = writer.partitions(upstream, topic).await?;
        let id = upstream.topic_id(links, topic).await?;
        let of = (group, upstream.coordinator(links, group).await?);
        let committed = upstream.committed(links, of, (topic, count)).await?;
        // The last question: those before it are repeated until the cluster is ready.
        let danger = upstream.mend_retry_topic(links, topic).await.map_err(WriteError::from)?;
        Ok((self.topics_behind.number(topic, id), committed, danger))
    }
}

fn warn_of_danger(group: &GroupId, topic: &TopicName, danger: RetentionDanger) {
    if danger != RetentionDanger::default() {
        let action = danger.mending(topic);
        tracing::warn!(
            %group, %topic, %action,
            "R0434 the cluster would delete retries from their topic by its settings: those \
             retries wait; run `action`"
        );
    }
}

/// The group whose member names its subscription in a request.
fn joined(head: &RequestHead) -> Option<GroupId> {
    let group = match head.api {
        Api::JoinGroup => decode::<JoinGroupRequest>(head).ok()?.group_id,
        Api::ConsumerGroupHeartbeat => decode::<ConsumerGroupHeartbeatRequest>(head).ok()?.group_id,
        _ => return None,
    };
    Some(group_of(&group))
}

/// The topic names in a request of a naming API.
fn named(head: &RequestHead) -> Result<Vec<TopicName>, DecodeError> {
    Ok(match head.api {
        Api::Metadata => {
            let topics = decode::<MetadataRequest>(head)?.topics.into_iter().flatten();
            topics.filter_map(|topic| topic.name.as_ref().map(topic_of)).collect()
        }
        Api::DescribeTopicPartitions => {
            let topics = decode::<DescribeTopicPartitionsRequest>(head)?.topics;
            topics.iter().map(|topic| topic_of(&topic.name)).collect()
        }
        Api::JoinGroup => {
            let protocols = decode::<JoinGroupRequest>(head)?.protocols;
            let known = protocols.iter().filter_map(|one| Subscription::parse(&one.metadata).ok());
            known.flat_map(|known| known.topics).collect()
        }
        Api::ConsumerGroupHeartbeat => {
            let names = decode::<ConsumerGroupHeartbeatRequest>(head)?.subscribed_topic_names;
            names.iter().flatten().map(topic_of).collect()
        }
        Api::CreateTopics => {
            let topics = decode::<CreateTopicsRequest>(head)?.topics;
            topics.iter().map(|topic| topic_of(&topic.name)).collect()
        }
        _ => Vec::new(),
    })
}
