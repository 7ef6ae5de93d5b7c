//! Topic kinds by name. By itself, names of the templates are reserved for this node's retry and
//! dead-letter topics. In front of a cluster every topic is one of the cluster.

use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::model::{GroupId, RetryPair, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::wire::ResponseError;

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
        let letters = self.broker.topics.dead_letters(name, id, false).unwrap_or_else(|error| {
            tracing::warn!(
                topic = %name, %error,
                "R0414 dead letters cannot be read: their topic is refused; check the disk"
            );
            None
        });
        Some(TopicKind::DeadLetters(letters))
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
