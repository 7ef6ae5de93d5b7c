//! Advice on the members of a group, in `group explain` and on the page.

use crate::support::{Consumer, Member, Server, rebalance, settle, until};

const RETRY: &str = "reprise.retry.shop";

/// The number of changes to unlike topics in the group.
fn unlike_readers(server: &Server) -> String {
    server.metric("reprise_unlike_readers_total{group=\"shop\"}").to_string()
}

fn advice(server: &Server) -> String {
    server.json("/api/v1/explain?group=shop")["advice"].to_string()
}

#[test]
fn a_member_that_did_not_leave_is_told() {
    let server = Server::start();
    let member = Member::of_shop(&server);
    assert!(!advice(&server).contains("is gone"));
    drop(member);
    let says = "a member is gone; the group waits up to 10 s for it";
    until("its closed connection is noticed", || advice(&server).contains(says));
}

#[test]
fn listeners_of_unlike_topics_in_one_group_are_told() {
    let server = Server::start();
    let topics = ["orders", "payments"];
    for topic in topics {
        server.client().create(topic, 1);
    }
    let [mut orders, mut payments] =
        topics.map(|topic| Member::new(&server, "shop", &[topic, RETRY]));
    let partitions = [("orders", 1), ("payments", 1), (RETRY, 1)];
    rebalance(&mut [&mut orders], &partitions);
    assert!(!advice(&server).contains("unlike"), "one listener");
    assert_eq!(unlike_readers(&server), "0");
    rebalance(&mut [&mut orders, &mut payments], &partitions);
    assert!(advice(&server).contains("beside unlike topics (orders | payments)"));
    assert_eq!(unlike_readers(&server), "1");
}

#[test]
fn consumers_of_unlike_topics_in_one_group_are_told() {
    let server = Server::start();
    for topic in ["orders", "payments"] {
        server.client().create(topic, 1);
    }
    let mut orders = Consumer::new(&server, "shop", &["orders", RETRY]);
    let mut payments = Consumer::new(&server, "shop", &["payments", RETRY]);
    orders.enter();
    payments.enter();
    settle(&mut [&mut orders, &mut payments]);
    assert!(advice(&server).contains("beside unlike topics (orders | payments)"));
    assert_eq!(unlike_readers(&server), "1");
}
