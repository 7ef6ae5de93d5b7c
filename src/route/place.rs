//! The kind of topic a name means. A name that matches a template is ours, unless another owner
//! has a topic by it (`conflict.rs`).

use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::wire::ResponseError;

/// Where a topic lives.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Partitions of this cluster.
    Local(Arc<Topic>),
    /// The retry topic of a group: one private partition per member.
    Retry(GroupId),
    /// The dead letters of a group; `None` while there are none.
    DeadLetters(Option<Arc<Topic>>),
}

impl Router {
    /// The place of a name; `None` when no such topic exists.
    pub(super) fn place(&self, name: &TopicName) -> Option<Place> {
        if let Some(group) = self.names.group_of_retry(name) {
            return self.has_lane(&group).then_some(Place::Retry(group));
        }
        if self.names.is_dead_letters(name) {
            let id = self.names.topic_id(name);
            return match self.broker.topics.dead_letters(name, id, false) {
                Ok(topic) => Some(Place::DeadLetters(topic)),
                Err(error) => {
                    tracing::warn!(topic = %name, %error, "dead letters cannot be opened");
                    Some(Place::DeadLetters(None))
                }
            };
        }
        // In front of a cluster there are no topics of this one.
        let local = self.upstream.is_none().then(|| self.broker.topics.find(name)).flatten();
        local.map(Place::Local)
    }

    /// Whether a retry or dead-letter topic is meant.
    pub(super) fn is_own(&self, name: &TopicName) -> bool {
        matches!(self.place(name), Some(Place::Retry(_) | Place::DeadLetters(_)))
    }

    /// Whether its records are a cluster's.
    pub(super) fn is_of_cluster(&self, name: &TopicName) -> bool {
        self.upstream.is_some() && !self.is_own(name)
    }

    /// A topic that may be changed: one of this cluster, and none of a retry's.
    pub(super) fn changeable(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        let why = match self.place(name) {
            None => return Err(BrokerError::UnknownTopicOrPartition),
            Some(Place::Local(topic)) => return Ok(topic),
            Some(Place::Retry(_)) => {
                "it is the retry topic of a group, with one partition and no log; when and how \
                 often its records come back is set in the configuration file (retry, groups)"
            }
            Some(Place::DeadLetters(_)) => {
                "it holds the dead letters of a group, in one partition; whether and how many of \
                 them are kept is set in the configuration file (retry.dead_letters)"
            }
        };
        Err(BrokerError::Policy { name: name.to_string(), why })
    }

    /// The place of a name, for this client: what the cluster does not let it READ is refused.
    pub(super) fn place_for(&self, conn: &Conn, name: &TopicName) -> Result<Place, ResponseError> {
        let denied = |group| conn.may_read(&group) != Some(true);
        if self.upstream.is_some() && self.names.group_of(name).is_some_and(denied) {
            return Err(ResponseError::TopicAuthorizationFailed);
        }
        self.list_node(conn);
        self.place(name).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    /// Whether the group has a retry topic: `retry.lane` says so, and nobody else has its name.
    pub(super) fn has_lane(&self, group: &GroupId) -> bool {
        self.lane_is_on(group)
            && (self.names.conflicts() == 0
                || !self.names.is_conflict(&self.names.retry_topic(group)))
    }

    /// Whether `retry.lane` gives the group a retry topic.
    pub(super) fn lane_is_on(&self, group: &GroupId) -> bool {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).of(group).lane
    }

    /// The topic's id as Metadata tells it.
    pub(super) fn id_of(&self, name: &TopicName, place: &Place) -> Uuid {
        match place {
            Place::Local(topic) => topic.id,
            Place::Retry(_) | Place::DeadLetters(..) => self.names.topic_id(name),
        }
    }

    /// The name behind a topic id.
    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        self.broker.topics.name_of(id).or_else(|| self.names.name_of(id))
    }

    /// Name or id of a request (by id since Fetch 13, Produce 13) → the topic's name.
    pub(super) fn named(&self, name: &TopicName, id: Uuid) -> Result<TopicName, BrokerError> {
        if name.as_str().is_empty() && !id.is_nil() {
            return self.name_of(id).ok_or(BrokerError::UnknownTopicId);
        }
        Ok(self.names.canonical(name))
    }
}

impl Place {
    /// The partitions a client may ask for.
    pub(super) fn partitions(&self) -> i32 {
        match self {
            Self::Local(topic) => i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
            Self::Retry(_) | Self::DeadLetters(..) => 1,
        }
    }
}
