//! Nacks in a transaction with `order.mode: partition`. A commit counts each nack once, all
//! together. An abort, a fenced producer or a kill leaves no trace of them.

use reprise::wire::ResponseError;
use serde_json::Value;

use crate::support::Producer;
use crate::support::{Member, Rec, Server};

const RULES: &str = "retry: {levels: 1h, order: {mode: partition, interval: 30s}}";

/// A member with four outstanding records.
fn shop() -> (Server, Member) {
    let server = Server::with(RULES);
    server.client().create("t", 1);
    server.client().put("t", 0, &vec![Rec::new("x"); 4]);
    let mut member = Member::new(&server, "shop", &["t"]);
    member.join(&[("t", 1)]);
    assert_eq!(member.client.fetch("t", 0, 0, 1_000).error_code, 0);
    (server, member)
}

/// A nack of a record, pending until the transaction ends.
fn nack(producer: &mut Producer, offset: i64) {
    let record = Rec::new("x").header("x-retry-origin", format!("t-0@{offset}"));
    assert_eq!(producer.put_record(12, "reprise.retry.shop", record), 0);
}

/// Records that the partition waits for, and the failures of each.
fn charged(server: &Server) -> Vec<(i64, u64)> {
    let told = server.json("/api/v1/explain?group=shop");
    let suspects = told["partitions"][0]["suspects"].as_array().cloned().unwrap_or_default();
    let times = |suspect: &Value| suspect["reconsume_times"].as_u64().unwrap();
    suspects.iter().map(|known| (known["offset"].as_i64().unwrap(), times(known))).collect()
}

/// Copies the producer onto a new connection, with its former sequence number.
fn again(server: &Server, producer: &Producer) -> Producer {
    let Producer { id, by, sequence, .. } = *producer;
    Producer { client: server.client(), id, by, sequence }
}

#[test]
fn transactional_nacks_are_charged_once_on_commit_over_kills() {
    let (server, mut member) = shop();
    let mut producer = Producer::begin(&server, "pay");
    nack(&mut producer, 1);
    nack(&mut producer, 2);
    assert_eq!(charged(&server), [], "not before");
    let before = server.killed();
    assert_eq!(charged(&before), [], "nor after kill -9");
    for (server, mut producer) in
        [(&server, again(&server, &producer)), (&before, again(&before, &producer))]
    {
        for _ in 0..2 {
            assert_eq!(producer.end(3, true), 0, "said again, done once");
            assert_eq!(charged(server), [(1, 1), (2, 1)]);
        }
        let after = server.killed();
        assert_eq!(charged(&after), [(1, 1), (2, 1)]);
        assert_eq!(again(&after, &producer).end(3, true), 0, "its answer was lost");
        assert_eq!(charged(&after), [(1, 1), (2, 1)]);
    }
    assert_eq!(member.commit("t", 0, 4), 0);
    assert_eq!(member.position_of("t", 0), 1, "its partition waits for the first of them");
}

#[test]
fn nacks_of_an_aborted_transaction_have_no_effect() {
    let (server, mut member) = shop();
    let mut producer = Producer::begin(&server, "pay");
    nack(&mut producer, 1);
    let killed = server.killed();
    for (server, mut producer) in
        [(&server, again(&server, &producer)), (&killed, again(&killed, &producer))]
    {
        for _ in 0..2 {
            assert_eq!(producer.end(3, false), 0);
        }
        assert_eq!(charged(server), []);
        assert_eq!(charged(&server.killed()), []);
    }
    assert_eq!(member.commit("t", 0, 4), 0);
    assert_eq!(member.position_of("t", 0), 4, "nothing waits");
}

#[test]
fn a_producer_that_was_replaced_charges_nothing() {
    let (server, mut member) = shop();
    let mut old = Producer::begin(&server, "pay");
    nack(&mut old, 1);
    let mut new = Producer::begin(&server, "pay");
    let fenced = ResponseError::ProducerFenced.code();
    for committed in [true, false] {
        assert_eq!(old.end(3, committed), fenced);
    }
    assert_eq!(charged(&server), []);
    // The nack of the new producer belongs to the new transaction.
    nack(&mut new, 2);
    assert_eq!(old.end(3, true), fenced);
    assert_eq!(charged(&server), []);
    assert_eq!(new.end(3, true), 0);
    assert_eq!(charged(&server), [(2, 1)]);
    let killed = server.killed();
    assert_eq!(again(&killed, &old).end(3, true), fenced);
    assert_eq!(charged(&killed), [(2, 1)]);
    assert_eq!(member.commit("t", 0, 4), 0);
    assert_eq!(member.position_of("t", 0), 2);
}

#[test]
fn an_invalid_nack_leaves_its_whole_transaction_uncharged() {
    let (server, _member) = shop();
    let mut producer = Producer::begin(&server, "pay");
    nack(&mut producer, 1);
    // Offsets of another group, and a retry that was never delivered.
    let bad = Rec::new("x")
        .header("x-retry-origin", format!("reprise.retry.other-0@{}", (1_i64 << 50) + 7));
    assert_eq!(producer.put_record(12, "reprise.retry.other", bad), 0);
    for _ in 0..2 {
        assert_eq!(producer.end(3, true), ResponseError::InvalidTxnState.code());
        assert_eq!(charged(&server), []);
    }
    assert_eq!(charged(&server.killed()), []);
    assert_eq!(producer.end(3, false), 0);
    assert_eq!(charged(&server), []);
}
