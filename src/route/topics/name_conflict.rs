//! Name conflicts: the cluster has a topic under a reserved name of this sidecar. Requests for such
//! a topic are relayed; the sidecar's own topic is not served.
//!
//! The sidecar asks the cluster on the client's connection: when a request first names a reserved
//! name, on every Metadata that names one, and when a member joins. A topic may be created or
//! deleted at any time, also by a client without the sidecar.

use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AlterConfigsRequest, ConsumerGroupHeartbeatRequest,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, JoinGroupRequest,
    MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
    TopicName as WireTopic, TxnOffsetCommitRequest,
};

use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::topics::metadata::question;
use crate::upstream::{Link, UpstreamError};
use crate::wire::assignment::{Assignment, Subscription};
use crate::wire::names::SidecarTopic;
use crate::wire::{Api, DecodeError, RequestHead, ResponseError, decode};

/// The lowest Metadata version with `allow_auto_topic_creation`.
const METADATA: i16 = 4;

/// APIs that name topics and are read in front of a cluster.
const NAMING: &[Api] = &[
    Api::Metadata,
    Api::JoinGroup,
    Api::SyncGroup,
    Api::OffsetCommit,
    Api::OffsetFetch,
    Api::ConsumerGroupHeartbeat,
    Api::AddPartitionsToTxn,
    Api::TxnOffsetCommit,
    Api::CreateTopics,
    Api::CreatePartitions,
    Api::DeleteTopics,
    Api::AlterConfigs,
    Api::IncrementalAlterConfigs,
    Api::DescribeConfigs,
    Api::DescribeTopicPartitions,
];

impl Router {
    /// Asks the cluster whether it has the reserved names of a request, before the request is
    /// answered. A known answer is used again, except for Metadata.
    pub(super) async fn look_for_conflicts(
        &self,
        link: &mut Link,
        head: &RequestHead,
    ) -> Result<(), UpstreamError> {
        if !NAMING.contains(&head.api) || !self.names.may_be_in(&head.body) {
            return Ok(());
        }
        // The handler of the API reports a malformed request.
        let mut names = named(head).unwrap_or_default();
        let asks_again = head.api == Api::Metadata;
        names
            .retain(|name| self.would_serve(name) && (asks_again || !self.names.is_compared(name)));
        self.compare_names(link, head, names).await
    }

    /// Asks the cluster whether it has the two topics of a group.
    pub(in crate::route) async fn look_for_conflicts_of(
        &self,
        link: &mut Link,
        head: &RequestHead,
        group: &GroupId,
    ) -> Result<(), UpstreamError> {
        let mut names = vec![self.names.retry_topic(group), self.names.dead_letter_topic(group)];
        names.retain(|name| self.would_serve(name));
        self.compare_names(link, head, names).await
    }

    /// Records that the cluster has these topics; reserved names among them are in conflict.
    pub(super) fn exist(&self, topics: impl Iterator<Item = TopicName>) {
        for name in topics.filter(|name| self.would_serve(name)) {
            self.learn_conflict(&name, true);
        }
    }

    /// Records whether a reserved name is in conflict.
    pub(super) fn learn_conflict(&self, name: &TopicName, exists: bool) {
        if self.names.spelled(name).is_none() {
            return;
        }
        let owner = if self.upstream.is_some() { "the cluster" } else { "this node" };
        if self.names.learn_conflict(name, exists, owner) {
            self.detectors.change_owners();
        }
    }

    /// Finds topics of this node that were created before their names became reserved.
    pub fn find_local_conflicts(&self) {
        let topics = self.broker.topics.list().into_iter();
        self.exist(topics.filter(|topic| !topic.dead_letters).map(|topic| topic.name.clone()));
    }

    /// Whether the sidecar serves the name unless it is in conflict.
    fn would_serve(&self, name: &TopicName) -> bool {
        match self.names.spelled(name) {
            // A topic of this node by that name is the retry topic.
            Some((SidecarTopic::Retry(_), group)) => {
                self.has_private_lanes() && self.lane_is_on(&group)
            }
            Some((SidecarTopic::Dlq(_), _)) => true,
            None => false,
        }
    }

    async fn compare_names(
        &self,
        link: &mut Link,
        head: &RequestHead,
        names: Vec<TopicName>,
    ) -> Result<(), UpstreamError> {
        if names.is_empty() {
            return Ok(());
        }
        let told = link.call_at(Api::Metadata, METADATA, head, &question(&names)).await?;
        for topic in told.topics {
            let Some(name) = topic.name.as_ref().map(topic_of).filter(|name| names.contains(name))
            else {
                continue;
            };
            match ResponseError::try_from_code(topic.error_code) {
                None | Some(ResponseError::LeaderNotAvailable) => self.learn_conflict(&name, true),
                Some(ResponseError::UnknownTopicOrPartition) => self.learn_conflict(&name, false),
                // Without DESCRIBE the cluster does not tell whether the topic exists.
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The topic names in a request of an API that is read in front of a cluster. Topic ids are
/// skipped: an id of the cluster never equals one of ours.
pub(super) fn named(head: &RequestHead) -> Result<Vec<TopicName>, DecodeError> {
    let names: Vec<WireTopic> = match head.api {
        Api::Metadata => {
            let topics = decode::<MetadataRequest>(head)?.topics.into_iter().flatten();
            topics.filter_map(|topic| topic.name).collect()
        }
        Api::OffsetCommit => {
            decode::<OffsetCommitRequest>(head)?.topics.into_iter().map(|t| t.name).collect()
        }
        Api::OffsetFetch => {
            let request = decode::<OffsetFetchRequest>(head)?;
            let single = request.topics.into_iter().flatten().map(|topic| topic.name);
            let groups = request.groups.into_iter().filter_map(|group| group.topics).flatten();
            single.chain(groups.map(|topic| topic.name)).collect()
        }
        Api::ConsumerGroupHeartbeat => decode::<ConsumerGroupHeartbeatRequest>(head)?
            .subscribed_topic_names
            .unwrap_or_default(),
        Api::AddPartitionsToTxn => {
            let topics = decode::<AddPartitionsToTxnRequest>(head)?.v3_and_below_topics;
            topics.into_iter().map(|topic| topic.name).collect()
        }
        Api::TxnOffsetCommit => {
            decode::<TxnOffsetCommitRequest>(head)?.topics.into_iter().map(|t| t.name).collect()
        }
        Api::JoinGroup => return subscribed(head),
        Api::SyncGroup => return assigned(head),
        _ => return named_by_tools(head),
    };
    Ok(names.iter().map(topic_of).collect())
}

/// The topic names in a request of an administration tool.
fn named_by_tools(head: &RequestHead) -> Result<Vec<TopicName>, DecodeError> {
    let of_resource = |name: &str| TopicName::new(name);
    Ok(match head.api {
        Api::CreateTopics => {
            let topics = decode::<CreateTopicsRequest>(head)?.topics;
            topics.iter().map(|topic| topic_of(&topic.name)).collect()
        }
        Api::CreatePartitions => {
            let topics = decode::<CreatePartitionsRequest>(head)?.topics;
            topics.iter().map(|topic| topic_of(&topic.name)).collect()
        }
        Api::DeleteTopics => {
            let request = decode::<DeleteTopicsRequest>(head)?;
            let named = request.topics.iter().filter_map(|topic| topic.name.as_ref());
            named.chain(&request.topic_names).map(topic_of).collect()
        }
        Api::AlterConfigs => {
            let resources = decode::<AlterConfigsRequest>(head)?.resources;
            resources.iter().map(|one| of_resource(&one.resource_name)).collect()
        }
        Api::IncrementalAlterConfigs => {
            let resources = decode::<IncrementalAlterConfigsRequest>(head)?.resources;
            resources.iter().map(|one| of_resource(&one.resource_name)).collect()
        }
        Api::DescribeConfigs => {
            let resources = decode::<DescribeConfigsRequest>(head)?.resources;
            resources.iter().map(|one| of_resource(&one.resource_name)).collect()
        }
        Api::DescribeTopicPartitions => {
            let topics = decode::<DescribeTopicPartitionsRequest>(head)?.topics;
            topics.iter().map(|topic| topic_of(&topic.name)).collect()
        }
        _ => Vec::new(),
    })
}

fn subscribed(head: &RequestHead) -> Result<Vec<TopicName>, DecodeError> {
    let protocols = decode::<JoinGroupRequest>(head)?.protocols;
    let known = protocols.iter().filter_map(|one| Subscription::parse(&one.metadata).ok());
    Ok(known.flat_map(|known| known.topics).collect())
}

fn assigned(head: &RequestHead) -> Result<Vec<TopicName>, DecodeError> {
    let given = decode::<SyncGroupRequest>(head)?.assignments;
    let known = given.iter().filter_map(|one| Assignment::parse(&one.assignment).ok());
    Ok(known.flat_map(|known| known.partitions).map(|held| held.topic).collect())
}
