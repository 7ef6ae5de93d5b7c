//! `OffsetDelete` 0 (KIP-496): deletes offsets of topics to which no member of the group
//! subscribes.

use std::collections::BTreeSet;

use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::broker::groups::{MemberSubscription, Occupancy};
use crate::model::{GroupId, TopicName};
use crate::route::Router;
use crate::route::convert::{group_of, topic_of};
use crate::route::topics::topic_names::TopicKind;
use crate::wire::ResponseError;
use crate::wire::assignment::Subscription;

/// The only protocol type whose member metadata is known.
const CONSUMERS: &str = "consumer";

/// The topics to which the members of a group subscribe.
enum SubscribedTopics {
    Names(BTreeSet<TopicName>),
    /// A subscription is unknown or cannot be parsed.
    Unknown,
}

pub(in crate::route) async fn answer(
    router: &Router,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let group = group_of(&request.group_id);
    let mut response = OffsetDeleteResponse::default();
    let subscribed = match subscribed(router, &group) {
        Ok(subscribed) => subscribed,
        Err(error) => {
            response.error_code = error.code();
            return response;
        }
    };
    let mut going = BTreeSet::new();
    for asked in request.topics {
        let name = topic_of(&asked.name);
        let mut topic = OffsetDeleteResponseTopic::default();
        topic.name = asked.name;
        for partition in asked.partitions {
            let mut result = OffsetDeleteResponsePartition::default();
            result.partition_index = partition.partition_index;
            match refused(router, &name, partition.partition_index, &subscribed) {
                Some(error) => result.error_code = error.code(),
                None => {
                    going.insert((name.clone(), partition.partition_index));
                }
            }
            topic.partitions.push(result);
        }
        response.topics.push(topic);
    }
    let goes = |topic: &TopicName, index| going.contains(&(topic.clone(), index));
    let deleted = match router.broker.delete_offsets(&group, goes) {
        Ok(seq) => router.broker.offsets.durable(seq).await.is_ok(),
        Err(_) => false,
    };
    if !deleted {
        response.topics.clear();
        response.error_code = ResponseError::CoordinatorNotAvailable.code();
    }
    response
}

fn refused(
    router: &Router,
    name: &TopicName,
    partition: i32,
    subscribed: &SubscribedTopics,
) -> Option<ResponseError> {
    match router.place(name) {
        None => return Some(ResponseError::UnknownTopicOrPartition),
        Some(place) if !(0..place.partitions()).contains(&partition) => {
            return Some(ResponseError::UnknownTopicOrPartition);
        }
        Some(TopicKind::Local(_) | TopicKind::DeadLetters(_)) => {}
    }
    let is_subscribed = match subscribed {
        SubscribedTopics::Names(names) => names.contains(name),
        SubscribedTopics::Unknown => true,
    };
    is_subscribed.then_some(ResponseError::GroupSubscribedToTopic)
}

fn subscribed(router: &Router, group: &GroupId) -> Result<SubscribedTopics, ResponseError> {
    let groups = &router.broker.groups;
    if !group.is_legal() {
        return Err(ResponseError::InvalidGroupId);
    }
    if !groups.has(group) {
        return Err(ResponseError::GroupIdNotFound);
    }
    if groups.occupancy(group) != Occupancy::Occupied {
        return Ok(SubscribedTopics::Names(BTreeSet::new()));
    }
    let protocol_type = groups.describe(group).and_then(|seen| seen.protocol_type);
    if protocol_type.is_some_and(|kind| kind != CONSUMERS) {
        return Err(ResponseError::NonEmptyGroup);
    }
    let mut names = BTreeSet::new();
    for (_, wanted) in groups.wanted(group) {
        let topics = match wanted {
            MemberSubscription::Topics(topics) => topics,
            MemberSubscription::Metadata(bytes) => match Subscription::parse(&bytes) {
                Ok(subscription) => subscription.topics,
                Err(_) => return Ok(SubscribedTopics::Unknown),
            },
        };
        names.extend(topics.iter().cloned());
    }
    Ok(SubscribedTopics::Names(names))
}
