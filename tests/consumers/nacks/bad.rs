//! Invalid nacks: refused with a reason, and no record of their batch is stored.

use reprise::wire::ResponseError;

use crate::support::batch::{Around, TRANSACTIONAL, batch, plain};
use crate::support::{Client, Member, Rec, Server, in_front};

both!(
    an_unreadable_nack_is_refused_with_the_expected_form,
    another_groups_hand_out_is_refused,
    an_offset_never_delivered_is_refused,
    by_reference_to_bytes_that_are_gone_is_refused,
    a_nack_batch_is_atomic_and_names_every_bad_record,
    transactional_nacks_without_their_id_are_refused_with_a_hint
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn named(origin: &str) -> Rec {
    Rec::new("x").header("x-retry-origin", origin)
}

/// The error message for a batch with only this record.
fn why(client: &mut Client, record: Rec) -> String {
    let answer = client.produce("reprise.retry.shop", 0, plain(&[record]));
    assert_eq!(answer.error_code, ResponseError::InvalidRecord.code());
    assert_eq!(answer.record_errors.len(), 1);
    assert_eq!(answer.record_errors[0].batch_index, 0);
    let words = answer.record_errors[0].batch_index_error_message.as_ref().unwrap().to_string();
    assert!(answer.error_message.unwrap().contains(&words));
    words
}

fn an_unreadable_nack_is_refused_with_the_expected_form() {
    let server = Server::start();
    let mut client = server.client();
    for origin in ["", "orders", "orders-x@1", "orders-0@-1", "@", "orders-0@1 2"] {
        let words = why(&mut client, named(origin));
        assert!(words.contains("<topic>-<partition>@<offset>"), "{origin}: {words}");
    }
    for (name, value, part) in [
        ("x-retry-level", "high", "no level"),
        ("x-retry-delay-ms", "soon", "no delay"),
        ("x-retry-delay-ms", "-5", "no delay"),
        ("x-retry-delay-ms", "99999999999999", "366 days"),
        ("x-retry-by-reference", "perhaps", "neither true nor false"),
        ("x-retry-origin", "reprise.retry.shop-0@17", "hand-out"),
    ] {
        let words = why(&mut client, named("orders-0@1").header(name, value));
        assert!(words.contains(part), "{name} {value}: {words}");
    }
    let words = why(&mut client, Rec::new("x").header("x-retry-by-reference", "true"));
    assert!(words.contains("x-retry-origin"), "{words}");
    assert!(server.pending("shop").is_empty());
}

fn another_groups_hand_out_is_refused() {
    let server = Server::start();
    let mut bar = Member::new(&server, "bar", &["reprise.retry.bar"]);
    bar.join(&[("reprise.retry.bar", 1)]);
    assert_eq!(bar.client.nack("bar", "orders-0@1", Rec::new("x")).error_code, 0);
    let got = bar.retry_once();
    let mut client = server.client();
    let words = why(&mut client, named(&format!("reprise.retry.bar-0@{}", got.offset)));
    assert!(words.contains("another group"), "{words}");
    assert!(server.pending("shop").is_empty());
}

fn an_offset_never_delivered_is_refused() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    member.client.put("orders", 0, &[Rec::new("a")]);
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    let got = member.retry_once();
    member.done(got.offset + 1);
    let never = format!("reprise.retry.shop-0@{}", got.offset + 5);
    let says = if in_front() { "no longer remembered" } else { "no hand-out" };
    assert!(why(&mut server.client(), named(&never)).contains(says));
    assert!(server.pending("shop").is_empty());
}

fn by_reference_to_bytes_that_are_gone_is_refused() {
    let server = Server::with("topics: {list: [{name: orders}]}");
    let mut client = server.client();
    let reference = |origin: &str| named(origin).header("x-retry-by-reference", "true");
    for origin in ["orders-0@9", "nowhere-0@1", "orders-5@0"] {
        assert!(
            why(&mut client, reference(origin)).contains("bytes are gone or may not be read"),
            "{origin}"
        );
    }
    client.put("orders", 0, &[Rec::new("a")]);
    client.delete_records("orders", 0, 1);
    assert!(
        why(&mut client, reference("orders-0@0")).contains("bytes are gone or may not be read")
    );
    assert!(server.pending("shop").is_empty());
}

fn a_nack_batch_is_atomic_and_names_every_bad_record() {
    let server = Server::start();
    let mut client = server.client();
    let never = "reprise.retry.shop-0@1125899906842629";
    for (what, batch_of, bad) in [
        ("unreadable", ["orders-0@1", "bad", "orders-0@2", "worse"], [1, 3]),
        ("not remembered", [never, "orders-0@1", never, "orders-0@2"], [0, 2]),
    ] {
        let records: Vec<Rec> = batch_of.iter().map(|origin| named(origin)).collect();
        let answer = client.produce("reprise.retry.shop", 0, plain(&records));
        assert_eq!(answer.error_code, ResponseError::InvalidRecord.code(), "{what}");
        let named: Vec<i32> = answer.record_errors.iter().map(|e| e.batch_index).collect();
        assert_eq!(named, bad, "{what}");
        assert!(answer.error_message.unwrap().contains("nothing of the batch was taken"));
        assert!(server.pending("shop").is_empty(), "{what}: nothing is kept");
    }
    let count = |reason: &str| {
        let of = format!("{{group=\"shop\",reason=\"{reason}\"}}");
        server.metric(&format!("reprise_nacks_refused_total{of}"))
    };
    let counts = ["malformed", "unknown_record"].map(|reason| count(reason).to_string());
    assert_eq!(counts, ["1", "1"], "each batch once");
    let two = [plain(&[named("orders-0@1")]), plain(&[named("bad")])].concat();
    let answer = client.produce("reprise.retry.shop", 0, two.into());
    assert_eq!(answer.error_code, ResponseError::InvalidRecord.code());
    assert!(server.pending("shop").is_empty(), "nor of two batches in one request");
    let good: Vec<Rec> = ["orders-0@1", "orders-0@2"].map(named).to_vec();
    assert_eq!(client.produce("reprise.retry.shop", 0, plain(&good)).error_code, 0);
    assert_eq!(server.pending("shop").len(), 2);
}

fn transactional_nacks_without_their_id_are_refused_with_a_hint() {
    let server = Server::start();
    let mut client = server.client();
    let around = Around { attributes: TRANSACTIONAL, ..Around::producer(4, 0, 0) };
    let answer = client.produce("reprise.retry.shop", 0, batch(&[named("orders-0@1")], around));
    assert_eq!(answer.error_code, ResponseError::TransactionalIdAuthorizationFailed.code());
    let hint = if in_front() { "outside" } else { "names its id" };
    assert!(answer.error_message.unwrap().contains(hint));
    assert!(server.pending("shop").is_empty());
}

/// In front of a cluster the topic may have grown there, so that each partition may be named.
#[test]
fn a_retry_topic_has_partition_0_only() {
    let server = Server::start();
    let mut client = server.client();
    client.metadata(9, &["reprise.retry.shop"]);
    let answer = client.produce("reprise.retry.shop", 1, plain(&[named("orders-0@1")]));
    assert_eq!(answer.error_code, ResponseError::UnknownTopicOrPartition.code());
}
