//! Retry partitions of KIP-848 members: added to assignments in answers, removed from those in
//! heartbeats.

use crate::support::{Consumer, Rec, Server, settle, until};

in_front!(
    each_consumer_group_member_has_its_own_partition_0,
    retries_come_through_it_and_are_acknowledged_by_a_commit,
    only_members_subscribed_to_the_retry_topic_have_a_slot,
    open_retries_of_a_member_that_leaves_come_to_another,
    open_retries_of_an_expired_member_go_to_another,
    a_restart_changes_nothing_of_it,
    a_static_members_next_process_continues_in_its_slot,
    a_static_members_final_leave_returns_its_open_retries,
    a_member_that_joins_again_keeps_its_slot,
    topic_ids_of_the_sidecar_are_known_before_any_metadata,
    a_group_without_a_lane_is_assigned_no_retry_partition,
    a_member_at_its_previous_epoch_may_own_its_slot,
    a_member_rejoining_at_once_has_a_slot
);

fn house() -> Server {
    let server = Server::start();
    server.client().create("orders", 4);
    server
}

fn member(server: &Server) -> Consumer {
    Consumer::new(server, "shop", &["orders", "reprise.retry.shop"])
}

fn slot(position: i64) -> i64 {
    assert!(position >= 1 << 50, "{position} is no lane offset");
    (position - (1 << 50)) >> 34
}

fn has_lane(member: &mut Consumer) -> bool {
    member.holds().contains(&("reprise.retry.shop".to_owned(), vec![0]))
}

fn each_consumer_group_member_has_its_own_partition_0() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    assert!(has_lane(&mut a));
    b.enter();
    assert_eq!(b.holds(), [("reprise.retry.shop".to_owned(), vec![0])], "its lane comes at once");
    settle(&mut [&mut a, &mut b]);
    assert!(has_lane(&mut a) && has_lane(&mut b));
    assert_eq!((a.orders().len(), b.orders().len()), (2, 2), "even without it");
    let mut slots = [slot(a.position()), slot(b.position())];
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    assert_eq!((a.generation, b.generation), (2, 2), "not one rebalance more");
}

fn retries_come_through_it_and_are_acknowledged_by_a_commit() {
    let server = house();
    let mut a = member(&server);
    a.enter();
    settle(&mut [&mut a]);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let got = a.retry_once();
    assert_eq!((got.text().as_str(), got.number("RECONSUME_TIME")), ("x", 1));
    let epoch = a.generation;
    a.generation = epoch + 1;
    let retry = a.retry();
    assert_ne!(a.commit(&retry, 0, got.offset + 1), 0, "not at another epoch");
    a.generation = epoch;
    assert_eq!(a.position(), got.offset);
    a.done(got.offset + 1);
    assert_eq!(a.position(), got.offset + 1);
}

fn only_members_subscribed_to_the_retry_topic_have_a_slot() {
    let server = house();
    let (mut a, mut b) = (member(&server), Consumer::new(&server, "shop", &["orders"]));
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    assert!(has_lane(&mut a) && !has_lane(&mut b));
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    a.retry_once();
    a.topics = vec!["orders".to_owned()];
    let whole = a.whole_request();
    a.send(&whole);
    assert!(!has_lane(&mut a), "{:?}", a.holds());
    until("it is parked", || server.json("/api/v1/groups/shop")["parked"] == 1);
    b.topics.push("reprise.retry.shop".to_owned());
    let whole = b.whole_request();
    b.send(&whole);
    assert!(has_lane(&mut b));
    assert_eq!(b.retry_once().number("RECONSUME_TIME"), 1, "lost, not failed");
}

fn open_retries_of_a_member_that_leaves_come_to_another() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let first = a.retry_once();
    a.go(-1);
    let second = b.retry_once();
    assert_eq!(slot(second.offset), slot(b.position()));
    assert_ne!(slot(second.offset), slot(first.offset));
    assert_eq!(second.number("RECONSUME_TIME"), 1);
}

fn open_retries_of_an_expired_member_go_to_another() {
    let server = Server::with(
        "retry: {levels: 20ms}\n\
         membership: {consumer_session_timeout: 3s, consumer_heartbeat_interval: 50ms}",
    );
    server.client().create("orders", 4);
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let first = a.retry_once();
    b.enter();
    until("a is gone", || {
        b.acknowledge();
        b.orders().len() == 4
    });
    let from = b.position();
    let mut got = Vec::new();
    until("the retry", || {
        b.acknowledge();
        let data = b.fetch_lane(from, 100);
        got = crate::support::batch::unpack(&data.records.unwrap());
        !got.is_empty()
    });
    assert_eq!(got[0].text(), "x");
    assert_ne!(slot(got[0].offset), slot(first.offset));
}

fn a_restart_changes_nothing_of_it() {
    let mut server = house();
    let mut a = member(&server);
    a.enter();
    settle(&mut [&mut a]);
    assert_eq!(a.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let got = a.retry_once();
    let held = a.held.clone();
    server.restart();
    a.client = server.client();
    assert_eq!(a.position(), got.offset, "known by its member id before it has said anything");
    assert_eq!(a.beat().assignment, None);
    let whole = a.whole_request();
    a.send(&whole);
    assert_eq!(a.held, held, "the same ids");
    let open = a.retries();
    assert_eq!(open[0].offset, got.offset, "the same hand-out");
    a.done(got.offset + 1);
}

fn a_static_members_next_process_continues_in_its_slot() {
    let server = house();
    let mut old = member(&server).fixed("one");
    old.enter();
    assert_eq!(old.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let got = old.retry_once();
    old.go(-2);
    let mut new = member(&server).fixed("one");
    new.enter();
    new.client = server.client();
    assert_eq!(new.position(), got.offset, "by its member id, on any connection");
    assert_eq!(new.retries()[0].offset, got.offset);
}

fn a_static_members_final_leave_returns_its_open_retries() {
    let server = house();
    let mut old = member(&server).fixed("one");
    old.enter();
    assert_eq!(old.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let first = old.retry_once();
    old.instance = None;
    old.go(-1);
    let mut new = member(&server);
    new.enter();
    let second = new.retry_once();
    assert_eq!(slot(second.offset), slot(first.offset), "nobody has it any more");
    assert_eq!(second.number("RECONSUME_TIME"), 1, "lost, not failed");
}

fn a_member_that_joins_again_keeps_its_slot() {
    let server = house();
    let mut a = member(&server);
    a.enter();
    let before = a.position();
    a.enter();
    assert!(has_lane(&mut a));
    assert_eq!(a.position(), before);
}

fn topic_ids_of_the_sidecar_are_known_before_any_metadata() {
    let server = house();
    let mut a = member(&server);
    a.enter();
    // by id alone, on another connection, like a client that got only the heartbeat's answer
    a.client = server.client();
    let names: Vec<String> = a.holds().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["orders", "reprise.retry.shop"]);
    let mut reader = Consumer::new(&server, "audit", &["reprise.dlq.shop"]);
    reader.enter();
    assert_eq!(reader.holds(), [("reprise.dlq.shop".to_owned(), vec![0])]);
}

fn a_group_without_a_lane_is_assigned_no_retry_partition() {
    let server = Server::with("groups: [{match: shop, delivery: off}]");
    server.client().create("orders", 4);
    let mut a = member(&server);
    a.enter();
    assert_eq!(a.holds().len(), 1);
}

fn a_member_at_its_previous_epoch_may_own_its_slot() {
    let server = house();
    let (mut a, mut b) = (member(&server), member(&server));
    a.enter();
    b.enter();
    a.beat();
    a.acknowledge();
    assert_eq!(a.generation, 2);
    a.generation = 1;
    a.acknowledge();
    assert_eq!(a.generation, 2, "the lane is no partition that it was not given");
    let mut whole = a.whole_request();
    whole.member_epoch = 0;
    let lane = a.client.metadata(12, &["reprise.retry.shop"]).topics[0].topic_id;
    whole.topic_partitions.as_mut().unwrap().retain(|of| of.topic_id == lane);
    a.send(&whole);
    assert!(has_lane(&mut a), "nor does it hinder joining again");
}

fn a_member_rejoining_at_once_has_a_slot() {
    let server = house();
    let mut a = member(&server);
    for _ in 0..200 {
        a.enter();
        slot(a.position());
        a.go(-1);
    }
}
