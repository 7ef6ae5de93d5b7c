//! Consumer groups by KIP-848: heartbeats in every version, hand-overs, fencing, restarts.

use std::collections::BTreeSet;

use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, ListGroupsRequest,
};
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::{Client, Consumer, Member, Server, rebalance, settle, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 4)];

fn house() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 4);
    (server, client)
}

fn member(server: &Server) -> Consumer {
    Consumer::new(server, "shop", &["orders"])
}

#[test]
fn heartbeats_are_answered_in_every_version() {
    let (server, _client) = house();
    for version in 0..=1 {
        let mut member = Consumer::new(&server, &format!("g{version}"), &["orders"]);
        let mut request = member.whole_request();
        request.member_epoch = 0;
        if version == 0 {
            request.member_id = s("");
        }
        let answer = member.client.call(version, &request);
        assert_eq!((answer.error_code, answer.member_epoch), (0, 1), "v{version}");
        assert_eq!(answer.heartbeat_interval_ms, 5_000);
        let id = answer.member_id.unwrap().to_string();
        assert_eq!(id == member.id, version >= 1, "{id}");
        assert!(!id.is_empty());
        let held = &answer.assignment.unwrap().topic_partitions;
        assert_eq!((held.len(), held[0].partitions.clone()), (1, vec![0, 1, 2, 3]));
        assert_eq!(held[0].topic_id, member.client.metadata(12, &["orders"]).topics[0].topic_id);

        (member.id, member.generation) = (id, 1);
        let quiet = member.quiet_request();
        let quiet = member.client.call(version, &quiet);
        assert_eq!((quiet.error_code, quiet.assignment), (0, None), "v{version}");
        request.member_id = s("");
        request.member_epoch = i32::from(version == 0);
        let refused = member.client.call(version, &request);
        assert_eq!(refused.error_code, ResponseError::InvalidRequest.code(), "v{version}");
        assert!(refused.error_message.unwrap().contains("member id"));
    }
}

#[test]
fn a_partition_moves_only_after_its_owner_gives_it_up() {
    let (server, _client) = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    assert_eq!(a.orders(), [0, 1, 2, 3]);
    b.enter();
    assert!(b.held.is_empty());
    let before = a.held.clone();
    a.beat();
    let after = std::mem::replace(&mut a.held, before);
    assert!(a.acknowledge().assignment.is_none(), "it says that it still holds all");
    assert_eq!((a.generation, b.beat().assignment), (1, None));
    a.held = after;
    a.acknowledge();
    assert!(b.beat().assignment.is_some());
    assert_eq!((a.generation, b.generation), (2, 2));
    let mut all = [a.orders(), b.orders()].concat();
    all.sort_unstable();
    assert_eq!((all, a.orders().len()), (vec![0, 1, 2, 3], 2));
    b.go(-1);
    settle(&mut [&mut a]);
    assert_eq!(a.orders(), [0, 1, 2, 3]);
}

#[test]
fn heartbeats_report_new_topics_and_new_members() {
    let (server, mut client) = house();
    let mut a = Consumer::new(&server, "shop", &["orders", "bills"]);
    a.enter();
    assert_eq!(a.holds().len(), 1);
    client.create("bills", 2);
    a.beat();
    assert_eq!(a.holds(), [("bills".into(), vec![0, 1]), ("orders".into(), vec![0, 1, 2, 3])]);
    a.topics = vec!["bills".to_owned()];
    let whole = a.whole_request();
    a.send(&whole);
    settle(&mut [&mut a]);
    assert_eq!(a.holds(), [("bills".into(), vec![0, 1])]);
}

#[test]
fn members_of_the_past_are_fenced_and_their_commits_refused() {
    let (server, _client) = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    let epoch = a.generation;
    assert_eq!(a.commit("orders", 0, 7), 0);
    for (wrong, error) in [(epoch + 1, "ahead"), (epoch - 2, "behind")] {
        a.generation = wrong;
        let quiet = a.quiet_request();
        if wrong > 0 {
            assert_eq!(a.refused(&quiet), ResponseError::FencedMemberEpoch.code(), "{error}");
        }
        assert_eq!(a.commit("orders", 0, 8), ResponseError::StaleMemberEpoch.code(), "{error}");
    }
    a.generation = epoch;
    assert_eq!(a.position_of("orders", 0), 7);
    let mut stranger = member(&server);
    stranger.generation = epoch;
    let quiet = stranger.quiet_request();
    assert_eq!(stranger.refused(&quiet), ResponseError::UnknownMemberId.code());
    assert_eq!(stranger.commit("orders", 0, 9), ResponseError::UnknownMemberId.code());
    // an administrator may not commit while there are members, but may fetch offsets
    (stranger.id, stranger.generation) = (String::new(), -1);
    assert_eq!(stranger.commit("orders", 0, 9), ResponseError::UnknownMemberId.code());
    assert_eq!(stranger.position_of("orders", 0), 7);
    // the member goes on
    a.enter();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.generation, epoch, "nobody had to move");
}

#[test]
fn offsets_are_read_at_the_members_own_epoch_only() {
    use kafka_protocol::messages::OffsetFetchRequest;
    use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
    let (server, mut client) = house();
    let mut a = member(&server);
    a.enter();
    for (id, epoch, error) in [
        (a.id.clone(), 1, 0),
        (a.id.clone(), 2, ResponseError::StaleMemberEpoch.code()),
        ("x".to_owned(), 1, ResponseError::UnknownMemberId.code()),
    ] {
        let mut group = OffsetFetchRequestGroup::default();
        (group.group_id, group.member_id, group.member_epoch) = (s("shop"), Some(s(&id)), epoch);
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        assert_eq!(client.call(9, &request).groups[0].error_code, error, "{id} {epoch}");
    }
}

#[test]
fn a_restart_is_not_noticed_by_the_group() {
    let (mut server, _client) = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    let held = (a.held.clone(), b.held.clone(), a.generation);
    assert_eq!(a.commit("orders", 0, 5), 0);
    server.restart();
    (a.client, b.client) = (server.client(), server.client());
    assert_eq!((a.beat().assignment, b.beat().assignment), (None, None));
    let (first, second) = (a.whole_request(), b.whole_request());
    a.send(&first);
    b.send(&second);
    assert_eq!((a.held.clone(), b.held.clone(), a.generation), held, "told the same again");
    assert_eq!((a.commit("orders", 0, 6), a.position_of("orders", 0)), (0, 6));
    // the member goes on after a kill as well
    let killed = server.killed();
    a.client = killed.client();
    assert_eq!(a.beat().assignment, None);
}

#[test]
fn a_silent_member_loses_its_part() {
    let server = Server::with(
        "membership: {consumer_session_timeout: 1s, consumer_heartbeat_interval: 50ms}",
    );
    server.client().create("orders", 4);
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    b.enter();
    assert_eq!(a.beat().heartbeat_interval_ms, 50);
    until("b's part is a's", || {
        a.acknowledge();
        a.held.values().flatten().count() == 4 && a.generation > 2
    });
    let quiet = b.quiet_request();
    assert_eq!(b.refused(&quiet), ResponseError::UnknownMemberId.code());
}

#[test]
fn a_static_member_comes_back_to_its_part() {
    let (server, _client) = house();
    let (mut a, mut b) = (member(&server).fixed("one"), member(&server));
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    let (held, epoch) = (a.held.clone(), a.generation);
    let mut next = member(&server).fixed("one");
    let mut request = next.whole_request();
    request.member_epoch = 0;
    assert_eq!(next.refused(&request), ResponseError::UnreleasedInstanceId.code());
    a.go(-2);
    next.enter();
    assert_eq!((next.held.clone(), next.generation), (held, epoch));
    assert_eq!(b.beat().assignment, None);
    a.generation = epoch;
    let quiet = a.quiet_request();
    assert_eq!(a.refused(&quiet), ResponseError::FencedInstanceId.code());
}

#[test]
fn a_group_changes_its_protocol_member_by_member() {
    let (server, _client) = house();
    let topics = ["orders", "reprise.retry.shop"];
    let mut old = Member::new(&server, "shop", &topics);
    old.join(PARTITIONS);
    assert_eq!(old.commit("orders", 0, 5), 0);
    let kind = |server: &Server| server.json("/api/v1/groups/shop")["kind"].clone();
    let mut new = Consumer::new(&server, "shop", &topics);
    let mut bad = new.whole_request();
    (bad.member_epoch, bad.server_assignor) = (0, Some(s("sticky")));
    assert_eq!(new.refused(&bad), ResponseError::UnsupportedAssignor.code());
    assert_eq!((kind(&server), old.heartbeat()), ("classic".into(), 0), "it stays what it was");

    new.enter();
    assert_eq!(kind(&server), "consumer");
    assert_eq!(new.orders(), [0; 0], "all of it is the other's");
    assert_eq!(old.heartbeat(), ResponseError::RebalanceInProgress.code());
    rebalance(&mut [&mut old], PARTITIONS);
    new.beat();
    let of = |held: &[(String, Vec<i32>)], topic: &str| {
        held.iter().find(|held| held.0 == topic).unwrap().1.clone()
    };
    let mut all = [of(&old.assigned, "orders"), new.orders()].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    let held = |held: &[(String, Vec<i32>)]| held.iter().map(|of| of.1.len()).sum::<usize>();
    let (old_held, new_held) = (held(&old.assigned), held(&new.holds()));
    assert_eq!(old_held + new_held, 5, "with the retry topic");
    assert!(new_held == 2 || old_held == 2);
    assert_eq!(
        (old.heartbeat(), old.commit("orders", 0, 6), new.commit("orders", 1, 7)),
        (0, 0, 0)
    );
    old.generation -= 1;
    let illegal = ResponseError::IllegalGeneration.code();
    assert_eq!((old.heartbeat(), old.commit("orders", 0, 6)), (illegal, illegal));
    old.generation += 1;
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![s("shop")]);
    let seen = old.client.call(1, &request).groups.remove(0);
    let mut kinds: Vec<(bool, i8)> =
        seen.members.iter().map(|m| (m.member_id.as_str() == old.id, m.member_type)).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [(false, 1), (true, 0)]);

    new.go(-1);
    assert_eq!(kind(&server), "classic");
    rebalance(&mut [&mut old], PARTITIONS);
    assert_eq!((old.leads, of(&old.assigned, "orders")), (true, vec![0, 1, 2, 3]));
    assert_eq!((old.position_of("orders", 0), old.position_of("orders", 1)), (6, 7));
}

#[test]
fn an_empty_group_takes_the_next_members_protocol() {
    let (server, _client) = house();
    let mut classic = Member::new(&server, "shop", &["orders"]);
    classic.join(PARTITIONS);
    assert_eq!(classic.leave(), 0);
    let mut a = member(&server);
    // the request is refused, and the empty group stays as it was
    let mut bad = a.whole_request();
    (bad.member_epoch, bad.server_assignor) = (0, Some(s("sticky")));
    assert_eq!(a.refused(&bad), ResponseError::UnsupportedAssignor.code());
    let kind = |server: &Server| server.json("/api/v1/groups/shop")["kind"].clone();
    assert_eq!(kind(&server), "classic");
    a.enter();
    assert_eq!(kind(&server), "consumer");
    assert_eq!(classic.heartbeat(), ResponseError::UnknownMemberId.code());
    a.go(-1);
    (classic.id, classic.generation) = (String::new(), -1);
    classic.join(PARTITIONS);
    assert_eq!(kind(&server), "classic");
    assert_eq!(classic.assigned[0].1, [0, 1, 2, 3]);
}

#[test]
fn groups_are_described_and_listed_in_every_version() {
    let (server, mut client) = house();
    let (mut a, mut b) = (member(&server).fixed("one"), member(&server));
    a.enter();
    b.enter();
    Member::new(&server, "old", &["orders"]).join(PARTITIONS);
    for version in 0..=1 {
        let groups = vec![s("shop"), s("old"), s("nobody")];
        let request = ConsumerGroupDescribeRequest::default()
            .with_group_ids(groups)
            .with_include_authorized_operations(version > 0);
        let answer = client.call(version, &request);
        let group = &answer.groups[0];
        let operations = if version > 0 { 3_400 } else { i32::MIN };
        assert_eq!(group.authorized_operations, operations);
        assert_eq!((group.error_code, group.group_state.as_str()), (0, "Reconciling"));
        assert_eq!((group.group_epoch, group.assignment_epoch), (2, 2));
        assert_eq!(group.assignor_name.as_str(), "uniform");
        let of_a = group.members.iter().find(|m| m.member_id.as_str() == a.id).unwrap();
        assert_eq!(of_a.instance_id.as_deref(), Some("one"));
        assert_eq!((of_a.member_epoch, of_a.client_host.as_str()), (1, "/127.0.0.1"));
        assert_eq!(of_a.subscribed_topic_names[0].as_str(), "orders");
        let held = &of_a.assignment.topic_partitions[0];
        assert_eq!((held.topic_name.as_str(), held.partitions.len()), ("orders", 4));
        assert_eq!(of_a.target_assignment.topic_partitions[0].partitions.len(), 2);
        assert_eq!(of_a.member_type, if version >= 1 { 1 } else { -1 });
        for other in &answer.groups[1..] {
            assert_eq!(other.error_code, ResponseError::GroupIdNotFound.code(), "v{version}");
        }
    }
    let listed = |client: &mut Client, kind: &str, state: &str| -> Vec<(String, String)> {
        let mut request = ListGroupsRequest::default();
        request.types_filter = Some(s(kind)).filter(|_| !kind.is_empty()).into_iter().collect();
        request.states_filter = Some(s(state)).filter(|_| !state.is_empty()).into_iter().collect();
        let groups = client.call(5, &request).groups.into_iter();
        groups.map(|g| (g.group_id.to_string(), g.group_type.to_string())).collect()
    };
    let shop = [("shop".to_owned(), "consumer".to_owned())];
    let old = [("old".to_owned(), "classic".to_owned())];
    assert_eq!(listed(&mut client, "", ""), [&old[..], &shop[..]].concat());
    assert_eq!(listed(&mut client, "Consumer", ""), shop);
    assert_eq!(listed(&mut client, "classic", ""), old);
    assert_eq!(listed(&mut client, "", "reconciling"), shop);
    assert_eq!(listed(&mut client, "", "stable"), old);
    assert_eq!(listed(&mut client, "consumer", "stable"), []);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(listed(&mut client, "consumer", "stable"), shop);
    for version in 0..=6 {
        let request = DescribeGroupsRequest::default().with_groups(vec![s("shop")]);
        let group = &client.call(version, &request).groups[0];
        let error = if version >= 6 { ResponseError::GroupIdNotFound.code() } else { 0 };
        assert_eq!((group.error_code, group.group_state.as_str()), (error, "Dead"), "v{version}");
    }
}

#[test]
fn the_admin_port_shows_members_and_their_assignments() {
    let (server, _client) = house();
    let mut a = Consumer::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    a.enter();
    let seen = server.json("/api/v1/groups/shop");
    assert_eq!(
        (&seen["kind"], &seen["phase"], &seen["generation"], &seen["protocol"]),
        (&"consumer".into(), &"Stable".into(), &1.into(), &"uniform".into())
    );
    let member = &seen["members"][0];
    assert_eq!(member["takes_retries"], true);
    let assignment: BTreeSet<&str> =
        member["assignment"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    let held = ["orders-0", "orders-1", "orders-2", "orders-3"];
    let all: BTreeSet<&str> = held.into_iter().chain(["reprise.retry.shop-0"]).collect();
    assert_eq!(assignment, all);
    let mut classic = Member::new(&server, "old", &["orders"]);
    classic.join(PARTITIONS);
    let seen = server.json("/api/v1/groups/old");
    assert_eq!(seen["kind"], "classic");
    assert_eq!(seen["members"][0]["assignment"], serde_json::json!(held));
}
