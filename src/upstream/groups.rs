//! Groups of the cluster, asked with the sidecar's own credentials: committed offsets, and the
//! topics that members subscribe to.

use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};

use crate::model::{GroupId, TopicName};
use crate::upstream::writer::wire_text;
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::assignment::Subscription;
use crate::wire::{Api, ResponseError};

/// All of these are served by Kafka 2.1 to 4.x.
const FIND_COORDINATOR: i16 = 2;
const OFFSET_FETCH: i16 = 5;
const DESCRIBE_GROUPS: i16 = 2;
/// Served since Kafka 4.0, as groups by KIP-848 are.
const CONSUMER_GROUP_DESCRIBE: i16 = 0;
const STABLE: &str = "Stable";

#[derive(Debug, thiserror::Error)]
pub enum GroupLookupError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The coordinator does not answer about the group.
    #[error("the cluster does not answer about the group: {0:?}")]
    Group(ResponseError),
}

/// The node id of a group's coordinator.
#[derive(Clone, Copy, Debug)]
pub struct Coordinator(i32);

impl Upstream {
    /// The group's committed offsets in partitions `0..partitions` of a topic; `None`: it has none.
    pub async fn committed(
        &self,
        links: &mut OwnLinks,
        (group, node): (&GroupId, Coordinator),
        (topic, partitions): (&TopicName, i32),
    ) -> Result<Vec<Option<i64>>, GroupLookupError> {
        let mut asked = OffsetFetchRequestTopic::default();
        asked.name = wire_text(topic.as_str()).into();
        asked.partition_indexes = (0..partitions).collect();
        let mut request = OffsetFetchRequest::default();
        request.group_id = wire_text(group.as_str()).into();
        request.topics = Some(vec![asked]);
        let api = (Api::OffsetFetch, OFFSET_FETCH);
        let told: OffsetFetchResponse = links.call(self, Some(node.0), api, &request).await?;
        check(told.error_code)?;
        let known = told.topics.iter().flat_map(|topic| &topic.partitions);
        let of = |index| {
            let mut known = known.clone().filter(|one| one.partition_index == index);
            let known = known.next().map(|one| {
                check(one.error_code)?;
                Ok(Some(one.committed_offset).filter(|offset| *offset >= 0))
            });
            known.unwrap_or(Ok(None))
        };
        (0..partitions).map(of).collect()
    }

    /// Whether a member of the group subscribes to the topic by its name.
    pub async fn subscribes(
        &self,
        links: &mut OwnLinks,
        (group, node): (&GroupId, Coordinator),
        topic: &TopicName,
    ) -> Result<bool, GroupLookupError> {
        let request =
            DescribeGroupsRequest::default().with_groups(vec![wire_text(group.as_str()).into()]);
        let api = (Api::DescribeGroups, DESCRIBE_GROUPS);
        let told: DescribeGroupsResponse = links.call(self, Some(node.0), api, &request).await?;
        let classic = told.groups.first().filter(|told| told.group_state.as_str() == STABLE);
        if let Some(classic) = classic {
            check(classic.error_code)?;
            let known = classic.members.iter();
            let mut known = known.filter_map(|one| Subscription::parse(&one.member_metadata).ok());
            return Ok(known.any(|known| known.topics.contains(topic)));
        }
        if links.newest(self, Some(node.0), Api::ConsumerGroupDescribe).await?.is_none() {
            return Ok(false);
        }
        let request = ConsumerGroupDescribeRequest::default()
            .with_group_ids(vec![wire_text(group.as_str()).into()]);
        let api = (Api::ConsumerGroupDescribe, CONSUMER_GROUP_DESCRIBE);
        let told: ConsumerGroupDescribeResponse =
            links.call(self, Some(node.0), api, &request).await?;
        let members = told.groups.iter().flat_map(|group| &group.members);
        let mut names = members.flat_map(|member| &member.subscribed_topic_names);
        Ok(names.any(|name| name.as_str() == topic.as_str()))
    }

    /// The broker that coordinates the group now.
    pub async fn coordinator(
        &self,
        links: &mut OwnLinks,
        group: &GroupId,
    ) -> Result<Coordinator, GroupLookupError> {
        let request = FindCoordinatorRequest::default().with_key(wire_text(group.as_str()));
        let api = (Api::FindCoordinator, FIND_COORDINATOR);
        let found: FindCoordinatorResponse = links.call(self, None, api, &request).await?;
        check(found.error_code)?;
        Ok(Coordinator(found.node_id.0))
    }
}

fn check(code: i16) -> Result<(), GroupLookupError> {
    ResponseError::try_from_code(code).map_or(Ok(()), |error| Err(GroupLookupError::Group(error)))
}
