//! Kinds and ids of topics by name. By itself, names of the templates are reserved for this node's
//! retry and dead-letter topics. In front of a cluster every topic is one of the cluster.
//!
//! The offsets of a topic that was recreated by its name mean other records. The cluster reports
//! topic ids in Metadata. Clients with an older version do not receive them, and some ask seldom,
//! so the sidecar asks on the members' connections.

use std::sync::{Arc, PoisonError};

use kafka_protocol::messages::{ApiVersionsRequest, MetadataResponse};
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::model::{GroupId, RetryPair, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::topics::metadata::question;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError};

/// The first Metadata version with topic ids.
pub(super) const IDS_SINCE: i16 = 10;
/// Shortest interval between Metadata requests for a topic while its members send heartbeats.
pub(in crate::route) const WHILE_CONSUMED_MS: u64 = 30_000;
/// Shortest interval when members join, since they all join at once.
pub(in crate::route) const AT_JOIN_MS: u64 = 1_000;

/// The kind of a topic of this node, and its partitions.
#[derive(Clone, Debug)]
pub(in crate::route) enum TopicKind {
    /// A topic with records that clients or the mover wrote.
    Local(Arc<Topic>),
    /// The dead-letter topic of a group; `None` while there are no dead letters.
    DeadLetters(Option<Arc<Topic>>),
}

/// The receiver of the records of a Produce.
#[derive(Clone, Debug)]
pub(in crate::route) enum ProduceTarget {
    /// The engine: the topic is a retry topic, so each record is a nack.
    Nacks(RetryPair),
    Topic(TopicKind),
}

impl TopicKind {
    /// The number of partitions that a client may request.
    pub(in crate::route) fn partitions(&self) -> i32 {
        match self {
            Self::Local(topic) => i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
            Self::DeadLetters(..) => 1,
        }
    }
}

impl Router {
    /// The topic of this node with that name; `None`: it does not exist.
    pub(in crate::route) fn place(&self, name: &TopicName) -> Option<TopicKind> {
        let is_off = |pair: RetryPair| !self.has_retry_topic(&pair.group);
        if self.upstream.is_some() || self.names.retry_pair(name).is_some_and(is_off) {
            return None;
        }
        let found = self.broker.topics.find(name);
        if let Some(topic) = found.filter(|topic| !topic.dead_letters) {
            return Some(TopicKind::Local(topic));
        }
        if !self.names.is_dead_letters(name) {
            return None;
        }
        let id = self.names.topic_id(name);
        Some(TopicKind::DeadLetters(self.broker.topics.dead_letters(name, id)))
    }

    /// [`Router::place`] for an API that answers with an error.
    pub(in crate::route) fn known(&self, name: &TopicName) -> Result<TopicKind, ResponseError> {
        self.place(name).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    /// A topic that clients may change: of this node, and no dead-letter topic.
    pub(in crate::route) fn changeable(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        match self.place(name) {
            None => Err(BrokerError::UnknownTopicOrPartition),
            Some(TopicKind::Local(topic)) => Ok(topic),
            Some(TopicKind::DeadLetters(_)) => Err(BrokerError::Policy {
                name: name.to_string(),
                why: "it holds the dead letters of a group, in one partition; whether and how many \
                      of them are kept is set in the configuration file (retry.dead_letters)",
            }),
        }
    }

    /// The receiver of the records of a Produce. A nack needs READ on its group.
    pub(in crate::route) fn target_for(
        &self,
        conn: &Conn,
        name: &TopicName,
    ) -> Result<ProduceTarget, ResponseError> {
        match self.retry_pair(name) {
            Some(of) if self.upstream.is_some() && conn.may_read(&of.group) != Some(true) => {
                self.names.disown(&of);
                Err(ResponseError::TopicAuthorizationFailed)
            }
            Some(pair) => Ok(ProduceTarget::Nacks(pair)),
            None => self.known(name).map(ProduceTarget::Topic),
        }
    }

    /// The owner of the retry topic with that name, if its group has retry topics.
    pub(in crate::route) fn retry_pair(&self, name: &TopicName) -> Option<RetryPair> {
        self.names.retry_pair(name).filter(|pair| self.has_retry_topic(&pair.group))
    }

    /// The group of the retry topic with that name.
    pub(in crate::route) fn retry_group(&self, name: &TopicName) -> Option<GroupId> {
        self.retry_pair(name).map(|pair| pair.group)
    }

    /// Whether the group has retry topics: `retry.delivery` is not off.
    pub(in crate::route) fn has_retry_topic(&self, group: &GroupId) -> bool {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).of(group).has_retries
    }

    /// The topic's id in Metadata.
    pub(in crate::route) fn id_of(&self, name: &TopicName, place: &TopicKind) -> Uuid {
        match place {
            TopicKind::Local(topic) => topic.id,
            TopicKind::DeadLetters(..) => self.names.topic_id(name),
        }
    }

    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        if self.upstream.is_some() {
            return self.topic_ids.names(std::iter::once(id)).pop().flatten();
        }
        self.broker.topics.name_of(id).or_else(|| self.names.name_of(id))
    }

    /// The name of a topic that a request names or, since Fetch 13 and Produce 13, identifies.
    pub(in crate::route) fn named(
        &self,
        name: &TopicName,
        id: Uuid,
    ) -> Result<TopicName, BrokerError> {
        if name.as_str().is_empty() && !id.is_nil() {
            return self.name_of(id).ok_or(BrokerError::UnknownTopicId);
        }
        Ok(name.clone())
    }

    /// Learns topic ids from a cluster's Metadata. On return the engine knows of recreated topics,
    /// so that no failure in one comes first.
    pub(in crate::route) async fn told(&self, response: &MetadataResponse) {
        let now = self.clock.now().mono;
        for topic in response.topics.iter().filter(|topic| topic.error_code == 0) {
            let Some(name) = topic.name.as_ref().map(topic_of) else { continue };
            if let Some(pair) = self.retry_pair(&name) {
                self.topics_behind.note_partitions(&pair, topic.partitions.len());
            }
            if topic.topic_id.is_nil() {
                continue;
            }
            self.topic_ids.is_asked(&name, now);
            if !self.topic_ids.is_another(&name, topic.topic_id) {
                continue;
            }
            tracing::info!(topic = %name, "the cluster has made this topic anew");
            self.is_gone(&name).await;
        }
    }

    /// Asks for topic ids of the member's topics that are due, on the member's connection. No topic
    /// is created, and the member needs DESCRIBE.
    pub(in crate::route) async fn look_at_ids(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        topics: Vec<TopicName>,
        every_ms: u64,
    ) -> Result<(), UpstreamError> {
        let due = self.topic_ids.due(topics, self.clock.now().mono, every_ms);
        if due.is_empty() || !tells_ids(conn, link, head).await? {
            return Ok(());
        }
        let told = link.call_at(Api::Metadata, IDS_SINCE, head, &question(&due)).await?;
        self.told(&told).await;
        Ok(())
    }

    /// Removes all state of a deleted topic; a topic with the same name later is another one.
    ///
    /// The calls are made before this returns; the future only waits for the engine.
    pub(in crate::route) fn is_gone(&self, topic: &TopicName) -> impl Future<Output = ()> + use<> {
        self.origins.forget(topic);
        self.positions.forget(topic);
        self.watched_topic_gone(topic);
        self.lose_behind(topic);
        self.transactions.topic_gone(topic);
        let (told, topic) = (self.engine.topic_gone(topic), topic.clone());
        async move {
            if let Err(error) = told.await {
                tracing::warn!(
                    %topic, %error,
                    "R0421 the deletion of a topic could not be journalled: a new topic by its \
                     name gets its retries; check the disk"
                );
            }
        }
    }
}

/// Whether the broker of the connection reports topic ids. Clients send ApiVersions on their first
/// connection, and not all do so on others.
pub(super) async fn tells_ids(
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
) -> Result<bool, UpstreamError> {
    if conn.metadata_max().is_none() {
        let asked = ApiVersionsRequest::default();
        let told = link.call_at(Api::ApiVersions, 0, head, &asked).await?;
        conn.learn_versions(&told.api_keys);
    }
    Ok(conn.metadata_max() >= Some(IDS_SINCE))
}
