//! Look-ups of brokers and of one topic, by the sidecar's own Metadata requests.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::model::TopicName;
use crate::upstream::{Address, Brokers, OwnLinks, Upstream, UpstreamError, WriteError};
use crate::wire::{Api, ResponseError};

/// The first Metadata that can forbid the creation of topics; Kafka 2.1 and 4.x both serve it.
pub(super) const METADATA: i16 = 4;
/// The first Metadata that tells topic ids (Kafka 2.8).
const METADATA_WITH_ID: i16 = 10;
/// The first Metadata that finds a topic by its id. Each broker that takes a Produce by ids has it.
const METADATA_BY_ID: i16 = 12;
/// Bound of the partitions read; no topic has more.
const PARTITIONS_MAX: usize = 100_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSeen {
    /// The error of the topic, if there is one.
    pub error: Option<ResponseError>,
    /// The broker that creates topics.
    pub controller: Option<i32>,
    /// The leader of each partition, from 0 on; `None`: no leader now.
    pub leaders: Vec<Option<i32>>,
}

/// Result of a look-up of a partition's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderLookup {
    LedBy(i32),
    /// The partition has no leader now, or the broker gave no information.
    Unled,
    /// The broker knows no such partition; it may lag behind the cluster.
    Unknown,
    /// The requester is not authorized.
    Denied,
    /// The partition does not exist.
    Nowhere,
}

impl Upstream {
    /// Looks up a topic without creating it, and learns the addresses of the brokers in the answer.
    pub async fn see_topic(
        &self,
        links: &mut OwnLinks,
        topic: &TopicName,
    ) -> Result<TopicSeen, UpstreamError> {
        self.see_topic_at(links, None, topic).await
    }

    /// The id of a topic; `None`: the cluster is older than topic ids.
    pub async fn topic_id(
        &self,
        links: &mut OwnLinks,
        topic: &TopicName,
    ) -> Result<Option<Uuid>, WriteError> {
        if links.newest(self, None, Api::Metadata).await? < Some(METADATA_WITH_ID) {
            return Ok(None);
        }
        let api = (Api::Metadata, METADATA_WITH_ID);
        let answer: MetadataResponse = links.call(self, None, api, &request(topic)).await?;
        let told = answer.topics.first().ok_or(WriteError::NoAnswer)?;
        match ResponseError::try_from_code(told.error_code) {
            None => Ok(Some(told.topic_id).filter(|id| !id.is_nil())),
            // A broker may know a new topic later than the others.
            Some(error) => Err(WriteError::Topic { topic: topic.clone(), error }),
        }
    }

    /// Looks up topics by their ids. The answer leaves out no id.
    pub async fn see_ids(
        &self,
        ids: impl Iterator<Item = Uuid>,
    ) -> Result<MetadataResponse, UpstreamError> {
        let of = |id| {
            let mut topic = MetadataRequestTopic::default();
            (topic.topic_id, topic.name) = (id, None);
            topic
        };
        let request = MetadataRequest::default().with_topics(Some(ids.map(of).collect()));
        let request = request.with_allow_auto_topic_creation(false);
        let links = self.reading.links(None);
        let mut links = links.lock().await;
        let api = (Api::Metadata, METADATA_BY_ID);
        let answer = links.call(self, None, api, &request).await?;
        self.learn_from(&answer);
        Ok(answer)
    }

    /// Like [`Upstream::see_topic`], from that broker; `None`: from any.
    pub(super) async fn see_topic_at(
        &self,
        links: &mut OwnLinks,
        node: Option<i32>,
        topic: &TopicName,
    ) -> Result<TopicSeen, UpstreamError> {
        let request = request(topic);
        let answer: MetadataResponse =
            links.call(self, node, (Api::Metadata, METADATA), &request).await?;
        self.learn_from(&answer);
        Ok(topic_in(&answer))
    }

    /// Looks up all brokers and the cluster id, and learns the brokers' addresses.
    pub async fn see_brokers(&self) -> Result<(Brokers, Option<String>), UpstreamError> {
        let mut request = MetadataRequest::default();
        request.topics = Some(Vec::new());
        let mut links = OwnLinks::default();
        let answer: MetadataResponse =
            links.call(self, None, (Api::Metadata, METADATA), &request).await?;
        let brokers: Brokers = broker_addresses(&answer).collect();
        self.learn_all(brokers.clone());
        Ok((brokers, answer.cluster_id.map(|id| id.to_string())))
    }

    fn learn_from(&self, answer: &MetadataResponse) {
        for (node, address) in broker_addresses(answer) {
            self.learn(node, address);
        }
    }
}

impl TopicSeen {
    /// `None`: no leader now, or no such partition.
    pub fn leader(&self, partition: i32) -> Option<i32> {
        let index = usize::try_from(partition).ok()?;
        self.leaders.get(index).copied().flatten()
    }

    /// Like [`TopicSeen::leader`], with the reason why there is no leader.
    pub(super) fn leader_lookup(&self, partition: i32) -> LeaderLookup {
        if let Some(leader) = self.leader(partition) {
            return LeaderLookup::LedBy(leader);
        }
        let count = self.leaders.len();
        match self.error {
            None if usize::try_from(partition).is_ok_and(|index| index < count) => {
                LeaderLookup::Unled
            }
            None | Some(ResponseError::UnknownTopicOrPartition) => LeaderLookup::Unknown,
            Some(ResponseError::TopicAuthorizationFailed) => LeaderLookup::Denied,
            Some(ResponseError::InvalidTopicException) => LeaderLookup::Nowhere,
            Some(_) => LeaderLookup::Unled,
        }
    }
}

fn broker_addresses(answer: &MetadataResponse) -> impl Iterator<Item = (i32, Address)> {
    answer
        .brokers
        .iter()
        .filter_map(|broker| Some((broker.node_id.0, Address::of_wire(&broker.host, broker.port)?)))
}

fn request(topic: &TopicName) -> MetadataRequest {
    let mut topic_request = MetadataRequestTopic::default();
    topic_request.name = Some(StrBytes::from_string(topic.as_str().to_owned()).into());
    let mut request = MetadataRequest::default();
    request.topics = Some(vec![topic_request]);
    request.allow_auto_topic_creation = false;
    request
}

fn topic_in(answer: &MetadataResponse) -> TopicSeen {
    let mut seen = TopicSeen {
        controller: Some(answer.controller_id.0).filter(|node| *node >= 0),
        ..TopicSeen::default()
    };
    let Some(topic) = answer.topics.first() else {
        seen.error = Some(ResponseError::UnknownTopicOrPartition);
        return seen;
    };
    seen.error = ResponseError::try_from_code(topic.error_code);
    for partition in topic.partitions.iter().take(PARTITIONS_MAX) {
        let Ok(index) = usize::try_from(partition.partition_index) else { continue };
        if index < topic.partitions.len() && index < PARTITIONS_MAX {
            let leaders = seen.leaders.len().max(index + 1);
            seen.leaders.resize(leaders, None);
            if let Some(leader) = seen.leaders.get_mut(index) {
                *leader = Some(partition.leader_id.0).filter(|node| *node >= 0);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::LeaderLookup::{LedBy, Unknown, Unled};
    use super::*;
    use crate::wire::ResponseError as E;

    #[test]
    fn only_an_invalid_topic_name_is_certainly_nowhere() {
        let leader_lookup = |error| TopicSeen { error, ..TopicSeen::default() }.leader_lookup(0);
        assert_eq!(leader_lookup(Some(E::InvalidTopicException)), LeaderLookup::Nowhere);
        assert_eq!(leader_lookup(Some(E::TopicAuthorizationFailed)), LeaderLookup::Denied);
        for error in [None, Some(E::UnknownTopicOrPartition)] {
            assert_eq!(leader_lookup(error), Unknown, "{error:?}");
        }
        for error in [E::UnknownServerError, E::LeaderNotAvailable, E::RequestTimedOut] {
            assert_eq!(leader_lookup(Some(error)), Unled, "{error}");
        }
        let seen = TopicSeen { leaders: vec![Some(7), None], ..TopicSeen::default() };
        let leader_lookup = [0, 1, 2, -1].map(|partition| seen.leader_lookup(partition));
        assert_eq!(leader_lookup, [LedBy(7), Unled, Unknown, Unknown]);
    }
}
