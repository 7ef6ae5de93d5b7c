//! Origins in nacks, and the effect of each: by value, by reference, late, twice.

use bytes::BytesMut;
use kafka_protocol::messages::{OffsetCommitRequest, ProduceRequest};
use kafka_protocol::protocol::Encodable;
use reprise::model::RetryPair;
use reprise::route::clients::conn::Conn;
use reprise::route::nacks::origin_records::ReadBack;
use reprise::wire::names::Templates;
use reprise::wire::{Api, RequestHead, ResponseError};

use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, until};

both!(
    a_nack_by_value_returns_the_produced_bytes,
    a_nack_names_its_group_where_the_topic_does_not,
    a_nack_of_a_dead_letter_is_counted,
    by_reference_the_origins_bytes_come_back,
    a_nack_by_value_accepts_an_unknown_origin,
    stale_headers_an_application_copied_are_replaced_and_not_believed,
    a_delivery_is_charged_once_and_older_ones_never,
    a_commit_that_overtook_the_nack_takes_nothing_away,
    unawaited_nacks_before_a_commit_are_durable_with_it,
    an_answered_nack_survives_an_immediate_kill,
    a_commit_waits_for_all_earlier_nacks,
    a_settled_origin_is_remembered_until_committed_past
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    (server, member)
}

/// Sends a nack of this origin. Returns the error code.
fn nack(member: &mut Member, origin: &str) -> i16 {
    member.client.nack("shop", origin, Rec::new("x")).error_code
}

fn by_reference(member: &mut Member, origin: &str) -> i16 {
    let mut record = Rec::new("").header("x-retry-by-reference", "true");
    (record.key, record.value) = (None, None);
    member.client.nack("shop", origin, record).error_code
}

fn a_nack_by_value_returns_the_produced_bytes() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    member.client.put("orders", 0, &[Rec::new("original")]);
    let sent = Rec::new("changed");
    assert_eq!(member.client.nack("shop", "orders-0@0", sent).error_code, 0);
    let again = Rec::new("another");
    assert_eq!(member.client.nack("shop", "orders-0@0", again).error_code, 0);
    assert_eq!(member.retry_once().text(), "changed", "the first one's bytes stay");
}

fn a_nack_names_its_group_where_the_topic_does_not() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("x")]);
    let pair = |group: &str| RetryPair { group: group.into(), source: Some("orders".into()) };
    let hashed = Templates::default().retry_topic(&pair("my shop"));
    let nack = Rec::new("x").header("x-retry-origin", "orders-0@0");
    let named = |group: &str| plain(&[nack.clone().header("x-retry-group", group)]);
    assert_eq!(client.produce(hashed.as_str(), 0, named("my shop")).error_code, 0);
    let waiting = |group: &str| server.json(&format!("/api/v1/retries?group={group}"));
    assert_eq!(waiting("my%20shop")["items"][0]["origin"], "orders-0@0");
    let refused = client.produce(hashed.as_str(), 0, named("other"));
    assert_eq!(refused.error_code, ResponseError::InvalidRecord.code());
    // Two readings: the topic of the origin tells the group.
    let two = client.produce("reprise.retry.a--b--orders", 0, plain(std::slice::from_ref(&nack)));
    assert_eq!(two.error_code, 0);
    assert_eq!(waiting("a--b")["items"].as_array().unwrap().len(), 1);
}

fn a_nack_of_a_dead_letter_is_counted() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    member.client.put("orders", 0, &[Rec::new("original")]);
    let known = || server.metric("reprise_nacks_known_total{group=\"shop\"}").to_string();
    let dead = Rec::new("x").header("x-retry-level", "-1");
    assert_eq!(member.client.nack("shop", "orders-0@0", dead).error_code, 0);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(known(), "0");
    assert_eq!(nack(&mut member, "orders-0@0"), 0);
    assert_eq!(known(), "1", "it is acknowledged, and no redrive yet");
}

fn by_reference_the_origins_bytes_come_back() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    let mut original = Rec::new("original").header("a", "1").header("a", "2");
    // a producer's own headers with our names are ignored and dropped
    original = original.header("RECONSUME_TIME", "9").header("x-retry-attempt", "7");
    member.client.put("orders", 0, &[Rec::new("other"), original]);
    assert_eq!(by_reference(&mut member, "orders-0@1"), 0);
    let got = member.retry_once();
    assert_eq!(got.text(), "original");
    assert_eq!(got.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(
        got.headers[..2].iter().map(|h| &h.1.as_ref().unwrap()[..]).collect::<Vec<_>>(),
        [b"1", b"2"]
    );
    assert_eq!((got.number("RECONSUME_TIME"), got.number("x-retry-attempt")), (1, 2));
    // a delivery by reference: the entry has its bytes already
    assert_eq!(by_reference(&mut member, &format!("reprise.retry.shop-0@{}", got.offset)), 0);
    member.done(got.offset + 1);
    let again = member.retry_once();
    assert_eq!((again.text().as_str(), again.number("RECONSUME_TIME")), ("original", 2));
}

fn a_nack_by_value_accepts_an_unknown_origin() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    for origin in ["elsewhere-7@812", "orders-0@99999", "a-b@c-3@5"] {
        assert_eq!(nack(&mut member, origin), 0, "{origin}");
        let got = member.retry_once();
        assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), origin);
        member.done(got.offset + 1);
    }
    let failed =
        "reprise_records_failed_total{group=\"shop\",reason=\"rejected\",topic=\"elsewhere\"}";
    until("the counter", || server.metric(failed) >= 1.0);
}

fn stale_headers_an_application_copied_are_replaced_and_not_believed() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(nack(&mut member, "orders-0@3"), 0);
    let got = member.retry_once();
    member.done(got.offset + 1);
    // the usual error handler sends the record and the origin as received
    let mut copied = Rec::new(&got.text());
    copied.headers.clone_from(&got.headers);
    copied = copied.header("mine", "1").header("x-retry-origin", "nonsense");
    let origin = format!("reprise.retry.shop-0@{}", got.offset);
    assert_eq!(member.client.nack("shop", &origin, copied).error_code, 0);
    let again = member.retry_once();
    assert_eq!(again.number("RECONSUME_TIME"), 2);
    assert_eq!(again.header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@3");
    assert_eq!(again.header("x-retry-origin"), None);
}

fn a_delivery_is_charged_once_and_older_ones_never() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(nack(&mut member, "orders-0@3"), 0);
    assert_eq!(nack(&mut member, "orders-0@3"), 0, "known: acknowledged");
    let first = member.retry_once();
    assert_eq!(first.number("RECONSUME_TIME"), 1, "charged once");
    let older = format!("reprise.retry.shop-0@{}", first.offset);
    assert_eq!((nack(&mut member, &older), nack(&mut member, &older)), (0, 0));
    let second = member.retries_from(first.offset + 1).remove(0);
    assert_eq!(second.number("RECONSUME_TIME"), 2);
    assert_eq!(nack(&mut member, &older), 0, "an older hand-out: acknowledged");
    member.done(second.offset + 1);
    // by the true origin, which no commit has passed: the entry is known and final
    assert_eq!(nack(&mut member, "orders-0@3"), 0);
    let listed = server.pending("shop");
    assert!(listed.is_empty(), "nothing waits: {listed:?}");
}

fn a_commit_that_overtook_the_nack_takes_nothing_away() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    member.client.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(nack(&mut member, "orders-0@1"), 0, "a first failure, although committed");
    let got = member.retry_once();
    assert_eq!(got.number("RECONSUME_TIME"), 1);
    member.done(got.offset + 1);
    assert_eq!(
        nack(&mut member, &format!("reprise.retry.shop-0@{}", got.offset)),
        0,
        "committed first"
    );
    let got = member.retries_from(got.offset + 1).remove(0);
    assert_eq!(got.number("RECONSUME_TIME"), 2, "alive again");
    // by the true origin, which is outstanding, and the commit is past it
    assert_eq!(nack(&mut member, "orders-0@1"), 0);
    let got = member.retries_from(got.offset + 1).remove(0);
    assert_eq!(got.number("RECONSUME_TIME"), 3);
}

fn unawaited_nacks_before_a_commit_are_durable_with_it() {
    let (server, mut member) = shop("retry: {levels: 1h}");
    let records: Vec<Rec> = (0..50).map(|n| Rec::new(&n.to_string())).collect();
    member.client.put("orders", 0, &records);
    let mut other = server.client();
    let nacks = |n: i32| {
        let record = Rec::new("x").header("x-retry-origin", format!("orders-0@{n}"));
        produce_request("reprise.retry.shop", 0, plain(&[record]), -1)
    };
    for round in 0..5 {
        let sent: Vec<_> =
            (round * 10..round * 10 + 10).map(|n| other.send(9, &nacks(n))).collect();
        let passed = i64::from(round * 10 + 10);
        let commit = member.commit_request("orders", 0, passed, "");
        let committed = member.client.send(9, &commit);
        for sent in sent {
            let answer = other.receive::<ProduceRequest>(sent);
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        let answer = member.client.receive::<OffsetCommitRequest>(committed);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        let after = server.killed();
        assert_eq!(i64::try_from(after.pending("shop").len()).unwrap(), passed);
        let kept = offset_fetch(&mut after.client(), 7, "shop", "orders", 0);
        assert_eq!(kept.0, passed);
    }
}

fn an_answered_nack_survives_an_immediate_kill() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(nack(&mut member, "orders-0@1"), 0);
    let got = member.retry_once();
    assert_eq!(nack(&mut member, &format!("reprise.retry.shop-0@{}", got.offset)), 0);
    let after = server.killed();
    member.client = after.client();
    assert_eq!(member.heartbeat(), 0, "the member is known");
    let again = member.retries_from(got.offset + 1).remove(0);
    assert_eq!(again.number("RECONSUME_TIME"), 2, "and the count");
    member.done(again.offset + 1);
    let after = after.killed();
    member.client = after.client();
    assert_eq!(member.position(), again.offset + 1, "and what was acknowledged");
    assert!(member.client.read_all("reprise.dlq.shop").is_empty());
}

fn a_commit_waits_for_all_earlier_nacks() {
    let (server, mut member) = shop("retry: {levels: 1h}");
    let conn = Conn::new(0, server.addr(), ("here".to_owned(), 1), None, None);
    conn.learn_right(&"shop".into(), true);
    let mut waiting = Vec::new();
    for batch in 0..10 {
        let of = |n: i32| Rec::new("x").header("x-retry-origin", format!("orders-0@{n}"));
        let records: Vec<Rec> = (batch * 150..batch * 150 + 150).map(of).collect();
        let mut body = BytesMut::new();
        produce_request("reprise.retry.shop", 0, plain(&records), -1).encode(&mut body, 9).unwrap();
        let (api, api_key, body) = (Api::Produce, Api::Produce.key(), body.freeze());
        let head =
            RequestHead { api, api_key, version: 9, correlation_id: 1, client_id: None, body };
        // the request has reached the sidecar when this returns; the test does not wait for the
        // answer
        waiting.push(server.router().answer(&conn, head, ReadBack::default()));
    }
    // after a wait of 5 s the commit is refused, and the client tries again
    let slow = ResponseError::CoordinatorNotAvailable.code();
    until("the commit", || match member.commit("orders", 0, 1) {
        0 => true,
        refused => {
            assert_eq!(refused, slow);
            false
        }
    });
    let after = server.killed();
    assert_eq!(after.json("/api/v1/groups/shop")["pending"], 1500);
    drop(waiting);
}

fn a_settled_origin_is_remembered_until_committed_past() {
    let (_server, mut member) = shop("retry: {levels: 20ms, consume_timeout: 1s}");
    member.client.put("orders", 0, &[Rec::new("a")]);
    assert_eq!(nack(&mut member, "orders-0@0"), 0);
    let got = member.retry_once();
    member.done(got.offset + 1);
    let later = |member: &mut Member, n: i32| {
        let record = Rec::new("clock").header("x-retry-delay-ms", "1200");
        assert_eq!(member.client.nack("shop", &format!("clock-0@{n}"), record).error_code, 0);
        let clock = member.retry_once();
        assert_eq!(clock.text(), "clock");
        member.done(clock.offset + 1);
    };
    later(&mut member, 1);
    assert_eq!(nack(&mut member, "orders-0@0"), 0, "known and settled: nothing to do");
    later(&mut member, 2);
    assert_eq!(member.commit("orders", 0, 1), 0);
    later(&mut member, 3);
    assert_eq!(nack(&mut member, "orders-0@0"), 0, "forgotten: a new first failure");
    let again = member.retry_once();
    assert_eq!((again.text().as_str(), again.number("RECONSUME_TIME")), ("x", 1));
}
