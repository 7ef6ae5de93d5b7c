//! Fetch: byte limits, the long poll, offsets out of range.

use std::time::Duration;

use kafka_protocol::messages::FetchRequest;
use reprise::wire::ResponseError;

use crate::support::batch::{plain, unpack};
use crate::support::client::{fetch_request, s};
use crate::support::{Client, Rec, Server, instant};

/// Three batches of about 1 KiB each.
fn with_batches() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 2);
    for index in [0, 1] {
        for n in 0..3 {
            client.put("t", index, &[Rec::new(&format!("{n}{}", "x".repeat(1000)))]);
        }
    }
    (server, client)
}

fn counts(client: &mut Client, request: &FetchRequest) -> Vec<usize> {
    let answer = client.call(12, request);
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| unpack(p.records.as_ref().unwrap()).len()).collect()
}

#[test]
fn a_fetch_returns_one_whole_batch_and_more_within_limits() {
    let (_server, mut client) = with_batches();
    for (partition_max, max, expected) in [
        (1, 1, [1, 0]),
        (1, 1 << 20, [1, 0]),
        (2400, 1 << 20, [2, 2]),
        (1 << 20, 1, [1, 0]),
        (1 << 20, 2400, [2, 0]),
        (1 << 20, 3600, [3, 0]),
        (1 << 20, 4800, [3, 1]),
        (1 << 20, 1 << 20, [3, 3]),
    ] {
        let mut request = fetch_request("t", 0, 0, 0);
        let mut second = request.topics[0].partitions[0].clone();
        second.partition = 1;
        request.topics[0].partitions.push(second);
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = partition_max;
        }
        request.max_bytes = max;
        assert_eq!(counts(&mut client, &request), expected, "{partition_max} of {max}");
    }
}

#[test]
fn a_fetch_inside_a_batch_gets_the_whole_batch() {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    client.put("t", 0, &[Rec::new("a"), Rec::new("b"), Rec::new("c")]);
    let got = unpack(&client.fetch("t", 0, 1, 0).records.unwrap());
    assert_eq!(got.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn an_empty_fetch_waits_its_time_and_no_longer() {
    let (_server, mut client) = with_batches();
    let began = instant();
    let data = client.fetch("t", 0, 3, 300);
    let took = began.elapsed();
    assert!(data.records.unwrap().is_empty());
    assert!(took >= Duration::from_millis(300), "only {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let began = instant();
    client.fetch("t", 0, 3, 0);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_append_to_its_partition_answers_a_waiting_fetch() {
    let (server, mut client) = with_batches();
    let mut producer = server.client();
    let began = instant();
    let sent = client.send(12, &fetch_request("t", 0, 3, 15_000));
    assert!(client.is_silent());
    producer.put("t", 1, &[Rec::new("another partition")]);
    assert!(client.is_silent());
    producer.put("t", 0, &[Rec::new("at last")]);
    let answer = client.receive::<FetchRequest>(sent);
    let got = unpack(answer.responses[0].partitions[0].records.as_ref().unwrap());
    assert_eq!(got[0].text(), "at last");
    assert!(began.elapsed() < Duration::from_secs(10), "not by the append");
}

#[test]
fn a_topic_deletion_answers_a_waiting_fetch() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    let unknown_id = ResponseError::UnknownTopicId.code();
    for (version, records, expected) in
        [(12, 0, unknown), (12, 5, unknown), (13, 0, unknown_id), (13, 5, unknown_id)]
    {
        other.create("t", 1);
        for _ in 0..records {
            other.put("t", 0, &[Rec::new("x")]);
        }
        let mut request = fetch_request("t", 0, records, 30_000);
        if version > 12 {
            request.topics[0].topic_id = other.metadata(12, &["t"]).topics[0].topic_id;
        }
        let began = instant();
        let sent = client.send(version, &request);
        assert!(client.is_silent(), "it waits");
        other.delete("t");
        let answer = client.receive::<FetchRequest>(sent);
        assert_eq!(answer.responses[0].partitions[0].error_code, expected, "v{version}, {records}");
        assert!(began.elapsed() < Duration::from_secs(10), "not by the end of the topic");
    }
}

#[test]
fn min_bytes_is_waited_for() {
    let (server, mut client) = with_batches();
    let mut producer = server.client();
    let mut request = fetch_request("t", 0, 2, 15_000);
    request.min_bytes = 2000;
    let began = instant();
    let sent = client.send(12, &request);
    assert!(client.is_silent(), "one batch is there, but it is too small");
    producer.put("t", 0, &[Rec::new(&"y".repeat(1000))]);
    let answer = client.receive::<FetchRequest>(sent);
    let got = unpack(answer.responses[0].partitions[0].records.as_ref().unwrap());
    assert_eq!(got.len(), 2);
    assert!(began.elapsed() < Duration::from_secs(10));
    request.topics[0].partitions[0].fetch_offset = 3;
    request.max_wait_ms = 200;
    assert_eq!(counts(&mut client, &request), [1], "what is there, once the time is over");
}

#[test]
fn a_partition_error_is_answered_at_once_without_other_errors() {
    let (_server, mut client) = with_batches();
    let mut request = fetch_request("t", 0, 3, 15_000);
    // A partition that is requested twice is answered once.
    for (index, offset) in [(1, 4), (1, -1), (2, 0)] {
        let mut other = request.topics[0].partitions[0].clone();
        (other.partition, other.fetch_offset) = (index, offset);
        request.topics[0].partitions.push(other);
    }
    request.topics.push(fetch_request("nowhere", 0, 0, 0).topics.remove(0));
    let began = instant();
    let answer = client.call(12, &request);
    assert!(began.elapsed() < Duration::from_secs(10));
    let told: Vec<(&str, i32, i16)> = answer
        .responses
        .iter()
        .flat_map(|t| t.partitions.iter().map(|p| (t.topic.as_str(), p)))
        .map(|(topic, p)| (topic, p.partition_index, p.error_code))
        .collect();
    let out = ResponseError::OffsetOutOfRange.code();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    let expected = [("t", 0, 0), ("t", 1, out), ("t", 2, unknown), ("nowhere", 0, unknown)];
    assert_eq!(told, expected, "exactly what was asked for, in its order");
    assert_eq!(answer.responses[0].partitions[1].log_start_offset, 0);
}

#[test]
fn unknown_topic_ids_and_sessions_are_refused() {
    let (server, mut client) = with_batches();
    let mut request = fetch_request("", 0, 0, 0);
    request.topics[0].topic_id = uuid::Uuid::from_u128(3);
    let counted = "reprise_request_errors_total{api=\"Fetch\",error=\"UNKNOWN_TOPIC_ID\"}";
    assert!(server.metric(counted) < 0.5);
    let answer = client.call(13, &request);
    let error = answer.responses[0].partitions[0].error_code;
    assert_eq!(error, ResponseError::UnknownTopicId.code());
    assert!(server.metric(counted) > 0.5, "an error inside an answer is counted");
    let mut request = fetch_request("t", 0, 0, 0);
    (request.session_id, request.session_epoch) = (7, 3);
    let answer = client.call(12, &request);
    assert_eq!(answer.error_code, ResponseError::FetchSessionIdNotFound.code());
    assert!(answer.responses.is_empty());
}

#[test]
fn a_fetch_of_epoch_0_is_full_in_any_session() {
    let (_server, mut client) = with_batches();
    for (id, epoch, code) in [
        (0, -1, 0),
        (7, -1, 0),
        (7, 0, 0),
        (-1, 0, 0),
        (0, 1, ResponseError::FetchSessionIdNotFound.code()),
        (7, -2, ResponseError::FetchSessionIdNotFound.code()),
    ] {
        let mut request = fetch_request("t", 0, 0, 0);
        (request.session_id, request.session_epoch) = (id, epoch);
        let answer = client.call(12, &request);
        assert_eq!((answer.error_code, answer.session_id), (code, 0), "{id} {epoch}");
        assert_eq!(answer.responses.is_empty(), code != 0, "{id} {epoch}");
    }
}

#[test]
fn the_first_dead_letter_answers_a_waiting_fetch() {
    let server = Server::start();
    let mut client = server.client();
    let mut producer = server.client();
    let began = instant();
    let sent = client.send(12, &fetch_request("reprise.dlq.shop", 0, 0, 15_000));
    assert!(client.is_silent());
    let dead = Rec::new("x").header("x-retry-level", "-1");
    assert_eq!(producer.nack("shop", "orders-0@1", dead).error_code, 0);
    let answer = client.receive::<FetchRequest>(sent);
    let got = unpack(answer.responses[0].partitions[0].records.as_ref().unwrap());
    assert_eq!(got[0].text(), "x");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn fetch_by_id_reads_dead_letters_and_retry_topics_too() {
    let server = Server::start();
    let mut client = server.client();
    let dead = Rec::new("x").header("x-retry-level", "-1");
    assert_eq!(client.nack("shop", "orders-0@1", dead).error_code, 0);
    for (topic, records) in [("reprise.dlq.shop", 1), ("reprise.retry.shop", 0)] {
        let id = client.metadata(12, &[topic]).topics[0].topic_id;
        let mut request = fetch_request("", 0, 0, 0);
        (request.topics[0].topic, request.topics[0].topic_id) = (s(""), id);
        let answer = client.call(17, &request);
        let one = &answer.responses[0].partitions[0];
        assert_eq!(one.error_code, 0, "{topic}");
        assert_eq!(unpack(one.records.as_ref().unwrap()).len(), records, "{topic}");
    }
    let records = [plain(&[Rec::new("by hand")])];
    assert_eq!(client.produce("reprise.dlq.shop", 0, records[0].clone()).base_offset, 1);
}
