//! Groups of the cluster whose members are connected to this sidecar, to another one, or directly.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use kafka_protocol::messages::OffsetFetchRequest;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::pass;
use crate::support::client::s;
use crate::support::{Member, Rec, Server, rebalance, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 4), ("reprise.retry.shop", 1)];
const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];

fn house() -> Server {
    let server = Server::start();
    server.client().create("orders", 4);
    server
}

#[test]
fn members_of_two_sidecars_and_the_cluster_share_the_retries() {
    let server = house();
    let beside = server.beside();
    let mut ours = Member::new(&server, "shop", TOPICS);
    let mut theirs = Member::new(&beside, "shop", TOPICS);
    let mut direct = Member::new(server.cluster(), "shop", TOPICS);
    rebalance(&mut [&mut ours, &mut theirs, &mut direct], PARTITIONS);
    let retry_is_of = |member: &Member| member.assigned.iter().any(|(of, _)| of == TOPICS[1]);
    let holders = [&ours, &theirs, &direct].map(retry_is_of);
    assert_eq!(holders.iter().filter(|holds| **holds).count(), 1, "as of any topic");
    for (n, member) in [&mut theirs, &mut ours].into_iter().enumerate() {
        let origin = format!("orders-0@{n}");
        assert_eq!(member.client.nack("shop", &origin, Rec::new(&origin)).error_code, 0);
        let at = i64::try_from(n).unwrap();
        let got = direct.retries_from(at);
        assert_eq!((got[0].text(), got[0].offset), (origin, at));
    }
}

#[test]
fn a_member_that_is_none_any_more_commits_nothing() {
    let server = house();
    let mut a = Member::new(&server, "shop", TOPICS);
    a.join(PARTITIONS);
    let (id, generation) = (a.id.clone(), a.generation);
    assert_eq!(a.leave(), 0);
    (a.id, a.generation) = (id, generation);
    let unknown = ResponseError::UnknownMemberId.code();
    assert_eq!(a.commit("reprise.retry.shop", 0, 1), unknown);
    assert_eq!(a.commit("orders", 0, 1), unknown);
}

#[test]
fn people_see_the_members_that_are_connected_here() {
    let server = house();
    let mut ours = Member::new(&server, "shop", TOPICS);
    let mut alone = Member::new(server.cluster(), "shop", &["orders"]);
    rebalance(&mut [&mut ours, &mut alone], PARTITIONS);
    ours.client.nack("shop", "orders-0@1", Rec::new("x"));
    let seen = server.json("/api/v1/groups/shop");
    assert_eq!((&seen["phase"], &seen["kind"]), (&"InCluster".into(), &"classic".into()));
    let members = seen["members"].as_array().unwrap();
    assert_eq!(members.len(), 1, "{seen}");
    assert_eq!(members[0]["member_id"], ours.id);
    let told = server.metric("reprise_group_members{group=\"shop\"}");
    assert!((told - 1.0).abs() < 0.1, "{told}");
    assert_eq!(members[0]["client_id"], "test");
    assert_eq!(members[0]["takes_retries"], true);
    assert_eq!(seen["advice"].as_array().unwrap().len(), 0, "somebody takes them: {seen}");
    let listed = server.json("/api/v1/groups").to_string();
    assert!(listed.contains("shop"), "{listed}");
    let later = Rec::new("x").header("x-retry-delay-ms", "60000");
    ours.client.nack("shop", "orders-0@2", later);
    ours.leave();
    let says = "no member that is connected through this sidecar";
    // Until the first retry is released, its topic counts as read.
    until("the advice", || server.json("/api/v1/groups/shop")["advice"].to_string().contains(says));
}

#[test]
fn commits_of_the_cluster_are_shown_after_a_restart() {
    let server = house();
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    let again = server.killed();
    member.client = again.client();
    assert_eq!((member.heartbeat(), member.commit("orders", 0, 7)), (0, 0));
    let offsets = again.json("/api/v1/groups/shop")["offsets"].clone();
    assert_eq!(offsets[0]["committed"], 7, "{offsets}");
    assert!(!again.get("/groups/shop").contains("has seen no commit"));
    let first = "reprise_dlq_records_total{group=\"shop\",reason=\"rejected\",topic=\"orders\"} 0";
    assert!(again.get("/metrics").contains(first), "the counters begin at 0");
}

#[test]
fn a_reset_made_at_the_cluster_is_seen() {
    let server = house();
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    assert_eq!(member.commit("orders", 0, 7), 0);
    assert_eq!(member.position_of("orders", 0), 7);
    member.client.nack("shop", "orders-0@3", Rec::new("x"));
    let retry = member.retry_once();
    member.done(retry.offset + 1);
    assert_eq!(member.leave(), 0);
    // A tool connected to the cluster, while the group has no members.
    let mut tool = Member::new(server.cluster(), "shop", &[]);
    tool.generation = -1;
    assert_eq!(tool.commit("orders", 0, 2), 0);
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    assert_eq!(member.position_of("orders", 0), 2, "what the cluster says");
    // The replayed original has no failures: its nack makes a new entry, and is no repetition.
    member.client.nack("shop", "orders-0@3", Rec::new("x"));
    assert_eq!(member.retry_once().reconsume_times(), 1);
}

/// OffsetFetch 1: the cluster answers `NOT_COORDINATOR` for orders-0.
const REFUSED_V1: &[u8] =
    b"\0\0\0\x01\0\x06orders\0\0\0\x01\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x10";

/// A coordinator that refuses every OffsetFetch in the whole: `NOT_COORDINATOR` at the partitions
/// of version 1, at the top of the answer, or of each group since version 8.
fn refuses_offsets(mut stream: TcpStream, behind: SocketAddr) {
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let body: &[u8] = match (asked.frame[1], asked.frame[3]) {
            (9, 1) => REFUSED_V1,
            (9, 2) => &[0, 0, 0, 0, 0, 16],
            (9, 3..=5) => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 16],
            (9, 6..=7) => &[0, 0, 0, 0, 0, 1, 0, 16, 0],
            (9, _) => &[0, 0, 0, 0, 0, 2, 5, b's', b'h', b'o', b'p', 1, 0, 16, 0, 0],
            _ => match pass(&asked, &mut behind) {
                Some(told) => {
                    answer(&mut stream, asked.correlation_id, &told);
                    continue;
                }
                None => return,
            },
        };
        answer(&mut stream, asked.correlation_id, body);
    }
}

#[test]
fn a_refused_offset_fetch_passes_without_retry_offsets() {
    let behind: Arc<OnceLock<SocketAddr>> = Arc::default();
    let told = Arc::clone(&behind);
    let addr = broker(move |stream| refuses_offsets(stream, *told.wait()));
    let cluster = Server::alone_as(addr);
    behind.set(cluster.addr()).unwrap();
    let server = Server::in_front_of(addr, "");
    let mut client = server.client();
    let names = ["orders", "reprise.retry.shop"];
    for version in 1..=9 {
        let mut request = OffsetFetchRequest::default();
        if version < 8 {
            let topic = |name: &str| {
                let topic = OffsetFetchRequestTopic::default().with_name(s(name));
                topic.with_partition_indexes(vec![0])
            };
            request.group_id = s("shop");
            request.topics = Some(names.map(topic).to_vec());
            let told = client.call(version, &request);
            let topics: Vec<&str> = told.topics.iter().map(|topic| topic.name.as_str()).collect();
            if version < 2 {
                assert_eq!(topics, ["orders"]);
                assert_eq!(told.topics[0].partitions[0].error_code, 16);
            } else {
                assert_eq!((told.error_code, topics.len()), (16, 0), "v{version}");
            }
        } else {
            let topic = |name: &str| {
                let topic = OffsetFetchRequestTopics::default().with_name(s(name));
                topic.with_partition_indexes(vec![0])
            };
            let group = OffsetFetchRequestGroup::default().with_group_id(s("shop"));
            request.groups = vec![group.with_topics(Some(names.map(topic).to_vec()))];
            let told = client.call(version, &request).groups;
            assert_eq!((told.len(), told[0].error_code), (1, 16), "v{version}");
            assert_eq!(told[0].topics, Vec::new(), "v{version}");
        }
    }
}
