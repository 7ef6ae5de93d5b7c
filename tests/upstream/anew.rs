//! A topic deleted and recreated while a retry of it waits, with clients of versions without topic
//! ids: a failure at the same offset of the new topic is a first failure.

use kafka_protocol::messages::MetadataRequest;

use crate::older::older;
use crate::support::{Member, Rec, Server, rebalance};

const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
/// No retry becomes due during the test.
const SETTINGS: &str = "retry: {levels: 1h}";

fn filled(cluster: &Server) {
    let mut client = cluster.client();
    client.create("orders", 1);
    let batch = crate::support::batch::plain(&[Rec::new("x")]);
    cluster.stored("orders", &batch);
}

/// Recreates the topic, with requests that bypass the sidecar.
fn made_anew(cluster: &Server) {
    cluster.client().delete("orders");
    filled(cluster);
}

fn joined(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", TOPICS);
    // Sessions end by real time, which the tests do not advance.
    member.session_ms = 60_000;
    member.join(PARTITIONS);
    member
}

/// Nacks the first record. Returns the number of waiting retries.
fn failed(server: &Server, member: &mut Member) -> u64 {
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    server.json("/api/v1/overview")["pending"].as_u64().unwrap()
}

#[test]
fn metadata_without_topic_ids_reveals_a_recreated_topic() {
    let server = Server::with(SETTINGS);
    filled(server.cluster());
    let mut member = joined(&server);
    let mut waiting = failed(&server, &mut member);
    assert_eq!(waiting, 1);
    for version in 1..=9 {
        made_anew(server.cluster());
        let told = member.client.metadata(version, &["orders"]);
        assert!(told.topics[0].topic_id.is_nil() && told.topics[0].partitions.len() == 1);
        waiting += 1;
        assert_eq!(failed(&server, &mut member), waiting, "v{version}");
        assert_eq!(failed(&server, &mut member), waiting, "v{version}: it is known");
    }
}

#[test]
fn an_older_clients_metadata_is_the_same_without_the_sidecar() {
    let server = Server::with(SETTINGS);
    filled(server.cluster());
    let (mut here, mut direct) = (server.client(), server.cluster().client());
    for version in 0..=9 {
        let lists = [None, Some(&[][..]), Some(&["orders"][..]), Some(&["missing", "orders"])];
        for list in lists.into_iter().filter(|list| version > 0 || list.is_some()) {
            let told = |client: &mut crate::support::Client| match list {
                Some(topics) => client.metadata(version, topics).topics,
                None => client.call(version, &MetadataRequest::default().with_topics(None)).topics,
            };
            assert_eq!(told(&mut here), told(&mut direct), "v{version}: {list:?}");
        }
    }
}

/// A sidecar with a simulated clock, and its cluster.
fn told() -> (Server, Server) {
    let cluster = Server::alone();
    filled(&cluster);
    let server = Server::told_in_front_of(cluster.addr(), SETTINGS);
    (server, cluster)
}

#[test]
fn heartbeats_reveal_a_recreated_topic_within_half_a_minute() {
    let (server, cluster) = told();
    let mut member = joined(&server);
    assert_eq!(failed(&server, &mut member), 1);
    for round in 1..=3 {
        made_anew(&cluster);
        for _ in 0..10 {
            server.pass(3_000);
            assert_eq!(member.heartbeat(), 0);
        }
        assert_eq!(failed(&server, &mut member), 1 + round);
    }
}

#[test]
fn a_join_reveals_a_recreated_topic() {
    let (server, cluster) = told();
    let mut member = joined(&server);
    assert_eq!(failed(&server, &mut member), 1);
    made_anew(&cluster);
    server.pass(1_000);
    rebalance(&mut [&mut member, &mut Member::new(&server, "shop", TOPICS)], PARTITIONS);
    assert_eq!(failed(&server, &mut member), 2);
}

#[test]
fn a_cluster_without_topic_ids_is_never_asked_for_them() {
    let (cluster, addr) = older();
    filled(&cluster);
    let server = Server::in_front_of(addr, SETTINGS);
    let mut member = joined(&server);
    assert_eq!(member.client.metadata(9, &["orders"]).topics[0].partitions.len(), 1);
    assert_eq!((member.heartbeat(), failed(&server, &mut member)), (0, 1));
}
