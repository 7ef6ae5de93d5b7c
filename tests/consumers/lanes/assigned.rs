//! Assignment of private partitions: `SyncGroup`, slots, leaving, rejoining.

use bytes::Bytes;
use reprise::wire::ResponseError;
use reprise::wire::assignment::Assignment;

use crate::support::member::{Assignor, rebalance_by};
use crate::support::{Member, Rec, Server, rebalance, until};

in_front!(
    each_member_has_a_private_partition_0_and_slot,
    a_member_without_a_retry_subscription_has_no_slot,
    an_assignment_skewed_by_the_retry_topic_is_balanced,
    streams_assignments_are_left_as_they_are,
    streams_that_subscribe_to_a_retry_topic_are_refused,
    open_retries_of_a_leaver_go_to_another_member,
    a_static_leave_by_member_id_returns_open_retries,
    a_reused_slot_continues_its_offsets,
    a_static_member_redeployed_without_the_retry_topic_strands_nothing,
    the_slot_survives_rebalances_and_the_members_own_rejoin
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 4), ("reprise.retry.shop", 1)];

fn house() -> Server {
    let server = Server::start();
    server.client().create("orders", 4);
    server
}

fn member(server: &Server) -> Member {
    Member::new(server, "shop", &["orders", "reprise.retry.shop"])
}

fn slot(position: i64) -> i64 {
    assert!(position >= 1 << 50, "{position} is no lane offset");
    (position - (1 << 50)) >> 34
}

fn orders(member: &Member) -> Vec<i32> {
    let held = member.assigned.iter().filter(|(topic, _)| topic == "orders");
    held.flat_map(|(_, partitions)| partitions.clone()).collect()
}

fn has_lane(member: &Member) -> bool {
    member.assigned.iter().filter(|(topic, _)| topic == "reprise.retry.shop").count() == 1
        && member.assigned.contains(&("reprise.retry.shop".to_owned(), vec![0]))
}

fn each_member_has_a_private_partition_0_and_slot() {
    let server = house();
    let (mut a, mut b, mut c) = (member(&server), member(&server), member(&server));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    assert!(has_lane(&a) && has_lane(&b), "{:?} {:?}", a.assigned, b.assigned);
    assert_eq!((orders(&a).len(), orders(&b).len()), (2, 2));
    rebalance(&mut [&mut a, &mut b, &mut c], PARTITIONS);
    assert!(has_lane(&a) && has_lane(&b) && has_lane(&c));
    let mut slots = [slot(a.position()), slot(b.position()), slot(c.position())];
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
}

fn a_member_without_a_retry_subscription_has_no_slot() {
    let server = house();
    let (mut a, mut b) = (member(&server), Member::new(&server, "shop", &["orders"]));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    assert!(has_lane(&a) && !has_lane(&b), "{:?} {:?}", a.assigned, b.assigned);
    assert_eq!(b.position(), 0, "it would see the snapshot");
}

/// Gives the first member by id three real partitions, and the other one the fourth and the retry
/// topic. An assignor that counts the retry topic like any other finds this balanced.
const SKEWED: Assignor<'static> = &|mut seen| {
    seen.sort();
    let mut all: Vec<(String, Assignment)> =
        seen.into_iter().map(|(id, _)| (id, Assignment::empty())).collect();
    let last = all.len() - 1;
    for partition in 0..3 {
        all[0].1.append(&"orders".into(), partition);
    }
    all[last].1.append(&"orders".into(), 3);
    all[last].1.append(&"reprise.retry.shop".into(), 0);
    all.into_iter().map(|(id, given)| (id, given.to_bytes())).collect::<Vec<(String, Bytes)>>()
};

fn an_assignment_skewed_by_the_retry_topic_is_balanced() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    for member in [&mut a, &mut b] {
        "sticky".clone_into(&mut member.protocol);
    }
    rebalance_by(&mut [&mut a, &mut b], SKEWED);
    assert!(has_lane(&a) && has_lane(&b));
    let mut all = [orders(&a), orders(&b)].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3], "each real partition once");
    assert_eq!((orders(&a).len(), orders(&b).len()), (2, 2));
}

fn streams_assignments_are_left_as_they_are() {
    let server = house();
    let mut streams = Member::new(&server, "shop", &["orders"]);
    "stream".clone_into(&mut streams.protocol);
    rebalance(&mut [&mut streams], &[("orders", 4)]);
    assert_eq!(streams.assigned, [("orders".to_owned(), vec![0, 1, 2, 3])]);
}

fn streams_that_subscribe_to_a_retry_topic_are_refused() {
    let server = house();
    for topic in ["reprise.retry.shop", "reprise.retry.other"] {
        let mut streams = Member::new(&server, "shop", &["orders", topic]);
        "stream".clone_into(&mut streams.protocol);
        let told = streams.client.call(9, &streams.join_request());
        let refused = ResponseError::InconsistentGroupProtocol.code();
        assert_eq!((told.error_code, told.generation_id), (refused, -1), "{topic}");
    }
}

fn open_retries_of_a_leaver_go_to_another_member() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let first = a.retry_once();
    assert_eq!(a.leave(), 0);
    let second = b.retry_once();
    assert_eq!(slot(second.offset), slot(b.position()));
    assert_ne!(slot(second.offset), slot(first.offset));
    assert_eq!(second.number("RECONSUME_TIME"), 1, "lost, not failed");
    assert_eq!(second.number("x-retry-attempt"), first.number("x-retry-attempt"));
    let gap = second.number("x-retry-due-ms") - first.number("x-retry-due-ms");
    assert!(gap >= 1000, "backed off by {gap} ms");
    // `a`'s own slot has no member: it delivers nothing, and causes no offset reset
    let data = b.fetch_lane(first.offset, 0);
    assert_eq!((data.error_code, data.high_watermark), (0, first.offset));
    assert!(data.records.unwrap().is_empty());
}

fn a_static_leave_by_member_id_returns_open_retries() {
    let server = house();
    let mut a = member(&server).fixed("one");
    // The session outlasts this test, so the silence does not expire it.
    a.session_ms = 60_000;
    a.join(PARTITIONS);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let first = a.retry_once();
    // A Java client that closes for good sends no `group.instance.id`.
    a.instance = None;
    assert_eq!(a.leave(), 0);
    until("it is given back", || server.json("/api/v1/groups/shop")["inflight"] == 0);
    let mut b = member(&server);
    b.join(PARTITIONS);
    let second = b.retry_once();
    assert_eq!(slot(second.offset), slot(first.offset), "nobody has it any more");
    assert_eq!(second.number("RECONSUME_TIME"), 1, "lost, not failed");
}

fn a_reused_slot_continues_its_offsets() {
    let server = house();
    let mut a = member(&server);
    a.join(PARTITIONS);
    for n in 0..3 {
        assert_eq!(a.client.nack("shop", &format!("orders-0@{n}"), Rec::new("x")).error_code, 0);
        let got = a.retry_once();
        a.done(got.offset + 1);
    }
    let last = a.position();
    assert_eq!(a.leave(), 0);
    let mut b = member(&server);
    b.join(PARTITIONS);
    assert_eq!(b.position(), last, "the same slot, behind everything it handed out");
}

fn a_static_member_redeployed_without_the_retry_topic_strands_nothing() {
    let server = house();
    let mut old = member(&server).fixed("one");
    old.join(PARTITIONS);
    assert_eq!(old.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    old.retry_once();
    let mut new = Member::new(&server, "shop", &["orders"]).fixed("one");
    new.join(PARTITIONS);
    assert!(!has_lane(&new));
    until("it is parked", || {
        assert_eq!(new.heartbeat(), 0, "the member lives on, only its subscription is gone");
        server.json("/api/v1/groups/shop")["parked"] == 1
    });
    let mut again = member(&server).fixed("one");
    again.join(PARTITIONS);
    assert!(has_lane(&again));
    assert_eq!(again.retry_once().number("RECONSUME_TIME"), 1);
}

fn the_slot_survives_rebalances_and_the_members_own_rejoin() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.join(PARTITIONS);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let got = a.retry_once();
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    assert_eq!(a.position(), got.offset, "still open, still a's");
    let from = b.position();
    let data = b.fetch_lane(from, 0);
    assert!(data.records.unwrap().is_empty(), "b is not given what a holds");
    a.done(got.offset + 1);
    assert_eq!(a.position(), got.offset + 1);
}
