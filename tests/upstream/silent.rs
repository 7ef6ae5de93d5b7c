//! Members of a cluster's group that send nothing through the sidecar.

use serde_json::json;

use crate::support::{Member, Rec, Server};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
/// Session timeout of the members: longer than a Fetch of the retry topic counts.
const SESSION_MS: u64 = 100_000;

/// Number of the group's live members, by the metric.
fn members(server: &Server) -> i64 {
    let count = server.metric("reprise_group_members{group=\"shop\"}");
    format!("{count:.0}").parse().unwrap()
}

/// Number of the group's due retries.
fn due(server: &Server) -> i64 {
    server.json("/api/v1/groups/shop")["due"].as_i64().unwrap()
}

/// A sidecar with a member of `shop`, whose one failed record waits.
fn with_retry(cluster: &Server) -> (Server, Member) {
    let server = Server::told_in_front_of(cluster.addr(), "retry: {levels: 150s}");
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", TOPICS);
    member.session_ms = i32::try_from(SESSION_MS).unwrap();
    member.join(PARTITIONS);
    member.client.put("orders", 0, &[Rec::new("x")]);
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    (server, member)
}

#[test]
fn a_silent_member_counts_neither_as_member_nor_as_taker() {
    let cluster = Server::alone();
    let (server, mut member) = with_retry(&cluster);
    assert_eq!((members(&server), due(&server)), (1, 0));
    server.pass(SESSION_MS - 100);
    assert_eq!(member.heartbeat(), 0);
    server.pass(SESSION_MS);
    assert_eq!(members(&server), 1, "heard of in time");
    server.pass(1);
    assert_eq!((members(&server), due(&server)), (0, 1));
    assert!((server.metric("reprise_records_due{group=\"shop\"}") - 1.0).abs() < 0.1);
    let shop = server.json("/api/v1/groups/shop");
    assert_eq!(shop["members"][0]["silent"], true, "{shop}");
    let advice = shop["advice"].to_string();
    assert!(advice.contains("its only member was not heard of"), "{advice}");
    let explained = server.json("/api/v1/explain?group=shop");
    assert_eq!(explained["advice"], shop["advice"]);
    let nack = json!({"group": "shop", "topic": "orders", "partition": 0, "offset": 0});
    let (status, refused) = server.post("/api/v1/nack", &nack.to_string());
    assert_eq!(status, 409, "{refused}");
    assert!(refused.to_string().contains("no member of the group was heard of"), "{refused}");
    assert_eq!(member.heartbeat(), 0);
    assert_eq!(members(&server), 1, "it is back");
}

#[test]
fn a_member_connected_to_the_cluster_needs_no_advice() {
    let server = Server::start();
    server.client().create("orders", 4);
    let mut here = Member::new(&server, "shop", &["orders"]);
    let mut there = Member::new(server.cluster(), "shop", TOPICS);
    crate::support::rebalance(&mut [&mut here, &mut there], &[("orders", 4)]);
    assert_eq!(here.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    crate::support::until("its release", || server.pending("shop")[0]["state"] == "unread");
    assert_eq!(server.json("/api/v1/groups/shop")["advice"], json!([]));
}
