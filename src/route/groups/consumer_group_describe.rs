//! `ConsumerGroupDescribe` 0–1: epochs, subscriptions, current and target assignments of members.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use uuid::Uuid;

use crate::group::{self, ConsumerDescription, ConsumerMember, PatternMember};
use crate::model::MemberId;
use crate::route::Router;
use crate::route::convert::{group_of, some_text, text, wire_topic};
use crate::route::security::authorized_operations::{self, OF_GROUP};
use crate::route::unique_names::once;
use crate::wire::{RequestHead, ResponseError};

/// KIP-1099: the member type tells the consumer protocol from the classic one.
const MEMBER_TYPE_SINCE: i16 = 1;
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let mut response = ConsumerGroupDescribeResponse::default();
    for group_id in once(request.group_ids, Clone::clone) {
        let id = group_of(&group_id);
        let mut group = match router.broker.groups.describe_consumer(&id) {
            Some(seen) => described(router, head.version, seen),
            None => unknown(),
        };
        group.group_id = group_id;
        let is_told = request.include_authorized_operations && group.error_code == 0;
        group.authorized_operations = authorized_operations::told(is_told, OF_GROUP);
        response.groups.push(group);
    }
    response
}

fn described(router: &Router, version: i16, seen: ConsumerDescription) -> DescribedGroup {
    let mut group = DescribedGroup::default();
    group.group_state = text(&seen.phase.to_string());
    group.group_epoch = seen.state.epoch;
    group.assignment_epoch = seen.state.epoch;
    group.assignor_name = text(&seen.assignor);
    let classic: BTreeSet<MemberId> =
        seen.state.classic.into_iter().map(|one| one.member_id).collect();
    let mut patterns: BTreeMap<MemberId, PatternMember> =
        seen.state.patterns.into_iter().map(|one| (one.member_id.clone(), one)).collect();
    let members = seen.state.members.into_iter().map(|one| {
        let is_classic = classic.contains(&one.member_id);
        let pattern = patterns.remove(&one.member_id);
        let mut shown = member(router, one);
        if let Some(PatternMember { pattern, names, .. }) = pattern {
            shown.subscribed_topic_names = names.iter().map(wire_topic).collect();
            shown.subscribed_topic_regex = some_text(&pattern);
        }
        if version >= MEMBER_TYPE_SINCE {
            shown.member_type = if is_classic { CLASSIC_MEMBER } else { CONSUMER_MEMBER };
        }
        shown
    });
    group.members = members.collect();
    group
}

fn member(router: &Router, seen: ConsumerMember) -> Member {
    let mut member = Member::default();
    member.member_id = text(seen.member_id.as_str());
    member.instance_id = seen.instance_id.as_deref().map(text);
    member.rack_id = seen.rack_id.as_deref().map(text);
    member.member_epoch = seen.epoch;
    member.client_id = text(seen.client_id.as_str());
    member.client_host = text(&seen.client_host);
    member.subscribed_topic_names = seen.topics.iter().map(wire_topic).collect();
    member.assignment = named(router, &seen.assigned);
    member.target_assignment = named(router, &seen.target);
    member
}

/// Deleted topics have no name and are left out, as in Kafka.
fn named(router: &Router, topics: &[group::TopicIdPartitions]) -> Assignment {
    let told = topics.iter().filter_map(|of| {
        let id = Uuid::from_bytes(of.topic.0);
        let mut topic = TopicPartitions::default();
        topic.topic_name = wire_topic(&router.name_of(id)?);
        topic.topic_id = id;
        topic.partitions.clone_from(&of.partitions);
        Some(topic)
    });
    Assignment::default().with_topic_partitions(told.collect())
}

fn unknown() -> DescribedGroup {
    let mut group = DescribedGroup::default();
    group.error_code = ResponseError::GroupIdNotFound.code();
    group.error_message = some_text("there is no such consumer group here");
    group
}
