//! Retry topics that the cluster has: a due retry is one of its records.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::CreatePartitionsRequest;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;

use crate::kafka::{Kafka, State};
use crate::older::older;
use crate::support::batch::{plain, unpack};
use crate::support::client::s;
use crate::support::{Got, Member, Rec, Server, until};

const RETRY: &str = "reprise.retry.shop";
const PARTITIONS: i32 = 2;

fn server() -> Server {
    Server::with("retry: {levels: 20ms, partitions: 2}")
}

/// A member of `shop` that reads `orders` and the retry topic.
fn member(server: &Server) -> Member {
    let mut client = server.client();
    if client.metadata(9, &["orders"]).topics[0].error_code != 0 {
        client.create("orders", 1);
    }
    let mut member = Member::new(server, "shop", &["orders", RETRY]);
    member.join(&[("orders", 1), (RETRY, PARTITIONS)]);
    member
}

/// Retries beyond the positions, which move behind them. Waits for `count`.
fn retries(member: &mut Member, at: &mut BTreeMap<i32, i64>, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    until("the retries", || {
        for partition in 0..PARTITIONS {
            let position = at.entry(partition).or_default();
            let data = member.client.leader("orders").fetch(RETRY, partition, *position, 10);
            assert_eq!(data.error_code, 0);
            for record in unpack(&data.records.unwrap_or_default()) {
                *position = record.offset + 1;
                got.push(record);
            }
        }
        got.len() >= count
    });
    assert_eq!(got.len(), count, "{got:?}");
    got
}

fn has_letter(server: &Server) -> bool {
    server.json("/api/v1/groups")["items"][0]["dead_letters"] == 1
}

/// A nack with these headers of a delivery.
fn copy(got: &Got, names: &[&str]) -> Rec {
    names.iter().fold(Rec::new("a"), |nack, name| nack.header(name, got.header(name).unwrap()))
}

fn commit(member: &mut Member, at: &BTreeMap<i32, i64>) {
    for (partition, offset) in at {
        assert_eq!(member.commit(RETRY, *partition, *offset), 0);
    }
}

#[test]
fn a_due_retry_is_a_record_of_the_cluster() {
    let server = server();
    let mut member = member(&server);
    let there = server.cluster().client().metadata(9, &[RETRY]);
    assert_eq!((there.topics[0].error_code, there.topics[0].partitions.len()), (0, 2));
    assert_eq!(member.position(), 0, "latest would skip the first retries");

    member.client.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut at = BTreeMap::new();
    for (offset, value) in [(0, "a"), (1, "b")] {
        let nacked = member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new(value));
        assert_eq!(nacked.error_code, 0);
        let got = retries(&mut member, &mut at, 1);
        assert_eq!((got[0].text(), got[0].reconsume_times()), (value.to_owned(), 1));
    }
    assert_eq!(server.pending("shop").len(), 2, "both are released and not acknowledged");
    commit(&mut member, &at);
    until("the end of both", || server.pending("shop").is_empty());
}

#[test]
fn an_older_cluster_gets_a_topic_with_replicas() {
    let (cluster, addr) = older();
    cluster.client().create("orders", 1);
    let server = Server::in_front_of(addr, "retry: {levels: 20ms, partitions: 2}");
    let mut member = member(&server);
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("r")).error_code, 0);
    retries(&mut member, &mut BTreeMap::new(), 1);
}

#[test]
fn a_cluster_never_makes_a_retry_topic_by_itself() {
    let kafka = Kafka::start(State::default());
    kafka.state().no_topics = true;
    let server = Server::in_front_of(kafka.addr, "");
    let mut client = server.client();
    assert_eq!(client.metadata(9, &["orders", RETRY]).topics[1].error_code, 3);
    assert!(kafka.state().auto_made.is_empty(), "its partitions would be the cluster's default");
    client.metadata(9, &["orders"]);
    assert_eq!(kafka.state().auto_made, BTreeSet::from(["orders".to_owned()]));
}

#[test]
fn a_retry_that_fails_again_comes_back_with_its_count() {
    let server = server();
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a")]);
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    let mut at = BTreeMap::new();
    for count in 1..5 {
        let got = retries(&mut member, &mut at, 1).remove(0);
        assert_eq!(got.reconsume_times(), count);
        let (partition, end) = at.iter().find(|(_, end)| **end > 0).unwrap();
        let place = format!("{RETRY}-{partition}@{}", end - 1);
        assert_eq!(member.client.nack("shop", &place, Rec::new("a")).error_code, 0);
        commit(&mut member, &at);
    }
    let got = retries(&mut member, &mut at, 1).remove(0);
    assert_eq!(got.reconsume_times(), 5);
    commit(&mut member, &at);
    until("its end", || server.pending("shop").is_empty());
}

#[test]
fn a_member_at_another_sidecar_gets_the_retry() {
    let server = server();
    let other = server.beside();
    let mut member = member(&other);
    member.client.put("orders", 0, &[Rec::new("a")]);
    let nacked = server.client().nack("shop", "orders-0@0", Rec::new("a"));
    assert_eq!(nacked.error_code, 0);
    let mut at = BTreeMap::new();
    let got = retries(&mut member, &mut at, 1);
    assert_eq!((got[0].text(), got[0].reconsume_times()), ("a".to_owned(), 1));
    commit(&mut member, &at);
    until("its end", || server.pending("shop").is_empty());
}

#[test]
fn a_sidecar_lists_the_letters_of_groups_with_members() {
    let server = server();
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a")]);
    let dead = Rec::new("a").header("x-retry-level", "-1");
    assert_eq!(member.client.nack("shop", "orders-0@0", dead).error_code, 0);
    until("it is a dead letter", || has_letter(&server));
    // The other one knows nothing of the group, as after the loss of its disk.
    let other = server.beside();
    let mut there = Member::new(&other, "shop", &["orders"]);
    there.join(&[("orders", 1)]);
    until("the letter is found", || has_letter(&other));
    // Lists read rows, which are written a moment after the count.
    let listed = || other.json("/api/v1/dead-letters?group=shop");
    until("the letter is listed", || listed()["items"][0]["origin"] == "orders-0@0");
}

#[test]
fn a_nack_at_another_sidecar_goes_on_counting() {
    let server = server();
    let other = server.beside();
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a")]);
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    let mut at = BTreeMap::new();
    for count in 1..4 {
        let got = retries(&mut member, &mut at, 1).remove(0);
        assert_eq!(got.reconsume_times(), count);
        let (partition, end) = at.iter().find(|(_, end)| **end > 0).unwrap();
        let place = format!("{RETRY}-{partition}@{}", end - 1);
        let nack = copy(&got, &["RECONSUME_TIME", "ORIGIN_MESSAGE_ID"]);
        let at_other = if count % 2 == 0 { &server } else { &other };
        assert_eq!(at_other.client().nack("shop", &place, nack).error_code, 0);
        commit(&mut member, &at);
    }
    assert_eq!(retries(&mut member, &mut at, 1)[0].reconsume_times(), 4);
}

#[test]
fn a_failed_redrive_by_another_sidecar_comes_back() {
    let server = server();
    let other = server.beside();
    let mut member = member(&other);
    member.client.put("orders", 0, &[Rec::new("a")]);
    let dead = Rec::new("a").header("x-retry-level", "-1");
    assert_eq!(server.client().nack("shop", "orders-0@0", dead).error_code, 0);
    until("both know the dead letter", || has_letter(&server) && has_letter(&other));
    let body = r#"{"group": "shop", "offsets": [0], "anyway": true, "note": "mended"}"#;
    let (code, answer) = server.post("/api/v1/dead-letters/redrive", body);
    assert_eq!(code, 200, "{answer}");
    let mut at = BTreeMap::new();
    let got = retries(&mut member, &mut at, 1).remove(0);
    assert_eq!((got.reconsume_times(), got.number("x-retry-delivery")), (0, 1));

    let place = at.iter().find(|(_, end)| **end > 0).unwrap();
    let place = format!("{RETRY}-{}@{}", place.0, place.1 - 1);
    let copied =
        ["RECONSUME_TIME", "ORIGIN_MESSAGE_ID", "x-retry-delivery", "x-retry-redrive-count"];
    let nack = copy(&got, &copied);
    assert_eq!(other.client().nack("shop", &place, nack).error_code, 0);
    commit(&mut member, &at);
    let got = retries(&mut member, &mut at, 1).remove(0);
    assert_eq!((got.reconsume_times(), got.number("x-retry-delivery")), (1, 2));
    assert_eq!(got.number("x-retry-redrive-count"), 1);
    commit(&mut member, &at);
}

#[test]
fn an_added_partition_takes_nacks_and_gets_retries() {
    let server = server();
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a")]);
    let mut topic = CreatePartitionsTopic::default();
    (topic.name, topic.count, topic.assignments) = (s(RETRY), PARTITIONS + 1, None);
    let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
    assert_eq!(member.client.call(3, &request).results[0].error_code, 0);
    let nack = Rec::new("a").header("x-retry-origin", "orders-0@0");
    let nacked = member.client.produce(RETRY, PARTITIONS, plain(&[nack]));
    assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
    let mut at = BTreeMap::new();
    assert_eq!(retries(&mut member, &mut at, 1)[0].text(), "a");
    commit(&mut member, &at);

    // The sidecar learns it from an answer to any client.
    assert_eq!(member.client.metadata(9, &[RETRY]).topics[0].partitions.len(), 3);
    let mut got = Vec::new();
    until("a retry in the added partition", || {
        let offset = member.client.put("orders", 0, &[Rec::new("b")]);
        let nacked = member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new("b"));
        assert_eq!(nacked.error_code, 0);
        let data = member.client.leader("orders").fetch(RETRY, PARTITIONS, 0, 100);
        got = unpack(&data.records.unwrap_or_default());
        !got.is_empty()
    });
    let place = format!("{RETRY}-{PARTITIONS}@0");
    assert_eq!(member.client.nack("shop", &place, Rec::new("b")).error_code, 0);
    assert_eq!(member.commit(RETRY, PARTITIONS, 1), 0);
    until("it comes back", || {
        let mut all = Vec::new();
        for partition in 0..=PARTITIONS {
            let data = member.client.leader("orders").fetch(RETRY, partition, 0, 10);
            all.extend(unpack(&data.records.unwrap_or_default()));
        }
        let origin = got[0].header("ORIGIN_MESSAGE_ID");
        all.iter()
            .any(|one| one.header("ORIGIN_MESSAGE_ID") == origin && one.reconsume_times() == 2)
    });
}

#[test]
fn a_killed_sidecar_loses_no_retry_and_repeats_none() {
    let server = server();
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut at = BTreeMap::new();
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    retries(&mut member, &mut at, 1);
    until("its release", || server.pending("shop")[0]["state"] == "unread");

    let again = server.killed();
    drop(server);
    let mut member = self::member(&again);
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("b")).error_code, 0);
    let got = retries(&mut member, &mut at, 1);
    assert_eq!(got[0].text(), "b");
    commit(&mut member, &at);
    until("the end of both", || again.pending("shop").is_empty());
}

#[test]
fn committed_retries_are_deleted_from_their_topic_after_a_day() {
    let cluster = Server::alone();
    let yaml = "retry: {levels: 20ms, partitions: 2}";
    let server = Server::told_in_front_of(cluster.addr(), yaml);
    let mut member = member(&server);
    member.client.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut at = BTreeMap::new();
    for (offset, value) in [(0, "a"), (1, "b")] {
        let nacked = member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new(value));
        assert_eq!(nacked.error_code, 0);
        server.pass(20);
        retries(&mut member, &mut at, 1);
    }
    commit(&mut member, &at);
    let start = |partition| cluster.client().list_offset(RETRY, partition, -2).1;
    until("they are deleted", || {
        server.pass(3_600_000);
        at.iter().all(|(partition, end)| start(*partition) == *end)
    });
}
