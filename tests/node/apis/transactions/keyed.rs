//! `order.mode: key` with open transactions: a `read_uncommitted` member has records outstanding
//! above the last stable offset.

use bytes::Bytes;

use crate::support::Producer;
use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Got, Member, Rec, Server};

const RULES: &str = "retry: {levels: 20ms, order: {mode: key}}";

fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..Rec::new(value) }
}

/// A member to which every record is outstanding. The first record belongs to an open transaction.
/// The last one, of key `k`, belongs to the same transaction.
fn with_open(server: Server) -> (Server, Member, Producer) {
    server.client().create("t", 1);
    let mut producer = Producer::begin(&server, "other");
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    assert_eq!(producer.put_record(9, "t", rec("other", "open")), 0);
    server.client().put("t", 0, &[rec("k", "k1"), rec("j", "j2"), rec("k", "k3")]);
    assert_eq!(producer.put_record(9, "t", rec("k", "k4")), 0);
    let mut member = Member::new(&server, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
    let given = member.client.fetch("t", 0, 0, 1_000);
    assert_eq!((given.last_stable_offset, given.high_watermark), (0, 5));
    (server, member, producer)
}

fn retried(member: &mut Member) -> String {
    let got = member.retry_once();
    member.done(got.offset + 1);
    got.text()
}

#[test]
fn records_of_open_transactions_wait_behind_a_failed_key() {
    for committed in [true, false] {
        let (server, mut member, mut producer) = with_open(Server::with(RULES));
        assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
        assert_eq!(member.commit("t", 0, 5), 0);
        assert_eq!(producer.end(3, committed), 0);
        server.client().put("t", 0, &[rec("k", "k6")]);
        let given = member.client.fetch("t", 0, 6, 0).records.unwrap();
        assert_eq!(given.get(57..61), Some(&[0; 4][..]), "it waits as well: {given:?}");
        let all: &[&str] = if committed { &["k1", "k3", "k4", "k6"] } else { &["k1", "k3", "k6"] };
        for value in all {
            assert_eq!(retried(&mut member), *value, "{committed}");
        }
    }
}

/// The retries in one Fetch of the retry partition, by isolation level.
fn given(member: &mut Member, isolation: i8) -> Vec<Got> {
    let from = member.position();
    let request = fetch_request("reprise.retry.shop", 0, from, 0).with_isolation_level(isolation);
    let data = member.client.fetch_by(11, &request);
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap())
}

#[test]
fn key_blocked_records_of_open_transactions_are_not_delivered() {
    for committed in [true, false] {
        let (server, mut member, mut producer) = with_open(Server::told(RULES));
        assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
        assert_eq!(member.commit("t", 0, 5), 0);
        server.pass(20);
        assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
        for _ in 0..3 {
            assert_eq!([0, 1].map(|isolation| given(&mut member, isolation)), [vec![], vec![]]);
            server.pass(1_000);
        }
        let killed = server.json("/api/v1/explain?record=t-0@4").to_string();
        assert!(killed.contains("its transaction is open"), "{killed}");
        assert_eq!(producer.end(3, committed), 0);
        server.client().put("t", 0, &[rec("k", "k6")]);
        assert_eq!(member.client.fetch("t", 0, 6, 0).error_code, 0);
        server.pass(1_000);
        if committed {
            let got = given(&mut member, 1).remove(0);
            assert_eq!((got.text().as_str(), got.reconsume_times()), ("k4", 0));
            let place = format!("reprise.retry.shop-0@{}", got.offset);
            assert_eq!(member.client.nack("shop", &place, rec("k", "k4")).error_code, 0);
            server.pass(20);
            let got = given(&mut member, 1).remove(0);
            assert_eq!((got.text().as_str(), got.reconsume_times()), ("k4", 1), "once");
            member.done(got.offset + 1);
        }
        assert_eq!(retried(&mut member), "k6");
    }
}

#[test]
fn a_key_blocked_record_nacked_meanwhile_is_charged_once() {
    let (server, mut member, mut producer) = with_open(Server::told(RULES));
    assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
    server.pass(20);
    assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
    assert_eq!(given(&mut member, 0), []);
    // The nack counts for the delivery from the partition. A retry that was never delivered adds
    // nothing.
    assert_eq!(member.client.nack("shop", "t-0@4", rec("k", "k4")).error_code, 0);
    assert_eq!(producer.end(3, true), 0);
    server.pass(1_000);
    let got = given(&mut member, 1).remove(0);
    assert_eq!((got.text().as_str(), got.reconsume_times()), ("k4", 1));
}
