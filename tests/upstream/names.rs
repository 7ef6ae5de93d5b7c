//! Topics of the cluster with names that are, or were, ours: they remain the cluster's.

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest, MetadataRequest,
};
use reprise::wire::ResponseError;

use crate::support::batch::{Got, plain, unpack};
use crate::support::client::{fetch_request, produce_request, s};
use crate::support::{Client, Consumer, Member, Rec, Server, until};

const RETRY: &str = "reprise.retry.shop";
/// Members send no heartbeat while the test does other work.
const LONG_SESSION_MS: i32 = 60_000;
const DEAD: &str = "reprise.dlq.shop";
const UNKNOWN: fn() -> i16 = || ResponseError::UnknownTopicOrPartition.code();
const EXISTS: fn() -> i16 = || ResponseError::TopicAlreadyExists.code();

/// A cluster with `orders`, and a client that is connected to it directly.
fn house() -> (Server, Client) {
    let server = Server::start();
    let mut direct = Client::connect(server.cluster().addr());
    direct.create("orders", 1);
    (server, direct)
}

/// A house with topics of three partitions and one record each in the cluster, by these names.
fn house_with(names: &[&str]) -> (Server, Client) {
    let (server, mut direct) = house();
    for name in names {
        direct.create(name, 3);
        at(&mut direct, name, "theirs");
    }
    (server, direct)
}

fn at(broker: &mut Client, topic: &str, value: &str) -> i64 {
    let request = produce_request(topic, 0, plain(&[Rec::new(value)]), -1);
    let told = &broker.call(9, &request).responses[0].partition_responses[0];
    assert_eq!(told.error_code, 0, "{topic}");
    told.base_offset
}

fn texts(broker: &mut Client, topic: &str) -> Vec<String> {
    let told = broker.call(12, &fetch_request(topic, 0, 0, 0));
    let partition = &told.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "{topic}");
    unpack(partition.records.as_ref().unwrap()).iter().map(Got::text).collect()
}

fn told(client: &mut Client, topic: &str) -> MetadataResponseTopic {
    client.metadata(9, &[topic]).topics.remove(0)
}

/// Whether a client connected to the cluster sees the topic; the request creates none.
fn is_there(direct: &mut Client, topic: &str) -> bool {
    let all = direct.call(9, &MetadataRequest::default().with_topics(None)).topics;
    all.iter().any(|one| one.name == Some(s(topic)))
}

/// A connection of this client to the broker of the cluster, through the sidecar.
fn broker(client: &mut Client) -> Client {
    let brokers = client.call(9, &MetadataRequest::default()).brokers;
    client.connect_to(&brokers[0])
}

fn conflicts(server: &Server) -> usize {
    server.router().names.conflicts()
}

fn is_of_cluster(server: &Server, client: &mut Client, topic: &str) {
    let told = told(client, topic);
    assert_eq!((told.error_code, told.partitions.len()), (0, 3), "{topic}");
    assert_eq!(told.partitions[0].leader_id.0, server.cluster().node_id(), "{topic}");
}

fn is_ours(server: &Server, client: &mut Client, topic: &str) {
    let told = told(client, topic);
    assert_eq!((told.error_code, told.partitions.len()), (0, 1), "{topic}");
    assert_eq!(told.partitions[0].leader_id.0, server.node_id(), "{topic}");
}

#[test]
fn topics_by_the_former_default_names_pass_untouched() {
    let names = ["dlq.payments", "retry.payments", "dlq.my-sink", "retry.", "dlq"];
    let (server, mut direct) = house_with(&names);
    let mut client = server.client();
    for name in names {
        is_of_cluster(&server, &mut client, name);
        assert_eq!(client.put(name, 0, &[Rec::new("through")]), 1, "{name}");
        let both = ["theirs", "through"];
        assert_eq!(texts(&mut direct, name), both, "{name}");
        assert_eq!(client.read_all(name).iter().map(Got::text).collect::<Vec<_>>(), both, "{name}");
    }
    assert_eq!(conflicts(&server), 0);
    assert!(!server.get("/readyz").contains("conflict"));
}

#[test]
fn a_cluster_topic_under_a_name_of_ours_passes_untouched() {
    let (server, mut direct) = house_with(&[RETRY, DEAD]);
    let mut client = server.client();
    for name in [RETRY, DEAD] {
        is_of_cluster(&server, &mut client, name);
        let mut broker = broker(&mut client);
        assert_eq!(at(&mut broker, name, "through"), 1, "{name}");
        let both = ["theirs", "through"];
        assert_eq!(texts(&mut broker, name), both, "{name}");
        assert_eq!(texts(&mut direct, name), both, "{name}");
    }
    assert_eq!(conflicts(&server), 2);
    let ready = server.get("/readyz");
    assert!(ready.contains("name conflict: the cluster has topics by names of"), "{ready}");
    assert!(ready.contains(RETRY) && ready.contains("set `names`"), "{ready}");
    until("the gauge", || server.metric("reprise_degraded{reason=\"name_conflict\"}") > 0.0);
    // The group's retry topic is not served under that name, so its nacks are refused.
    let nack = client.nack("shop", "orders-0@0", Rec::new("x"));
    assert_eq!(nack.error_code, UNKNOWN());
    // Other groups are served as before.
    is_ours(&server, &mut client, "reprise.retry.store");
    assert_eq!(client.nack("store", "orders-0@0", Rec::new("x")).error_code, 0);
}

#[test]
fn a_listing_of_all_topics_has_the_cluster_s_once() {
    let (server, _) = house_with(&[DEAD]);
    let mut client = server.client();
    assert_eq!(client.nack("store", "orders-0@0", Rec::new("x")).error_code, 0);
    let all = client.call(9, &MetadataRequest::default().with_topics(None)).topics;
    let mut found = all.iter().filter(|topic| topic.name == Some(s(DEAD)));
    assert_eq!(found.next().unwrap().partitions.len(), 3);
    assert!(found.next().is_none());
    let names: Vec<_> = all.iter().map(|topic| topic.name.as_ref().unwrap().as_str()).collect();
    assert!(names.contains(&"reprise.retry.store"), "{names:?}");
    let pages = client.call(0, &DescribeTopicPartitionsRequest::default()).topics;
    let mut found = pages.iter().filter(|topic| topic.name == Some(s(DEAD)));
    assert_eq!(found.next().unwrap().partitions.len(), 3);
    assert!(found.next().is_none());
    assert_eq!(conflicts(&server), 1);
}

#[test]
fn offsets_settings_and_deletion_of_a_conflict_pass() {
    let (server, mut direct) = house_with(&[RETRY, DEAD]);
    let topics = &["orders", RETRY, DEAD];
    let mut member = Member::new(&server, "shop", topics);
    member.join(&[("orders", 1), (RETRY, 3), (DEAD, 3)]);
    let held: Vec<_> = member.assigned.iter().map(|(topic, on)| (&**topic, on.len())).collect();
    for (topic, partitions) in [("orders", 1), (RETRY, 3), (DEAD, 3)] {
        assert!(held.contains(&(topic, partitions)), "{held:?}");
    }
    for topic in [RETRY, DEAD] {
        assert_eq!(member.commit(topic, 2, 7), 0, "{topic}");
        assert_eq!(member.position_of(topic, 2), 7, "{topic}");
        let there =
            server.cluster().router().broker.offsets.committed(&"shop".into(), &topic.into(), 2);
        assert_eq!(there.map(|committed| committed.offset), Some(7), "{topic}");
    }
    let mut client = server.client();
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (2, s(DEAD));
    asked.configuration_keys = None;
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let (through, there) = (client.call(4, &request), direct.call(4, &request));
    assert_eq!(through.results, there.results);
    client.delete(DEAD);
    assert!(!is_there(&mut direct, DEAD), "it is gone in the cluster");
    is_ours(&server, &mut client, DEAD);
    assert_eq!(conflicts(&server), 1, "one is over");
}

#[test]
fn the_first_request_that_names_it_finds_the_conflict() {
    type Ask = fn(&mut Client, &Server);
    let asks: [(&str, Ask); 5] = [
        ("Metadata", |client, _| drop(client.metadata(9, &[RETRY]))),
        ("CreateTopics", |client, _| {
            let told = client.call(7, &creation(RETRY, false));
            assert_eq!(told.topics[0].error_code, EXISTS());
            assert!(!told.topics[0].error_message.as_ref().unwrap().contains("reprise serves"));
        }),
        ("DescribeTopicPartitions", |client, _| {
            let mut asked =
                kafka_protocol::messages::describe_topic_partitions_request::TopicRequest::default(
                );
            asked.name = s(RETRY);
            let request = DescribeTopicPartitionsRequest::default().with_topics(vec![asked]);
            assert_eq!(client.call(0, &request).topics[0].partitions.len(), 3);
        }),
        ("JoinGroup", |_, server| {
            let mut member = Member::new(server, "other", &[RETRY]);
            member.join(&[(RETRY, 3)]);
            assert_eq!(member.assigned, [(RETRY.to_owned(), vec![0, 1, 2])]);
        }),
        ("ConsumerGroupHeartbeat", |_, server| {
            let mut consumer = Consumer::new(server, "other", &[RETRY]);
            consumer.enter();
            assert_eq!(consumer.holds(), [(RETRY.to_owned(), vec![0, 1, 2])]);
        }),
    ];
    for (what, ask) in asks {
        let (server, _) = house_with(&[RETRY]);
        assert_eq!(conflicts(&server), 0, "{what}: nobody has asked");
        ask(&mut server.client(), &server);
        assert_eq!(conflicts(&server), 1, "{what}");
    }
}

#[test]
fn a_commit_after_a_restart_reaches_the_conflicting_topic() {
    let (mut server, _) = house_with(&[DEAD]);
    let mut member = Member::new(&server, "readers", &[DEAD]);
    member.join(&[(DEAD, 3)]);
    assert_eq!(member.commit(DEAD, 0, 1), 0);
    server.restart();
    let request = member.commit_request(DEAD, 0, 2, "");
    let mut client = server.client();
    assert_eq!(conflicts(&server), 0);
    let told = client.call(8, &request);
    assert_eq!(told.topics[0].partitions[0].error_code, 0);
    assert_eq!(conflicts(&server), 1, "nobody has asked for Metadata since the start");
    let (group, topic) = ("readers".into(), DEAD.into());
    let there = server.cluster().router().broker.offsets.committed(&group, &topic, 0);
    assert_eq!(there.map(|committed| committed.offset), Some(2));
    assert!(server.router().broker.offsets.committed(&group, &topic, 0).is_none());
}

#[test]
fn retries_wait_while_the_cluster_has_their_topic() {
    let (server, mut direct) = house();
    let topics = &["orders", RETRY];
    let mut member = Member::new(&server, "shop", topics);
    member.session_ms = LONG_SESSION_MS;
    member.join(&[("orders", 1)]);
    assert_eq!(member.assigned.len(), 2);
    let mut client = server.client();
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    direct.create(RETRY, 3);
    is_of_cluster(&server, &mut client, RETRY);
    let mut second = Member::new(&server, "shop", topics);
    second.session_ms = LONG_SESSION_MS;
    crate::support::rebalance(&mut [&mut member, &mut second], &[("orders", 1), (RETRY, 3)]);
    let parked = || server.json("/api/v1/groups/shop")["parked"].clone();
    until("it is parked", || parked() == 1);
    client.delete(RETRY);
    crate::support::rebalance(&mut [&mut member, &mut second], &[("orders", 1)]);
    is_ours(&server, &mut client, RETRY);
    assert_eq!(member.retry_once().text(), "x");
    assert_eq!(conflicts(&server), 0);
}

fn creation(topic: &str, validate_only: bool) -> CreateTopicsRequest {
    let mut asked = CreatableTopic::default();
    (asked.name, asked.num_partitions, asked.replication_factor) = (s(topic), 1, 1);
    CreateTopicsRequest::default().with_topics(vec![asked]).with_validate_only(validate_only)
}

#[test]
fn creating_a_topic_of_ours_answers_that_it_exists() {
    let (server, mut direct) = house();
    let mut client = server.client();
    for validate_only in [true, false] {
        for (name, kind) in [
            ("reprise.dlq.my-sink", "dead-letter topic of group my-sink"),
            ("reprise.retry.my-sink", "retry topic of group my-sink"),
        ] {
            let made = client.call(7, &creation(name, validate_only)).topics.remove(0);
            assert_eq!(made.error_code, EXISTS(), "{name}");
            let says = made.error_message.unwrap();
            assert!(says.contains(kind) && says.contains("reprise serves itself"), "{says}");
        }
    }
    // A connector's dead-letter topic with a similar name is created in the cluster.
    client.create("dlq.my-sink", 1);
    assert!(is_there(&mut direct, "dlq.my-sink"));
    assert!(!is_there(&mut direct, "reprise.dlq.my-sink"));
}
