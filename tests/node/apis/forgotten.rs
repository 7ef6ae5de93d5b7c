//! Groups and offsets that are deleted.

use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::{DeleteGroupsRequest, ListGroupsRequest, OffsetDeleteRequest};
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::member::offset_fetch;
use crate::support::{Client, Consumer, Member, Rec, Server, settle};

const GROUPS: &[(&str, i32)] = &[("orders", 2)];

fn house() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    for topic in ["orders", "old"] {
        client.create(topic, 2);
    }
    (server, client)
}

/// The errors, group by group.
fn delete(client: &mut Client, version: i16, groups: &[&str]) -> Vec<i16> {
    let names = groups.iter().map(|group| s(group)).collect();
    let request = DeleteGroupsRequest::default().with_groups_names(names);
    let answer = client.call(version, &request);
    let told: Vec<&str> = answer.results.iter().map(|one| one.group_id.as_str()).collect();
    assert_eq!(told, groups);
    answer.results.iter().map(|one| one.error_code).collect()
}

fn listed(client: &mut Client) -> Vec<String> {
    let groups = client.call(5, &ListGroupsRequest::default()).groups;
    groups.iter().map(|group| group.group_id.to_string()).collect()
}

/// Commits without being a member.
fn commit(server: &Server, group: &str, topic: &str, offset: i64) {
    let mut outside = Member::new(server, group, &[topic]);
    assert_eq!(outside.commit(topic, 0, offset), 0);
}

#[test]
fn empty_groups_are_deleted_with_their_offsets_in_every_version() {
    let (server, mut client) = house();
    for version in 0..=2 {
        let mut classic = Member::new(&server, "classic", &["orders"]);
        classic.join(GROUPS);
        assert_eq!(classic.commit("orders", 0, 1), 0);
        let mut by_848 = Consumer::new(&server, "by-848", &["orders"]);
        by_848.enter();
        commit(&server, "outside", "orders", 1);
        let all = ["classic", "by-848", "outside", "nowhere", ""];
        let full = ResponseError::NonEmptyGroup.code();
        let unknown = ResponseError::GroupIdNotFound.code();
        let refused = delete(&mut client, version, &all);
        assert_eq!(refused, [full, full, 0, unknown, unknown], "v{version}");
        assert_eq!(classic.heartbeat(), 0, "v{version}: its member goes on");
        assert_eq!(classic.leave(), 0);
        by_848.go(-1);
        let gone = delete(&mut client, version, &all);
        assert_eq!(gone, [0, 0, unknown, unknown, unknown], "v{version}");
        assert_eq!(listed(&mut client), Vec::<String>::new(), "v{version}");
        assert_eq!(offset_fetch(&mut client, 5, "classic", "orders", 0).0, -1);
    }
}

#[test]
fn a_deleted_group_keeps_its_waiting_retries_over_a_kill() {
    let (server, mut client) = house();
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(GROUPS);
    client.put("orders", 0, &[Rec::new("a")]);
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(member.leave(), 0);
    assert_eq!(delete(&mut client, 2, &["shop"]), [0]);
    let after = server.killed();
    let mut client = after.client();
    assert_eq!(listed(&mut client), Vec::<String>::new());
    assert_eq!(offset_fetch(&mut client, 5, "shop", "orders", 0).0, -1);
    let mut member = Member::new(&after, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 2), ("reprise.retry.shop", 1)]);
    assert_eq!(member.retry_once().value.as_deref(), Some(&b"a"[..]));
}

#[test]
fn deleted_offsets_reset_earlier_failures() {
    let server = Server::with("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("a")]);
    let both: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(both);
    let last = Rec::new("a").header("x-retry-level", "-1");
    assert_eq!(client.nack("shop", "orders-0@0", last).error_code, 0);
    assert_eq!(client.read_all("reprise.dlq.shop").len(), 1);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(member.leave(), 0);
    assert_eq!(delete(&mut client, 2, &["shop"]), [0]);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(both);
    assert_eq!(member.position_of("orders", 0), -1, "it begins at the earliest");
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    assert_eq!(member.retry_once().reconsume_times(), 1);
}

/// The error of the whole, or of each partition.
fn forget(client: &mut Client, group: &str, asked: &[(&str, &[i32])]) -> Result<Vec<i16>, i16> {
    let topic = |(name, partitions): &(&str, &[i32])| {
        let one =
            |index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(*index);
        OffsetDeleteRequestTopic::default()
            .with_name(s(name))
            .with_partitions(partitions.iter().map(one).collect())
    };
    let topics = asked.iter().map(topic).collect();
    let request = OffsetDeleteRequest::default().with_group_id(s(group)).with_topics(topics);
    let answer = client.call(0, &request);
    if answer.error_code != 0 {
        assert!(answer.topics.is_empty());
        return Err(answer.error_code);
    }
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    Ok(partitions.map(|one| one.error_code).collect())
}

#[test]
fn offsets_of_topics_without_subscribers_are_deleted() {
    let (server, mut client) = house();
    for group in ["classic", "by-848", "outside"] {
        for topic in ["orders", "old"] {
            commit(&server, group, topic, 1);
        }
    }
    let mut classic = Member::new(&server, "classic", &["orders"]);
    classic.join(GROUPS);
    let mut by_848 = Consumer::new(&server, "by-848", &["orders"]);
    by_848.enter();
    settle(&mut [&mut by_848]);
    let subscribed = ResponseError::GroupSubscribedToTopic.code();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    for group in ["classic", "by-848"] {
        let asked: &[(&str, &[i32])] =
            &[("orders", &[0]), ("old", &[0, 1]), ("nowhere", &[0]), ("reprise.retry.shop", &[0])];
        let told = forget(&mut client, group, asked);
        assert_eq!(told, Ok(vec![subscribed, 0, 0, unknown, unknown]), "{group}");
        assert_eq!(offset_fetch(&mut client, 5, group, "old", 0).0, -1, "{group}");
        assert_eq!(offset_fetch(&mut client, 5, group, "orders", 0).0, 1, "{group}");
    }
    assert_eq!(forget(&mut client, "outside", &[("orders", &[0])]), Ok(vec![0]));
    assert_eq!(offset_fetch(&mut client, 5, "outside", "old", 0).0, 1, "the other one stays");
    assert_eq!(forget(&mut client, "outside", &[("old", &[0])]), Ok(vec![0]));
    assert_eq!(forget(&mut client, "outside", &[("old", &[0])]), Ok(vec![0]), "the group stays");
    let not_found = ResponseError::GroupIdNotFound.code();
    assert_eq!(forget(&mut client, "nowhere", &[("old", &[0])]), Err(not_found));
    assert_eq!(forget(&mut client, "", &[]), Err(ResponseError::InvalidGroupId.code()));

    let after = server.killed();
    let mut client = after.client();
    assert_eq!(offset_fetch(&mut client, 5, "classic", "old", 0).0, -1, "after a kill too");
    assert_eq!(offset_fetch(&mut client, 5, "classic", "orders", 0).0, 1);
    classic.leave();
}

#[test]
fn offsets_of_a_connect_group_with_members_are_not_deleted() {
    let (server, mut client) = house();
    commit(&server, "connect", "orders", 1);
    let mut worker = Member::new(&server, "connect", &["orders"]);
    let mut request = worker.join_request();
    request.protocol_type = s("connect");
    let told = worker.client.call(9, &request);
    request.member_id = told.member_id;
    let joined = worker.client.call(9, &request);
    assert_eq!(joined.error_code, 0);
    let full = ResponseError::NonEmptyGroup.code();
    assert_eq!(forget(&mut client, "connect", &[("orders", &[0])]), Err(full));
    worker.id = joined.member_id.to_string();
    assert_eq!(worker.leave(), 0);
    assert_eq!(forget(&mut client, "connect", &[("orders", &[0])]), Ok(vec![0]));
}
