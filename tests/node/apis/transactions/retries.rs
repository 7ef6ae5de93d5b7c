//! Retries acknowledged in a transaction, and nacks in one.

use kafka_protocol::messages::EndTxnRequest;
use reprise::wire::ResponseError;

use crate::support::Producer;
use crate::support::batch::{Around, TRANSACTIONAL, batch};
use crate::support::client::{produce_request, s};
use crate::support::{Got, Member, Rec, Server};

/// A member with one outstanding retry.
fn with_retry(server: &Server) -> (Member, Got) {
    let mut member = Member::new(server, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
    member.client.put("t", 0, &[Rec::new("x")]);
    member.client.nack("shop", "t-0@0", Rec::new("x"));
    let retry = member.retry_once();
    (member, retry)
}

#[test]
fn a_transaction_commit_acknowledges_retries_and_an_abort_returns_them() {
    let server = Server::with("retry: {levels: 20ms}");
    server.client().create("t", 1);
    let (mut member, mut retry) = with_retry(&server);
    let mut producer = Producer::begin(&server, "pay");
    for committed in [false, true] {
        assert_eq!(producer.add_group(3, "shop"), 0);
        let offsets = [("t", 1), ("reprise.retry.shop", retry.offset + 1)];
        let mut request = producer.offsets_request("shop", &offsets);
        (request.member_id, request.generation_id) = (s(&member.id), member.generation);
        let mut stale = request.clone();
        stale.generation_id += 1;
        let refused = producer.client.call(3, &stale).topics[0].partitions[0].error_code;
        assert_eq!(refused, ResponseError::IllegalGeneration.code(), "the group has a say");
        let answer = producer.client.call(3, &request);
        assert!(answer.topics.iter().all(|topic| topic.partitions[0].error_code == 0));
        assert_eq!(member.position(), retry.offset, "not acknowledged yet");
        assert_eq!(producer.end(3, committed), 0);
        if committed {
            assert_eq!(member.position(), retry.offset + 1);
            assert_eq!(member.position_of("t", 0), 1);
        } else {
            let again = member.retry_once();
            assert_eq!((again.text(), again.offset), ("x".to_owned(), retry.offset + 1));
            assert_eq!(again.reconsume_times(), retry.reconsume_times(), "nothing failed");
            retry = again;
        }
    }
}

#[test]
fn a_new_producer_returns_the_retries_of_an_open_transaction() {
    let server = Server::with("retry: {levels: 20ms}");
    server.client().create("t", 1);
    let (mut member, retry) = with_retry(&server);
    let mut producer = Producer::begin(&server, "pay");
    assert_eq!(producer.add_group(3, "shop"), 0);
    assert_eq!(producer.offsets(3, "shop", &[("reprise.retry.shop", retry.offset + 1)]), [0]);
    Producer::begin(&server, "pay");
    assert_eq!(member.retry_once().offset, retry.offset + 1);
}

/// A nack of `t-0@<offset>` as a batch of the producer's transaction.
fn nack(producer: &mut Producer, version: i16, origin: &str) -> i16 {
    let around = Around {
        attributes: TRANSACTIONAL,
        ..Around::producer(producer.by.0, producer.by.1, producer.sequence)
    };
    let record = Rec::new("x").header("x-retry-origin", origin);
    let mut request = produce_request("reprise.retry.shop", 0, batch(&[record], around), -1);
    request.transactional_id = Some(s(producer.id));
    let answer = producer.client.call(version, &request);
    answer.responses[0].partition_responses[0].error_code
}

#[test]
fn a_transactional_nack_takes_effect_only_on_commit() {
    let server = Server::with("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("t", 1);
    let mut member = Member::new(&server, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
    member.client.put("t", 0, &[Rec::new("x"), Rec::new("x")]);
    let waiting = |server: &Server| server.json("/api/v1/retries?group=shop").to_string();
    let nothing = waiting(&server);
    let mut producer = Producer::begin(&server, "pay");
    assert_eq!(nack(&mut producer, 11, "t-0@0"), ResponseError::InvalidTxnState.code());
    assert_eq!(producer.add(3, &[("reprise.retry.shop", 0)]), [0]);
    assert_eq!(nack(&mut producer, 11, "rubbish"), ResponseError::InvalidRecord.code(), "at once");
    assert_eq!(nack(&mut producer, 11, "t-0@0"), 0);
    assert_eq!(producer.end(3, false), 0);
    // The sequence numbers of the aborted nack are used up. The next version adds the topic by
    // itself.
    producer.sequence += 1;
    for _ in 0..2 {
        assert_eq!(nack(&mut producer, 12, "t-0@1"), 0, "the second is the first come again");
    }
    assert_eq!(waiting(&server), nothing, "neither has happened");
    let killed = server.killed();
    let by = producer.by;
    for (server, member) in [(&server, Some(member)), (&killed, None)] {
        let mut member = member.unwrap_or_else(|| {
            // The former member's session has to expire first.
            let mut member = Member::new(server, "shop", &["t", "reprise.retry.shop"]);
            member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
            member
        });
        let mut producer = Producer { client: server.client(), id: "pay", by, sequence: 0 };
        for _ in 0..2 {
            assert_eq!(producer.end(3, true), 0, "said again, done once");
        }
        let retry = member.retry_once();
        assert_eq!(retry.header("ORIGIN_MESSAGE_ID").as_deref(), Some("t-0@1"));
        assert_eq!(retry.reconsume_times(), 1, "one failure");
        member.done(retry.offset + 1);
    }
}

/// The group's waiting retries, as the admin port lists them.
fn waiting(server: &Server) -> String {
    server.json("/api/v1/retries?group=shop").to_string()
}

#[test]
fn one_invalid_nack_fails_all_nacks_of_its_transaction() {
    let server = Server::with("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("t", 1);
    client.put("t", 0, &[Rec::new("x"), Rec::new("x")]);
    let nothing = waiting(&server);
    // A retry that was never delivered: in a second batch, to another group, and both.
    let unknown = format!("reprise.retry.shop-0@{}", (1_i64 << 50) + 7);
    for (nth, of) in ["reprise.retry.shop", "reprise.retry.other"].into_iter().enumerate() {
        let mut producer = Producer::begin(&server, ["one", "two"][nth]);
        assert_eq!(nack_to(&mut producer, "reprise.retry.shop", "t-0@0"), 0);
        assert_eq!(nack_to(&mut producer, of, &unknown.replace("reprise.retry.shop", of)), 0);
        for _ in 0..2 {
            assert_eq!(producer.end(3, true), ResponseError::InvalidTxnState.code(), "{of}");
            assert_eq!(waiting(&server), nothing, "{of}");
        }
        assert_eq!(producer.end(3, false), 0);
        assert_eq!(waiting(&server), nothing, "{of}");
    }
    let mut producer = Producer::begin(&server, "three");
    assert_eq!(nack_to(&mut producer, "reprise.retry.shop", "t-0@0"), 0);
    assert_eq!(nack_to(&mut producer, "reprise.retry.other", "t-0@0"), 0);
    assert_eq!(nack_to(&mut producer, "reprise.retry.shop", "t-0@1"), 0);
    assert_eq!(producer.end(3, true), 0);
    let counts = |group: &str| {
        let path = format!("/api/v1/retries?group={group}");
        server.json(&path).to_string().matches("\"origin\"").count()
    };
    assert_eq!((counts("shop"), counts("other")), (2, 1));
}

/// A nack in a batch of its own, in the transaction.
fn nack_to(producer: &mut Producer, topic: &str, origin: &str) -> i16 {
    let record = Rec::new("x").header("x-retry-origin", origin);
    let code = producer.put_record(12, topic, record);
    assert!(producer.sequence > 0);
    code
}

#[test]
fn transactional_nacks_and_their_end_are_journalled_once_together() {
    let server = Server::with("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("t", 2);
    client.put("t", 0, &[Rec::new("x"), Rec::new("x")]);
    let mut producer = Producer::begin(&server, "pay");
    assert_eq!(producer.put(12, "t", "paid"), 0, "a partition whose end is marked");
    let letter = Rec::new("dead").header("x-retry-origin", "t-0@0").header("x-retry-level", "-1");
    assert_eq!(producer.put_record(12, "reprise.retry.shop", letter), 0);
    assert_eq!(producer.put(12, "reprise.retry.shop", "of nobody"), 0, "it names no record");
    let mut request = EndTxnRequest::default();
    (request.transactional_id, request.committed) = (s(producer.id), true);
    (request.producer_id, request.producer_epoch) = (producer.by.0.into(), producer.by.1);
    // The client did not get the answer to `EndTxn`, and sends it again on another connection.
    let mut again = server.client();
    let (first, second) = (producer.client.send(3, &request), again.send(3, &request));
    assert_eq!(again.receive::<EndTxnRequest>(second).error_code, 0);
    assert_eq!(producer.client.receive::<EndTxnRequest>(first).error_code, 0);
    let killed = server.killed();
    for server in [&server, &killed] {
        let waiting = waiting(server);
        assert_eq!(waiting.matches("\"id\"").count(), 1, "{waiting}");
        let letters = server.client().read_all("reprise.dlq.shop");
        assert_eq!(letters.iter().map(Got::text).collect::<Vec<_>>(), ["dead"]);
    }
    let mut member = Member::new(&killed, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 2), ("reprise.retry.shop", 1)]);
    assert_eq!(member.retry_once().text(), "of nobody");
}
