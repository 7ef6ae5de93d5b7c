//! `DescribeGroups` 0–6: members with their subscription and assignment, as in Kafka.

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use crate::group::{Description, MemberDescription};
use crate::route::Router;
use crate::route::convert::{group_of, some_text, text};
use crate::route::security::authorized_operations::{self, OF_GROUP};
use crate::route::unique_names::once;
use crate::wire::{RequestHead, ResponseError};

/// KIP-1043: an unknown group is an error; before, it was described as dead.
const UNKNOWN_IS_ERROR_SINCE: i16 = 6;

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let mut response = DescribeGroupsResponse::default();
    for group_id in once(request.groups, Clone::clone) {
        let id = group_of(&group_id);
        let mut group = match router.broker.groups.describe(&id) {
            Some(seen) => described(seen),
            // The group is unknown, or uses the consumer protocol (ConsumerGroupDescribe).
            None => unknown(head.version),
        };
        group.group_id = group_id;
        let is_told = request.include_authorized_operations && group.error_code == 0;
        group.authorized_operations = authorized_operations::told(is_told, OF_GROUP);
        response.groups.push(group);
    }
    response
}

fn described(seen: Description) -> DescribedGroup {
    let mut group = DescribedGroup::default();
    group.group_state = text(&seen.phase.to_string());
    group.protocol_type = text(seen.protocol_type.as_deref().unwrap_or(""));
    group.protocol_data = text(seen.protocol.as_deref().unwrap_or(""));
    group.members = seen.members.into_iter().map(member).collect();
    group
}

fn member(seen: MemberDescription) -> DescribedGroupMember {
    let mut member = DescribedGroupMember::default();
    member.member_id = text(seen.member_id.as_str());
    member.group_instance_id = seen.instance_id.as_deref().map(text);
    member.client_id = text(seen.client_id.as_str());
    member.client_host = text(&seen.client_host);
    member.member_metadata = seen.metadata;
    member.member_assignment = seen.assignment;
    member
}

fn unknown(version: i16) -> DescribedGroup {
    let mut group = DescribedGroup::default();
    group.group_state = text("Dead");
    if version >= UNKNOWN_IS_ERROR_SINCE {
        group.error_code = ResponseError::GroupIdNotFound.code();
        group.error_message = some_text("there is no such classic group here");
    }
    group
}
