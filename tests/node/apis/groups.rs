//! Groups: every version of their APIs, two members, a static member, a restart in between.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, SyncGroupRequest,
};
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::member::{assigned, ranges};
use crate::support::{Client, Member, Rec, Server, rebalance, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 3), ("reprise.retry.shop", 1)];

fn with_orders() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 3);
    (server, client)
}

fn member(server: &Server) -> Member {
    Member::new(server, "shop", &["orders", "reprise.retry.shop"])
}

/// Joins at this version, alone; the member id and the generation.
fn join_alone(member: &mut Member, version: i16) -> (String, i32) {
    let mut request = member.join_request();
    let mut answer = member.client.call(version, &request);
    if version >= 4 {
        assert_eq!(answer.error_code, ResponseError::MemberIdRequired.code(), "v{version}");
        assert_eq!(answer.generation_id, -1);
        request.member_id = answer.member_id;
        answer = member.client.call(version, &request);
    }
    assert_eq!((answer.error_code, answer.generation_id), (0, 1), "v{version}");
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(answer.protocol_name.as_ref().unwrap().as_str(), "range");
    assert_eq!(answer.protocol_type.is_some(), version >= 7);
    assert_eq!(answer.members[0].metadata, request.protocols[0].metadata);
    (answer.member_id.to_string(), answer.generation_id)
}

#[test]
fn join_and_leave_are_answered_in_every_version() {
    let (server, _client) = with_orders();
    for version in 0..=9 {
        let mut member = Member::new(&server, &format!("g{version}"), &["orders"]);
        let (id, _) = join_alone(&mut member, version);
        assert!(id.starts_with("test-"), "{id}");
        let leave = version.min(5);
        let mut request = LeaveGroupRequest::default().with_group_id(s(&member.group));
        if leave >= 3 {
            let mut leaver = MemberIdentity::default();
            leaver.member_id = s(&id);
            request.members = vec![leaver.clone(), leaver];
        } else {
            request.member_id = s(&id);
        }
        let answer = member.client.call(leave, &request);
        assert_eq!(answer.error_code, 0, "v{leave}");
        let codes: Vec<i16> = answer.members.iter().map(|member| member.error_code).collect();
        let unknown = ResponseError::UnknownMemberId.code();
        let expected = if leave >= 3 { vec![0, unknown] } else { vec![] };
        assert_eq!(codes, expected, "v{leave}");

        // every version can encode a refusal as well
        request = member_gone(&request);
        let again = member.client.call(leave, &request);
        let told = again.members.first().map_or(again.error_code, |member| member.error_code);
        assert_eq!(told, unknown, "v{leave}");
        let mut bad = member.join_request();
        bad.session_timeout_ms = 1;
        let refused = member.client.call(version, &bad);
        assert_eq!(refused.error_code, ResponseError::InvalidSessionTimeout.code(), "v{version}");
        assert_eq!((refused.generation_id, refused.members.len()), (-1, 0));
    }
}

fn member_gone(request: &LeaveGroupRequest) -> LeaveGroupRequest {
    let mut request = request.clone();
    request.members.truncate(1);
    request
}

#[test]
fn sync_and_heartbeat_are_answered_in_every_version() {
    let (server, _client) = with_orders();
    for version in 0..=5 {
        let mut member = Member::new(&server, &format!("g{version}"), &["orders"]);
        let (id, generation) = join_alone(&mut member, 9);
        let given = ranges(vec![(id.clone(), vec!["orders".into()])], PARTITIONS);
        let mut request = SyncGroupRequest::default();
        (request.group_id, request.member_id) = (s(&member.group), s(&id));
        request.generation_id = generation;
        if version >= 5 {
            (request.protocol_type, request.protocol_name) =
                (Some(s("consumer")), Some(s("range")));
        }
        let mut one = SyncGroupRequestAssignment::default();
        (one.member_id, one.assignment) = (s(&id), given[0].1.clone());
        request.assignments = vec![one];
        let answer = member.client.call(version, &request);
        assert_eq!(answer.error_code, 0, "v{version}");
        assert_eq!(assigned(&answer.assignment), [("orders".to_owned(), vec![0, 1, 2])]);
        assert_eq!(answer.protocol_name.is_some(), version >= 5);
        request.generation_id = 9;
        let refused = member.client.call(version, &request);
        assert_eq!(refused.error_code, ResponseError::IllegalGeneration.code(), "v{version}");

        let mut beat = HeartbeatRequest::default();
        (beat.group_id, beat.member_id) = (s(&member.group), s(&id));
        let beats = version.min(4);
        for (generation, error) in [(1, 0), (2, ResponseError::IllegalGeneration.code())] {
            beat.generation_id = generation;
            assert_eq!(member.client.call(beats, &beat).error_code, error, "v{beats}");
        }
    }
}

#[test]
fn groups_are_listed_and_described_in_every_version() {
    let (server, mut client) = with_orders();
    let mut shop = member(&server);
    shop.join(PARTITIONS);
    for version in 0..=5 {
        let mut request = ListGroupsRequest::default();
        if version >= 4 {
            request.states_filter = vec![s("Stable")];
        }
        let answer = client.call(version, &request);
        let group = &answer.groups[0];
        assert_eq!((answer.error_code, answer.groups.len()), (0, 1), "v{version}");
        assert_eq!((group.group_id.as_str(), group.protocol_type.as_str()), ("shop", "consumer"));
        assert_eq!(group.group_state.as_str(), if version >= 4 { "Stable" } else { "" });
        assert_eq!(group.group_type.as_str(), if version >= 5 { "classic" } else { "" });
        if version >= 4 {
            request.states_filter = vec![s("Empty")];
            assert!(client.call(version, &request).groups.is_empty());
        }
    }
    for version in 0..=6 {
        let groups: Vec<GroupId> = vec![s("shop"), s("nobody")];
        let asks = version >= 4;
        let request = DescribeGroupsRequest::default()
            .with_groups(groups)
            .with_include_authorized_operations(asks);
        let answer = client.call(version, &request);
        let group = &answer.groups[0];
        assert_eq!(group.authorized_operations, if asks { 3_400 } else { i32::MIN });
        assert_eq!((group.error_code, group.group_state.as_str()), (0, "Stable"), "v{version}");
        assert_eq!(group.protocol_data.as_str(), "range");
        assert_eq!(group.members[0].member_id.as_str(), shop.id);
        assert_eq!(group.members[0].client_host.as_str(), "/127.0.0.1");
        assert!(!group.members[0].member_assignment.is_empty());
        let unknown = &answer.groups[1];
        assert_eq!(unknown.group_state.as_str(), "Dead");
        let error = if version >= 6 { ResponseError::GroupIdNotFound.code() } else { 0 };
        assert_eq!(unknown.error_code, error, "v{version}");
    }
}

#[test]
fn the_leader_gets_every_subscription_and_each_member_its_part() {
    let (server, _client) = with_orders();
    let (mut a, mut b) = (member(&server), member(&server));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    assert_eq!(a.generation, b.generation);
    assert_ne!(a.leads, b.leads);
    let mut all: Vec<i32> = [&a, &b]
        .iter()
        .flat_map(|member| &member.assigned)
        .filter(|(topic, _)| topic == "orders")
        .flat_map(|(_, partitions)| partitions.clone())
        .collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2], "each partition once");
    assert_eq!((a.heartbeat(), b.heartbeat()), (0, 0));
    assert_eq!(a.leave(), 0);
    until("b learns of it", || b.heartbeat() == ResponseError::RebalanceInProgress.code());
    let old = b.generation;
    rebalance(&mut [&mut b], PARTITIONS);
    assert_eq!(b.generation, old + 1);
    assert_eq!(b.assigned[0], ("orders".to_owned(), vec![0, 1, 2]));
}

#[test]
fn an_absent_member_is_removed_after_its_session() {
    let (server, _client) = with_orders();
    let (mut a, mut b) = (member(&server), member(&server));
    b.session_ms = 300;
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    drop(b.client);
    until("the session ends", || a.heartbeat() == ResponseError::RebalanceInProgress.code());
    rebalance(&mut [&mut a], PARTITIONS);
    assert_eq!(a.assigned[0], ("orders".to_owned(), vec![0, 1, 2]));
    b.client = server.client();
    assert_eq!(b.heartbeat(), ResponseError::UnknownMemberId.code());
}

#[test]
fn a_returning_static_member_fences_its_predecessor_without_a_rebalance() {
    let (server, _client) = with_orders();
    let (mut a, mut b) = (member(&server).fixed("one"), member(&server).fixed("two"));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    let (follower, other) = if a.leads { (&mut b, &mut a) } else { (&mut a, &mut b) };
    let instance = follower.instance.clone().unwrap();
    let mut again = member(&server).fixed(&instance);
    rebalance(&mut [&mut again], PARTITIONS);
    assert_eq!(again.generation, follower.generation, "no new generation");
    assert_ne!(again.id, follower.id);
    assert_eq!(again.assigned, follower.assigned, "the same partitions");
    assert_eq!(other.heartbeat(), 0);
    assert_eq!(follower.heartbeat(), ResponseError::FencedInstanceId.code());
    let fenced = follower.commit("orders", 0, 1);
    assert_eq!(fenced, ResponseError::FencedInstanceId.code());
}

#[test]
fn a_restart_within_the_session_timeout_keeps_the_group_stable() {
    let (mut server, _client) = with_orders();
    let (mut a, mut b) = (member(&server), member(&server));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    for (member, origin) in [(&mut a, "orders-0@1"), (&mut b, "orders-0@2")] {
        assert_eq!(member.client.nack("shop", origin, Rec::new("x")).error_code, 0);
        let got = member.retry_once();
        assert_eq!(member.position(), got.offset, "open: the position stays");
    }
    assert_eq!(a.commit("orders", 0, 7), 0);
    let (from, generation) = (a.position(), a.generation);
    server.restart();
    (a.client, b.client) = (server.client(), server.client());
    assert_eq!((a.heartbeat(), b.heartbeat()), (0, 0), "the same generation {generation}");
    assert_eq!(a.position_of("orders", 0), 7);
    assert_eq!(a.position(), from, "its position stays where it was");
    let open = a.retries();
    assert_eq!(open[0].offset, from, "the same hand-out, not another one");
    assert_eq!(open[0].number("x-retry-attempt"), 2);
    a.done(from + 1);
    assert_eq!(a.position(), from + 1);
    assert_eq!((a.heartbeat(), b.heartbeat()), (0, 0));
}

#[test]
fn members_that_say_nonsense_are_refused_by_name() {
    let (server, _client) = with_orders();
    let mut shop = member(&server);
    shop.join(PARTITIONS);
    let mut other = member(&server);
    let mut request = other.join_request();
    request.protocols[0].name = s("other-protocol");
    let answer = other.client.call(3, &request);
    assert_eq!(answer.error_code, ResponseError::InconsistentGroupProtocol.code());
    request = other.join_request();
    request.group_id = s("");
    assert_eq!(other.client.call(9, &request).error_code, ResponseError::InvalidGroupId.code());
    request = other.join_request();
    request.member_id = s("never-met");
    let answer = other.client.call(9, &request);
    assert_eq!(answer.error_code, ResponseError::UnknownMemberId.code());
    shop.generation += 1;
    assert_eq!(shop.commit("orders", 0, 1), ResponseError::IllegalGeneration.code());
    assert_eq!(shop.heartbeat(), ResponseError::IllegalGeneration.code());
}

#[test]
fn a_rebalance_request_is_held_until_the_others_have_come() {
    let (server, _client) = with_orders();
    let (mut a, mut b) = (member(&server), member(&server));
    a.join(PARTITIONS);
    let first = b.client.call(9, &b.join_request());
    b.id = first.member_id.to_string();
    let sent = b.client.send(9, &b.join_request());
    until("a learns of it", || a.heartbeat() == ResponseError::RebalanceInProgress.code());
    assert!(b.client.is_silent(), "a has not come yet");
    let back = a.client.send(9, &a.join_request());
    let (of_b, of_a) =
        (b.client.receive::<JoinGroupRequest>(sent), a.client.receive::<JoinGroupRequest>(back));
    assert_eq!((of_a.error_code, of_b.error_code), (0, 0));
    assert_eq!(of_a.generation_id, of_b.generation_id);
}
