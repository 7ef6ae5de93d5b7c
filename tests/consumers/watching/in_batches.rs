//! Batches of nacks with `order.mode: partition`: a batch counts whole or not at all, and a
//! producer's retry counts once.

use bytes::Bytes;
use reprise::wire::ResponseError;

use crate::support::batch::{Around, batch, plain};
use crate::support::{Member, Rec, Server};
use crate::watching::app::dead_letters;
use crate::watching::ordered::{FAILED, PARTITIONS, charged, given, read, rules, shop};

both!(
    a_refused_nack_batch_charges_nothing_and_lists_bad_records,
    a_repeated_nack_batch_is_charged_once_over_a_restart,
    each_record_of_a_mixed_batch_has_its_own_outcome
);

fn named(origin: &str) -> Rec {
    Rec::new("x").header("x-retry-origin", origin)
}

fn send(member: &mut Member, sent: Bytes) -> i16 {
    member.client.produce("reprise.retry.shop", 0, sent).error_code
}

/// Counted failures of the topic's records since the start.
fn failures(server: &Server) -> String {
    let series =
        "reprise_records_failed_total{group=\"shop\",reason=\"rejected\",topic=\"orders\"}";
    server.metric(series).to_string()
}

fn a_refused_nack_batch_charges_nothing_and_lists_bad_records() {
    let (server, mut member) = shop(&rules("", ""));
    let never = "reprise.retry.shop-0@1125899906842629";
    let records = ["orders-0@1", never, "orders-0@2", never].map(named);
    let answer = member.client.produce("reprise.retry.shop", 0, plain(&records));
    assert_eq!(answer.error_code, ResponseError::InvalidRecord.code());
    let bad: Vec<i32> = answer.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(bad, [1, 3]);
    assert_eq!(charged(&server), []);
    assert_eq!(failures(&server), "0");
    member.client.put("orders", 0, &[Rec::new("4")]);
    assert_eq!(given(&mut member, 4), [4], "nothing is waited for");
}

fn a_repeated_nack_batch_is_charged_once_over_a_restart() {
    let (mut server, mut member) = shop(&rules("", ""));
    let of = |sequence: i32| batch(&[named("orders-0@1")], Around::producer(70, 0, sequence));
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(send(&mut member, of(0)), 0);
    assert_eq!((charged(&server), failures(&server)), (vec![(FAILED, 1)], "1".to_owned()));
    server.restart();
    member.client = server.client();
    member.join(PARTITIONS);
    assert_eq!(charged(&server), [(FAILED, 1)]);
    assert_eq!(send(&mut member, of(0)), 0, "it is taken, as before");
    assert_eq!(given(&mut member, FAILED), [FAILED]);
    // The record was delivered again: a new nack now would be another failure.
    assert_eq!(send(&mut member, of(0)), 0);
    assert_eq!((charged(&server), failures(&server)), (vec![(FAILED, 1)], "0".to_owned()));
    assert_eq!(member.position_of("orders", 0), 1, "nor does it go on");
    assert_eq!(send(&mut member, of(1)), 0);
    assert_eq!((charged(&server), failures(&server)), (vec![(FAILED, 2)], "1".to_owned()));
    assert_eq!(given(&mut member, FAILED), [FAILED]);
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(given(&mut member, 2), [2, 3]);
}

fn each_record_of_a_mixed_batch_has_its_own_outcome() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    let ends = named("orders-0@2").header("x-retry-level", "-1");
    let sent = batch(&[named("orders-0@1"), ends, Rec::new("new")], Around::producer(70, 0, 0));
    for _ in 0..2 {
        assert_eq!(send(&mut member, sent.clone()), 0);
        assert_eq!(charged(&server), [(FAILED, 1)]);
        assert_eq!(dead_letters(&server).len(), 1);
        let queue = server.pending("shop");
        assert_eq!(
            (queue.len(), &queue[0]["origin"]),
            (1, &serde_json::Value::Null),
            "the new one"
        );
        assert_eq!(failures(&server), "1", "the dead letter is counted by its own reason");
    }
    member.client.put("orders", 0, &[Rec::new("4")]);
    assert!(read(&mut member, 4, 200).is_empty(), "the partition waits");
    assert_eq!(given(&mut member, FAILED), [FAILED]);
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(given(&mut member, 2), [3, 4], "2 is a dead letter");
}
