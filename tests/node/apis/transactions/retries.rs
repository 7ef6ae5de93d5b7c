//! Retries acknowledged in a transaction, and nacks in one.

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
fn a_transaction_commit_acknowledges_retries_and_an_abort_does_not() {
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
            assert_eq!((again.text(), again.offset), ("x".to_owned(), retry.offset));
            assert_eq!(again.reconsume_times(), retry.reconsume_times(), "nothing failed");
            retry = again;
        }
    }
}

#[test]
fn a_new_producer_acknowledges_no_retry_of_an_open_transaction() {
    let server = Server::with("retry: {levels: 20ms}");
    server.client().create("t", 1);
    let (mut member, retry) = with_retry(&server);
    let mut producer = Producer::begin(&server, "pay");
    assert_eq!(producer.add_group(3, "shop"), 0);
    assert_eq!(producer.offsets(3, "shop", &[("reprise.retry.shop", retry.offset + 1)]), [0]);
    Producer::begin(&server, "pay");
    assert_eq!(member.retry_once().offset, retry.offset);
}

#[test]
fn a_transactional_nack_is_refused_and_the_rest_goes_on() {
    let server = Server::with("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("t", 1);
    let mut producer = Producer::begin(&server, "pay");
    let state = ResponseError::InvalidTxnState.code();
    assert_eq!(producer.add(3, &[("reprise.retry.shop", 0)]), [state]);
    let produce = |topic: &str, record: Rec| {
        let (id, epoch) = producer.by;
        let around = Around { attributes: TRANSACTIONAL, ..Around::producer(id, epoch, 0) };
        produce_request(topic, 0, batch(&[record], around), -1)
    };
    let nack = Rec::new("x").header("x-retry-origin", "t-0@0");
    let mut request = produce("t", Rec::new("paid"));
    request.topic_data.extend(produce("reprise.retry.shop", nack).topic_data);
    request.transactional_id = Some(s(producer.id));
    let answer = producer.client.call(12, &request);
    let results = answer.responses.iter().map(|topic| &topic.partition_responses[0]);
    let results: Vec<_> = results.collect();
    assert_eq!([results[0].error_code, results[1].error_code], [0, state]);
    assert!(results[1].error_message.as_ref().unwrap().contains("no transactional.id"));
    assert_eq!(producer.end(3, true), 0);
    let read = client.fetch("t", 0, 0, 1_000);
    assert_eq!((read.last_stable_offset, read.high_watermark), (2, 2), "the record and its end");
    let waiting = || server.json("/api/v1/retries?group=shop")["items"].to_string();
    assert_eq!(waiting().matches("\"origin\"").count(), 0);
    assert_eq!(client.nack("shop", "t-0@0", Rec::new("paid")).error_code, 0, "outside of it");
    assert_eq!(waiting().matches("\"origin\"").count(), 1);
}
