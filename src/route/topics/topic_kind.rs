//! Topic kinds by name. A name that matches a template is reserved for this sidecar, unless another
//! owner has such a topic (`name_conflict.rs`).

use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::wire::ResponseError;

/// The kind of a topic, and its owner or partitions.
#[derive(Clone, Debug)]
pub(in crate::route) enum TopicKind {
    /// A topic of this node.
    Local(Arc<Topic>),
    /// The retry topic of a group: one private partition for each member. It stores no record: a
    /// nack becomes an entry of the engine.
    Retry(GroupId),
    /// The dead-letter topic of a group; `None` while there are no dead letters.
    DeadLetters(Option<Arc<Topic>>),
}

impl Router {
    /// The topic kind of a name; `None`: the topic does not exist.
    pub(in crate::route) fn place(&self, name: &TopicName) -> Option<TopicKind> {
        if let Some(group) = self.names.group_of_retry(name) {
            if !self.has_lane(&group) {
                return None;
            }
            return match self.upstream {
                Some(_) if self.config.retries_behind => None,
                Some(_) => Some(TopicKind::Retry(group)),
                None => self.broker.topics.find(name).map(TopicKind::Local),
            };
        }
        if self.names.is_dead_letters(name) {
            let id = self.names.topic_id(name);
            return match self.broker.topics.dead_letters(name, id, false) {
                Ok(topic) => Some(TopicKind::DeadLetters(topic)),
                Err(error) => {
                    tracing::warn!(
                        topic = %name, %error,
                        "R0414 dead letters cannot be read: their topic is refused; check the disk"
                    );
                    Some(TopicKind::DeadLetters(None))
                }
            };
        }
        // In front of a cluster this node has no topics of its own.
        let local = self.upstream.is_none().then(|| self.broker.topics.find(name)).flatten();
        local.map(TopicKind::Local)
    }

    /// Whether the name is that of a retry or dead-letter topic.
    pub(in crate::route) fn is_own(&self, name: &TopicName) -> bool {
        matches!(self.place(name), Some(TopicKind::Retry(_) | TopicKind::DeadLetters(_)))
    }

    /// Whether the topic belongs to the upstream cluster.
    pub(in crate::route) fn is_of_cluster(&self, name: &TopicName) -> bool {
        self.upstream.is_some() && !self.is_own(name)
    }

    /// A topic that clients may change: of this node, and neither a retry nor a dead-letter topic.
    pub(in crate::route) fn changeable(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        let why = match self.place(name) {
            None => return Err(BrokerError::UnknownTopicOrPartition),
            Some(TopicKind::Local(topic)) => return Ok(topic),
            Some(TopicKind::Retry(_)) => {
                "it is the retry topic of a group, with one partition and no log; when and how \
                 often its records come back is set in the configuration file (retry, groups)"
            }
            Some(TopicKind::DeadLetters(_)) => {
                "it holds the dead letters of a group, in one partition; whether and how many of \
                 them are kept is set in the configuration file (retry.dead_letters)"
            }
        };
        Err(BrokerError::Policy { name: name.to_string(), why })
    }

    /// The topic kind of a name for this client. An error: the cluster does not let it READ the
    /// group.
    pub(in crate::route) fn place_for(
        &self,
        conn: &Conn,
        name: &TopicName,
    ) -> Result<TopicKind, ResponseError> {
        let denied = |group| conn.may_read(&group) != Some(true);
        if self.upstream.is_some() && self.names.group_of(name).is_some_and(denied) {
            return Err(ResponseError::TopicAuthorizationFailed);
        }
        self.list_node(conn);
        self.place(name).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    /// [`Router::place_for`] for a producer: its records to a retry topic are nacks.
    pub(in crate::route) fn target_for(
        &self,
        conn: &Conn,
        name: &TopicName,
    ) -> Result<TopicKind, ResponseError> {
        if let Some(group) = self.group_behind(name) {
            let may_read = conn.may_read(&group) == Some(true);
            let denied = ResponseError::TopicAuthorizationFailed;
            return if may_read { Ok(TopicKind::Retry(group)) } else { Err(denied) };
        }
        match self.group_served_here(name) {
            Some(group) => Ok(TopicKind::Retry(group)),
            None => self.place_for(conn, name),
        }
    }

    /// Whether each member of the group reads a private partition of its retry topic.
    pub(in crate::route) fn has_lane_by_member(&self, group: &GroupId) -> bool {
        self.has_private_lanes() && self.has_lane(group)
    }

    /// A topic that no detector watches.
    pub(in crate::route) fn is_unwatched(&self, name: &TopicName) -> bool {
        match self.upstream {
            Some(_) if !self.config.retries_behind => self.names.is_ours(name),
            _ => self.names.is_dead_letters(name),
        }
    }

    /// Whether the group has a retry topic: `retry.delivery` is not off, and its name is free.
    pub(in crate::route) fn has_lane(&self, group: &GroupId) -> bool {
        self.lane_is_on(group)
            && (self.names.conflicts() == 0
                || !self.names.is_conflict(&self.names.retry_topic(group)))
    }

    pub(super) fn lane_is_on(&self, group: &GroupId) -> bool {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).of(group).lane
    }

    /// The topic's id in Metadata.
    pub(in crate::route) fn id_of(&self, name: &TopicName, place: &TopicKind) -> Uuid {
        match place {
            TopicKind::Local(topic) => topic.id,
            TopicKind::Retry(_) | TopicKind::DeadLetters(..) => self.names.topic_id(name),
        }
    }

    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        let ours = self.broker.topics.name_of(id).or_else(|| self.names.name_of(id));
        if ours.is_some() || !self.config.retries_behind {
            return ours;
        }
        self.topic_ids.names(std::iter::once(id)).pop().flatten()
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

/// Partitions of a retry topic: each member reads its own deliveries in partition 0.
pub(in crate::route) const RETRY_PARTITIONS: i32 = 1;

impl TopicKind {
    /// The number of partitions that a client may request.
    pub(in crate::route) fn partitions(&self) -> i32 {
        match self {
            Self::Local(topic) => i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
            Self::Retry(_) => RETRY_PARTITIONS,
            Self::DeadLetters(..) => 1,
        }
    }
}
