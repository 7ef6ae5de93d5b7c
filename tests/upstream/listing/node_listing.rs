//! In front of a cluster, only a client that needs this node sees it as another broker.

use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    DescribeClusterRequest, DescribeTopicPartitionsRequest, MetadataRequest, MetadataResponse,
};

use crate::support::client::s;
use crate::support::{Client, Consumer, Member, Rec, Server, instant};

const OURS: &str = "reprise.retry.shop";

fn house() -> Server {
    let server = Server::start();
    server.client().create("orders", 1);
    server
}

/// Ids of the brokers in the answer to Metadata of `orders`.
fn listed(client: &mut Client) -> Vec<i32> {
    let told = client.metadata(9, &["orders"]);
    told.brokers.iter().map(|broker| broker.node_id.0).collect()
}

fn described(client: &mut Client) -> Vec<i32> {
    let told = client.call(0, &DescribeClusterRequest::default());
    told.brokers.iter().map(|broker| broker.broker_id.0).collect()
}

fn all(client: &mut Client) -> MetadataResponse {
    client.call(9, &MetadataRequest::default().with_topics(None))
}

/// Ids of the cluster's brokers, without and with this node.
fn nodes(server: &Server) -> (Vec<i32>, Vec<i32>) {
    let cluster = server.cluster().node_id();
    (vec![cluster], vec![cluster, server.node_id()])
}

#[test]
fn a_client_of_cluster_topics_is_not_listed_this_node() {
    let server = house();
    let (without, _) = nodes(&server);
    let mut client = server.client();
    for version in 1..=13 {
        let told = client.metadata(version, &["orders"]);
        let told: Vec<i32> = told.brokers.iter().map(|broker| broker.node_id.0).collect();
        assert_eq!(told, without, "v{version}");
    }
    for version in [0, 1, 9] {
        let told = client.call(version, &MetadataRequest::default());
        assert_eq!(told.brokers.len(), 1, "v{version}: no group has retries");
    }
    assert_eq!((listed(&mut client), described(&mut client)), (without.clone(), without.clone()));
    let mut member = Member::new(&server, "store", &["orders"]);
    member.join(&[("orders", 1)]);
    assert_eq!(listed(&mut member.client), without);
}

/// A client that has used one of our topics.
type Use = fn(&Server) -> Client;

const USES: [(&str, Use); 6] = [
    ("Metadata by name", |server| {
        let mut client = server.client();
        let told = client.metadata(9, &[OURS]);
        assert_eq!(told.brokers.last().unwrap().node_id, server.node_id(), "with its leader");
        client
    }),
    ("Metadata by id", |server| {
        let id = server.client().metadata(12, &[OURS]).topics[0].topic_id;
        let mut client = server.client();
        let by_id = MetadataRequestTopic::default().with_topic_id(id).with_name(None);
        client.call(12, &MetadataRequest::default().with_topics(Some(vec![by_id])));
        client
    }),
    ("DescribeTopicPartitions", |server| {
        let mut client = server.client();
        let mut request = DescribeTopicPartitionsRequest::default();
        request.topics = vec![TopicRequest::default().with_name(s("reprise.dlq.shop"))];
        request.response_partition_limit = 1;
        client.call(0, &request);
        client
    }),
    ("JoinGroup", |server| {
        let mut member = Member::new(server, "shop", &["orders", OURS]);
        member.join(&[("orders", 1), (OURS, 1)]);
        member.client
    }),
    ("ConsumerGroupHeartbeat", |server| {
        let mut consumer = Consumer::new(server, "store", &["orders", "reprise.retry.store"]);
        consumer.enter();
        let told = consumer.client.metadata(9, &["orders"]);
        consumer.client.connect_to(&told.brokers[0])
    }),
    ("Produce", |server| {
        let mut client = server.client();
        client.nack("shop", "orders-0@0", Rec::new("x"));
        client
    }),
];

#[test]
fn a_client_that_uses_our_topics_stays_listed_this_node() {
    for (name, uses) in USES {
        let server = house();
        let (without, with) = nodes(&server);
        let mut client = uses(&server);
        assert_eq!(listed(&mut client), with, "{name}");
        assert_eq!(described(&mut client), with, "{name}");
        let told = client.metadata(9, &["orders"]);
        let mut elsewhere = client.connect_to(&told.brokers[0]);
        assert_eq!(listed(&mut elsewhere), with, "{name}: on each of its connections");
        assert_eq!(listed(&mut server.client()), without, "{name}: no other client");
    }
}

#[test]
fn a_listing_of_all_topics_names_the_leader_of_ours() {
    let server = house();
    let (without, with) = nodes(&server);
    let mut client = server.client();
    let ids =
        |told: &MetadataResponse| told.brokers.iter().map(|b| b.node_id.0).collect::<Vec<_>>();
    assert_eq!(ids(&all(&mut client)), without, "there are none");
    server.client().nack("shop", "orders-0@0", Rec::new("x"));
    assert_eq!(ids(&all(&mut client)), with);
    assert_eq!(described(&mut client), with, "tools ask for its leader so");
    assert_eq!(listed(&mut client), without, "a consumer by pattern fetches nothing here");
    assert_eq!(described(&mut server.client()), without);
}

#[test]
fn without_client_addresses_a_client_is_known_by_its_id() {
    let cluster = Server::alone();
    let server = Server::in_front_of_told(cluster.addr(), "");
    server.client().create("orders", 1);
    let called = |id: &str| {
        let mut client = server.client();
        id.clone_into(&mut client.id);
        client
    };
    called("consumer-shop-1").metadata(9, &[OURS]);
    let seen = |id: &str| listed(&mut called(id)).contains(&server.node_id());
    assert_eq!([seen("consumer-shop-1"), seen("adminclient-1")], [true, false]);
}

#[test]
fn a_leader_of_ours_is_found_again_after_a_restart() {
    let mut server = Server::with_kept_port();
    server.client().create("orders", 1);
    let mut client = server.client();
    let told = client.metadata(9, &[OURS]);
    let node = told.brokers.iter().find(|broker| broker.node_id == server.node_id()).unwrap();
    let node = node.clone();
    server.restart();
    let mut client = client.connect_to(&node);
    assert!(!listed(&mut client).contains(&server.node_id()), "nobody remembers");
    client.nack("shop", "orders-0@0", Rec::new("x"));
    assert!(listed(&mut client).contains(&server.node_id()));
}

#[test]
fn a_fetch_with_nothing_to_give_is_answered_soon() {
    let server = house();
    let mut member = Member::new(&server, "shop", &["orders", OURS]);
    member.join(&[("orders", 1), (OURS, 1)]);
    let (_, position, _) = member.client.list_offset(OURS, 0, -2);
    let began = instant();
    for _ in 0..3 {
        let data = member.client.fetch(OURS, 0, position, 60_000);
        assert_eq!((data.error_code, data.records.map(|r| r.len())), (0, Some(0)));
    }
    let took = began.elapsed().as_millis();
    assert!((1_400..10_000).contains(&took), "half a second each, no busy loop: {took} ms");
}
