//! Requests of group members, and of tools about groups.

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest,
    DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, SyncGroupRequest,
};

use super::{Ask, ask};
use crate::golden::house::{CONSUMER, MEMBER, ORDERS};
use crate::support::client::s;
use crate::support::member::subscription;

pub(crate) fn all() -> Vec<Ask> {
    let mut all = member_requests();
    all.extend(consumer_requests());
    all.extend(about_them());
    all
}

fn member_requests() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut JoinGroupRequest| {
            (r.group_id, r.member_id, r.protocol_type) = (s("till"), s(MEMBER), s("consumer"));
            r.session_timeout_ms = 10_000;
            r.rebalance_timeout_ms = if version >= 1 { 10_000 } else { -1 };
            let protocol = JoinGroupRequestProtocol::default().with_name(s("range"));
            let topics = [ORDERS.0.to_owned(), "elsewhere".to_owned()];
            r.protocols = vec![protocol.with_metadata(subscription(&topics))];
        }),
        ask(|version, r: &mut SyncGroupRequest| {
            (r.group_id, r.member_id, r.generation_id) = (s("till"), s(MEMBER), 1);
            if version >= 5 {
                (r.protocol_type, r.protocol_name) = (Some(s("consumer")), Some(s("range")));
            }
        }),
        ask(|_, r: &mut HeartbeatRequest| {
            (r.group_id, r.member_id, r.generation_id) = (s("till"), s(MEMBER), 1);
        }),
        ask(|version, r: &mut LeaveGroupRequest| {
            r.group_id = s("till");
            if version <= 2 {
                r.member_id = s(MEMBER);
            } else {
                let of = |id| MemberIdentity::default().with_member_id(s(id));
                r.members = vec![of(MEMBER), of("nobody")];
            }
        }),
    ]
}

fn consumer_requests() -> Vec<Ask> {
    vec![ask(|_, r: &mut ConsumerGroupHeartbeatRequest| {
        (r.group_id, r.member_id, r.member_epoch) = (s("shop"), s(CONSUMER), 0);
        r.rebalance_timeout_ms = 10_000;
        r.subscribed_topic_names = Some(vec![s(ORDERS.0)]);
        let held = TopicPartitions::default().with_topic_id(ORDERS.1).with_partitions(vec![]);
        r.topic_partitions = Some(vec![held]);
    })]
}

fn about_them() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut DescribeGroupsRequest| {
            r.groups = vec![s("till"), s("shop"), s("free"), s("nobody's")];
            r.include_authorized_operations = version >= 3;
        }),
        ask(|_, r: &mut ConsumerGroupDescribeRequest| {
            r.group_ids = vec![s("shop"), s("till"), s("nobody's")];
            r.include_authorized_operations = true;
        }),
        ask(|version, r: &mut ListGroupsRequest| {
            if version >= 4 {
                r.states_filter = vec![s("Stable"), s("Empty")];
            }
            if version >= 5 {
                r.types_filter = vec![s("classic"), s("consumer")];
            }
        }),
        ask(|_, r: &mut DeleteGroupsRequest| {
            r.groups_names = vec![s("free"), s("till"), s("nobody's")];
        }),
    ]
}
