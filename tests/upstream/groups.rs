//! Groups of the cluster whose members are connected to this sidecar, to another one, or directly.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{DescribeGroupsRequest, MetadataRequest, OffsetFetchRequest};
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::pass;
use crate::support::client::s;
use crate::support::member::assigned;
use crate::support::{Client, Consumer, Member, Rec, Server, rebalance, settle, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 4), ("reprise.retry.shop", 1)];
const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];

fn house() -> Server {
    let server = Server::start();
    server.client().create("orders", 4);
    server
}

fn has_lane(member: &Member) -> bool {
    member.assigned.contains(&("reprise.retry.shop".to_owned(), vec![0]))
}

fn orders(member: &Member) -> usize {
    let held = member.assigned.iter().filter(|(topic, _)| topic == "orders");
    held.map(|(_, partitions)| partitions.len()).sum()
}

/// A connection to the cluster itself.
fn direct(server: &Server) -> Client {
    Client::connect(server.cluster().addr())
}

#[test]
fn nothing_of_ours_appears_in_the_cluster() {
    let server = house();
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    let offset = member.client.put("orders", 0, &[Rec::new("x")]);
    member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
    let retry = member.retry_once();
    assert_eq!(member.commit("orders", 0, offset + 1), 0);
    member.done(retry.offset + 1);
    let mut cluster = direct(&server);
    let topics = cluster.call(9, &MetadataRequest::default().with_topics(None)).topics;
    let names: Vec<String> = topics.iter().map(|t| t.name.as_ref().unwrap().to_string()).collect();
    assert_eq!(names, ["orders"]);
    let mut asked = DescribeGroupsRequest::default();
    asked.groups = vec![s("shop")];
    let told = cluster.call(5, &asked).groups.remove(0);
    assert_eq!(
        assigned(&told.members[0].member_assignment),
        [("orders".to_owned(), vec![0, 1, 2, 3])]
    );
    let offsets = server.cluster().json("/api/v1/groups/shop");
    let known = offsets["offsets"].as_array().unwrap();
    assert_eq!(known.len(), 1, "{offsets}");
    assert_eq!((&known[0]["topic"], &known[0]["committed"]), (&"orders".into(), &1.into()));
}

#[test]
fn members_of_two_sidecars_and_the_cluster_share_a_group() {
    let server = house();
    let beside = server.beside();
    let mut ours = Member::new(&server, "shop", TOPICS);
    let mut theirs = Member::new(&beside, "shop", TOPICS);
    let mut alone = Member::new(server.cluster(), "shop", TOPICS);
    rebalance(&mut [&mut ours, &mut theirs, &mut alone], PARTITIONS);
    assert!(ours.leads, "the first one leads");
    assert!(has_lane(&ours) && has_lane(&theirs), "{:?} {:?}", ours.assigned, theirs.assigned);
    assert!(!has_lane(&alone), "it is handed nothing it could not fetch: {:?}", alone.assigned);
    assert_eq!(orders(&ours) + orders(&theirs) + orders(&alone), 4);
    // A failure at one sidecar is retried by that sidecar.
    theirs.client.nack("shop", "orders-0@1", Rec::new("theirs"));
    assert_eq!(theirs.retry_once().text(), "theirs");
    ours.client.nack("shop", "orders-0@2", Rec::new("ours"));
    assert_eq!(ours.retry_once().text(), "ours");
}

/// Each client object knows one sidecar, and no broker has this node id.
#[test]
fn two_sidecars_of_one_node_id_share_a_group() {
    let cluster = Server::alone();
    let sidecar = || Server::in_front_of(cluster.addr(), "node_id: 7\nretry: {levels: 20ms}");
    let both = [sidecar(), sidecar()];
    both[0].client().create("orders", 4);
    let [mut a, mut b] = both.each_ref().map(|server| Member::new(server, "shop", TOPICS));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    for (n, member) in [&mut a, &mut b].into_iter().enumerate() {
        assert!(has_lane(member) && orders(member) == 2, "{:?}", member.assigned);
        let origin = format!("orders-0@{n}");
        assert_eq!(member.client.nack("shop", &origin, Rec::new(&origin)).error_code, 0);
        assert_eq!(member.retry_once().text(), origin, "it comes back where it was told");
    }
    for server in &both {
        assert!(!server.router().node_clash());
        assert_eq!(server.json("/api/v1/overview")["node_id"], 7);
    }
}

#[test]
fn members_have_retry_partitions_despite_a_leader_without_the_sidecar() {
    let server = house();
    let mut alone = Member::new(server.cluster(), "shop", TOPICS);
    let mut ours = Member::new(&server, "shop", TOPICS);
    // The leader is connected to the cluster, which has no retry topic.
    rebalance(&mut [&mut alone, &mut ours], &[("orders", 4)]);
    assert!(alone.leads);
    assert!(has_lane(&ours) && !has_lane(&alone));
    ours.client.nack("shop", "orders-0@2", Rec::new("x"));
    assert_eq!(ours.retry_once().text(), "x");
}

#[test]
fn dead_letter_assignments_stay_local_to_one_member() {
    let server = house();
    let topics = &["orders", "reprise.dlq.shop"];
    let holds =
        |member: &Member| member.assigned.contains(&("reprise.dlq.shop".to_owned(), vec![0]));
    let mut direct = Member::new(server.cluster(), "audit", &["orders"]);
    let mut a = Member::new(&server, "audit", topics);
    let mut b = Member::new(&server, "audit", topics);
    // The leader does not know the dead-letter topic.
    rebalance(&mut [&mut direct, &mut a, &mut b], &[("orders", 4)]);
    assert!(direct.leads && holds(&a) != holds(&b), "{:?} {:?}", a.assigned, b.assigned);
    let (mut first, mut second) = if holds(&a) { (a, b) } else { (b, a) };
    assert_eq!(direct.leave(), 0);
    assert_eq!(first.leave(), 0);
    // The new leader knows the topic, and assigns it.
    until("the rebalance", || second.heartbeat() == ResponseError::RebalanceInProgress.code());
    second.join(&[("orders", 4), ("reprise.dlq.shop", 1)]);
    assert!(second.leads && holds(&second), "{:?}", second.assigned);
    let mut asked = DescribeGroupsRequest::default();
    asked.groups = vec![s("audit")];
    let told = self::direct(&server).call(5, &asked).groups.remove(0);
    let assigned = assigned(&told.members[0].member_assignment);
    assert_eq!(assigned, [("orders".to_owned(), vec![0, 1, 2, 3])]);
}

#[test]
fn a_leaving_or_silent_member_returns_its_retries() {
    let server = house();
    let mut a = Member::new(&server, "shop", TOPICS);
    let mut b = Member::new(&server, "shop", TOPICS);
    a.session_ms = 1_000;
    b.session_ms = 1_000;
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    a.client.nack("shop", "orders-0@1", Rec::new("x"));
    let first = a.retry_once();
    assert_eq!(a.leave(), 0);
    // The retry is in the group's queue again after a back-off, for any remaining member.
    let again = b.retry_once();
    assert_eq!((again.text(), again.reconsume_times()), (first.text(), first.reconsume_times()));
    drop(b);
    let mut c = Member::new(&server, "shop", TOPICS);
    until("the silent member is missed", || {
        c = Member::new(&server, "shop", TOPICS);
        c.join(PARTITIONS);
        orders(&c) == 4
    });
    assert_eq!(c.retry_once().text(), "x");
}

#[test]
fn a_removed_members_next_heartbeat_returns_its_retries() {
    let server = house();
    let mut a = Member::new(&server, "shop", TOPICS);
    let mut b = Member::new(&server, "shop", TOPICS);
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    a.client.nack("shop", "orders-0@1", Rec::new("x"));
    assert_eq!(a.retry_once().text(), "x");
    // An administrator connected to the cluster.
    let mut tool = Member::new(server.cluster(), "shop", &[]);
    tool.id = a.id.clone();
    assert_eq!(tool.leave(), 0);
    assert_eq!(a.heartbeat(), ResponseError::UnknownMemberId.code());
    assert_eq!(b.retry_once().text(), "x");
}

#[test]
fn a_member_that_is_none_any_more_commits_nothing() {
    let server = house();
    let mut a = Member::new(&server, "shop", TOPICS);
    a.join(PARTITIONS);
    a.client.nack("shop", "orders-0@1", Rec::new("x"));
    let retry = a.retry_once();
    let (id, generation) = (a.id.clone(), a.generation);
    assert_eq!(a.leave(), 0);
    (a.id, a.generation) = (id, generation);
    let unknown = ResponseError::UnknownMemberId.code();
    assert_eq!(a.commit("reprise.retry.shop", 0, retry.offset + 1), unknown);
    assert_eq!(a.commit("orders", 0, 1), unknown);
}

#[test]
fn an_error_of_a_topic_refuses_no_acknowledgement() {
    let server = house();
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    member.client.nack("shop", "orders-0@1", Rec::new("x"));
    let retry = member.retry_once();
    let commit = |member: &mut Member, others: &[&str]| {
        let mut request = member.commit_request("nowhere", 0, 1, "");
        let more = others.iter().flat_map(|topic| member.commit_request(topic, 0, 1, "").topics);
        request.topics.extend(more);
        let lane = member.commit_request("reprise.retry.shop", 0, retry.offset + 1, "");
        request.topics.extend(lane.topics);
        let answer = member.client.call(9, &request);
        answer.topics.iter().map(|topic| topic.partitions[0].error_code).collect::<Vec<_>>()
    };
    let missing = ResponseError::UnknownTopicOrPartition.code();
    let generation = std::mem::replace(&mut member.generation, 99);
    let refused = ResponseError::IllegalGeneration.code();
    assert_eq!(commit(&mut member, &[]).last(), Some(&refused));
    member.generation = generation;
    assert_eq!(commit(&mut member, &["orders"]), [missing, 0, 0]);
    assert_eq!(server.json("/api/v1/groups/shop")["pending"], 0);
    member.client.nack("shop", "orders-0@2", Rec::new("y"));
    assert_eq!(member.retries_from(retry.offset + 1)[0].text(), "y");
    assert_eq!(commit(&mut member, &[]), [missing, 0], "a heartbeat proves the membership");
}

#[test]
fn non_members_acknowledge_no_retry() {
    let server = house();
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(PARTITIONS);
    member.client.nack("shop", "orders-0@1", Rec::new("x"));
    let retry = member.retry_once();
    let mut stranger = Member::new(&server, "shop", &[]);
    stranger.generation = -1;
    let unknown = ResponseError::UnknownMemberId.code();
    assert_eq!(stranger.commit("reprise.retry.shop", 0, retry.offset + 1), unknown);
    let mut empty = stranger.commit_request("orders", 0, 1, "");
    empty.topics[0].partitions.clear();
    empty
        .topics
        .extend(stranger.commit_request("reprise.retry.shop", 0, retry.offset + 1, "").topics);
    let told = stranger.client.call(9, &empty);
    assert_eq!(told.topics[1].partitions[0].error_code, unknown);
    assert_eq!(member.retries()[0].offset, retry.offset, "it is still the member's");
}

#[test]
fn a_new_member_gets_the_retries_of_a_dead_sidecar() {
    let server = Server::with(
        "retry: {levels: 20ms}\n\
         membership: {consumer_session_timeout: 1s, consumer_heartbeat_interval: 500ms}",
    );
    server.client().create("orders", 4);
    let mut old = Member::new(&server, "shop", TOPICS);
    old.session_ms = 1_000;
    old.join(PARTITIONS);
    old.client.nack("shop", "orders-0@1", Rec::new("x"));
    assert_eq!(old.retry_once().text(), "x");
    let again = server.killed();
    let mut new = Member::new(&again, "shop", TOPICS);
    until("the cluster misses the old member", || {
        new = Member::new(&again, "shop", TOPICS);
        new.join(PARTITIONS);
        orders(&new) == 4
    });
    assert_eq!(new.retry_once().text(), "x");
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
    assert_eq!((&members[0]["takes_retries"], &members[0]["slot"]), (&true.into(), &0.into()));
    assert_eq!(seen["advice"].as_array().unwrap().len(), 0, "somebody takes them: {seen}");
    let listed = server.json("/api/v1/groups").to_string();
    assert!(listed.contains("shop"), "{listed}");
    ours.leave();
    let seen = server.json("/api/v1/groups/shop");
    let advice = seen["advice"][0].as_str().unwrap();
    assert!(advice.contains("no member that is connected through this sidecar"), "{seen}");
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

#[test]
fn local_offsets_of_cluster_groups_last_while_they_have_members() {
    let cluster = Server::alone();
    let server = Server::told_in_front_of(cluster.addr(), "");
    let mut member = Member::new(&server, "audit", &["reprise.dlq.shop"]);
    member.client.nack("shop", "orders-0@1", Rec::new("x").header("x-retry-level", "-1"));
    member.join(&[("reprise.dlq.shop", 1)]);
    assert_eq!(member.commit("reprise.dlq.shop", 0, 1), 0);
    let mut nobody = Member::new(&server, "nobody", &[]);
    nobody.generation = -1;
    assert_eq!(nobody.commit("reprise.dlq.shop", 0, 1), 0);
    // The member's last commit is as old, and each poll advances the clock by a day.
    until("what a group without members has committed is forgotten", || {
        server.pass(24 * 3_600_000);
        assert_eq!(member.heartbeat(), 0);
        nobody.position_of("reprise.dlq.shop", 0) == -1
    });
    assert_eq!(member.position_of("reprise.dlq.shop", 0), 1);
}

#[test]
fn a_kip_848_member_keeps_its_dead_letters_over_restarts() {
    let mut server = house();
    let held =
        |member: &mut Consumer| member.holds().contains(&("reprise.dlq.shop".to_owned(), vec![0]));
    let mut a = Consumer::new(&server, "audit", &["orders", "reprise.dlq.shop"]);
    a.enter();
    settle(&mut [&mut a]);
    assert!(held(&mut a));
    assert_eq!(a.commit("reprise.dlq.shop", 0, 0), 0);
    server.restart();
    a.client = server.client();
    assert_eq!(a.beat().assignment, None, "while nothing changes nothing is asked of it");
    // The assignment of the cluster's topic changes, while the member's heartbeat has no
    // subscription.
    let mut b = Consumer::new(server.cluster(), "audit", &["orders"]);
    b.enter();
    let quiet = a.quiet_request();
    let fenced = ResponseError::FencedMemberEpoch.code();
    until("it is told to join anew", || a.client.call(1, &quiet).error_code == fenced);
    a.enter();
    settle(&mut [&mut a, &mut b]);
    assert!(held(&mut a) && a.orders().len() == 2);
    b.go(-1);
    until("it has all of them, and is not fenced again", || {
        a.acknowledge();
        a.orders().len() == 4
    });
    assert!(held(&mut a));
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
