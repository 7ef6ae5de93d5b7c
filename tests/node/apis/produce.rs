//! Produce: idempotence, acks, sizes, damage, names and ids.

use bytes::Bytes;
use kafka_protocol::messages::{InitProducerIdRequest, MetadataRequest, ProduceRequest};
use reprise::wire::ResponseError;
use reprise::wire::batch::Codec;

use crate::support::batch::{Around, TRANSACTIONAL, batch, plain};
use crate::support::client::{produce_request, s};
use crate::support::{Client, Rec, Server, until};

fn with_topic() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    (server, client)
}

fn numbered(producer: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let records: Vec<Rec> = values.iter().map(|value| Rec::new(value)).collect();
    batch(&records, Around::producer(producer, epoch, sequence))
}

fn values(client: &mut Client) -> Vec<String> {
    client.read_all("t").iter().map(crate::support::Got::text).collect()
}

#[test]
fn a_repeated_batch_is_stored_once_with_its_first_offset() {
    let (mut server, mut client) = with_topic();
    let request = InitProducerIdRequest::default().with_transactional_id(None);
    let id = client.call(4, &request).producer_id.0;
    for (sequence, values) in [(0, &["a", "b"][..]), (2, &["c"]), (3, &["d"]), (4, &["e"])] {
        let answer = client.produce("t", 0, numbered(id, 0, sequence, values));
        assert_eq!(answer.error_code, 0);
    }
    for restarted in [false, true] {
        for (sequence, values, offset) in [(0, &["a", "b"][..], 0), (4, &["e"], 4)] {
            let answer = client.produce("t", 0, numbered(id, 0, sequence, values));
            assert_eq!((answer.error_code, answer.base_offset), (0, offset), "{restarted}");
        }
        assert_eq!(values(&mut client), ["a", "b", "c", "d", "e"]);
        server.restart();
        client = server.client();
    }
    let again = client.call(4, &request).producer_id.0;
    assert_ne!(again, id, "an id is never given twice");
}

#[test]
fn sequence_gaps_too_old_repeats_and_old_epochs_are_refused() {
    let (_server, mut client) = with_topic();
    for sequence in 0..7 {
        assert_eq!(client.produce("t", 0, numbered(5, 1, sequence, &["x"])).error_code, 0);
    }
    for (epoch, sequence, error) in [
        (1, 9, ResponseError::OutOfOrderSequenceNumber),
        (1, 0, ResponseError::OutOfOrderSequenceNumber),
        (0, 7, ResponseError::InvalidProducerEpoch),
    ] {
        let answer = client.produce("t", 0, numbered(5, epoch, sequence, &["x"]));
        assert_eq!(answer.error_code, error.code(), "epoch {epoch}, sequence {sequence}");
    }
    assert_eq!(client.produce("t", 0, numbered(5, 2, 0, &["y"])).error_code, 0, "a new epoch");
    assert_eq!(values(&mut client).len(), 8);
}

#[test]
fn a_batch_never_stored_is_no_duplicate() {
    let (_server, mut client) = with_topic();
    assert_eq!(client.produce("t", 0, numbered(5, 0, 3, &["three"])).error_code, 0);
    let before = client.produce("t", 0, numbered(5, 0, 0, &["zero"])).error_code;
    assert_eq!(before, ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!(values(&mut client), ["three"]);
}

#[test]
fn a_batch_refused_for_disk_room_is_no_duplicate_later() {
    let server = Server::told("");
    let mut client = server.client();
    client.create("t", 1);
    let large = "x".repeat(900 << 10);
    // The disk keeps one segment of 1 MiB in reserve. Files may still shrink a little.
    server.disk().set_capacity(Some(server.disk().used_bytes() + (1 << 19)));
    let free = || server.metric("reprise_journal_disk_free_bytes");
    until("it knows how little is free", || free() < f64::from(1 << 20));
    let refused = client.produce("t", 0, numbered(5, 0, 0, &[&large])).error_code;
    assert_eq!(refused, ResponseError::KafkaStorageError.code());
    server.disk().set_capacity(None);
    assert_eq!(client.produce("t", 0, numbered(5, 0, 1, &["next"])).error_code, 0);
    let again = client.produce("t", 0, numbered(5, 0, 0, &[&large])).error_code;
    assert_eq!(again, ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!(values(&mut client), ["next"]);
}

#[test]
fn acks_0_is_stored_unanswered_and_other_acks_answered() {
    let (_server, mut client) = with_topic();
    let of = |value: &str, acks| produce_request("t", 0, plain(&[Rec::new(value)]), acks);
    let _unanswered = client.send(9, &of("zero", 0));
    for (value, acks, offset) in [("one", 1, 1), ("all", -1, 2)] {
        let answer = client.call(9, &of(value, acks));
        assert_eq!(answer.responses[0].partition_responses[0].base_offset, offset);
    }
    let answer = client.call(9, &of("two", 2));
    let error = answer.responses[0].partition_responses[0].error_code;
    assert_eq!(error, ResponseError::InvalidRequiredAcks.code());
    assert_eq!(values(&mut client), ["zero", "one", "all"]);
}

#[test]
fn answers_keep_the_order_of_pipelined_requests() {
    let (_server, mut client) = with_topic();
    let of = |n: i32| produce_request("t", 0, plain(&[Rec::new(&n.to_string())]), -1);
    let sent: Vec<_> = (0..100).map(|n| client.send(9, &of(n))).collect();
    let between = client.send(9, &MetadataRequest::default().with_topics(None));
    let last = client.send(9, &of(100));
    for (offset, sent) in (0..).zip(sent) {
        let answer = client.receive::<ProduceRequest>(sent);
        assert_eq!(answer.responses[0].partition_responses[0].base_offset, offset);
    }
    assert_eq!(client.receive::<MetadataRequest>(between).topics.len(), 1);
    let answer = client.receive::<ProduceRequest>(last);
    assert_eq!(answer.responses[0].partition_responses[0].base_offset, 100);
}

#[test]
fn an_unsupported_versions_answer_keeps_its_order() {
    let (_server, mut client) = with_topic();
    let sent = client.send(9, &produce_request("t", 0, plain(&[Rec::new("a")]), -1));
    client.raw(&[0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 77, 0xff, 0xff, 0]);
    let answer = client.receive::<ProduceRequest>(sent);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(client.frame().unwrap()[..6], [0, 0, 0, 77, 0, 35]);
}

#[test]
fn every_codec_is_kept_as_it_came() {
    let (_server, mut client) = with_topic();
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for (offset, codec) in (0..).step_by(2).zip(codecs) {
        let headers = |record: Rec| record.header("h", "1").header("h", [0xff, 0xfe]);
        let records = [headers(Rec::new("a")), headers(Rec::new("b"))];
        let sent = batch(&records, Around::codec(codec));
        assert_eq!(client.produce("t", 0, sent.clone()).base_offset, offset);
        let got = client.fetch("t", 0, offset, 0).records.unwrap();
        // base offset and leader epoch lie outside the CRC and are the broker's to set
        assert_eq!(got[8..12], sent[8..12]);
        assert_eq!(got[16..], sent[16..], "{codec:?}");
        assert_eq!(got[..8], offset.to_be_bytes());
        let records = crate::support::batch::unpack(&got);
        assert_eq!(records[1].headers.len(), 2);
    }
}

#[test]
fn invalid_batches_are_refused_by_name_and_store_nothing() {
    let server = Server::with("topics: {max_message_bytes: 2KiB}");
    let mut client = server.client();
    client.create("t", 1);
    let good = plain(&[Rec::new("good")]);
    let damaged = |at: usize| {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    let large = plain(&[Rec::new(&"x".repeat(3000))]);
    let transactional = Around { attributes: TRANSACTIONAL, ..Around::producer(3, 0, 0) };
    let cases = [
        ("the last byte", damaged(good.len() - 1), ResponseError::CorruptMessage),
        ("the CRC", damaged(17), ResponseError::CorruptMessage),
        ("cut", good.slice(..good.len() - 1), ResponseError::InvalidRecord),
        ("rubbish", Bytes::from_static(&[1, 2, 3]), ResponseError::InvalidRecord),
        ("format 3", damaged(16), ResponseError::CorruptMessage),
        ("too large", large, ResponseError::MessageTooLarge),
        (
            "transactional",
            batch(&[Rec::new("t")], transactional),
            ResponseError::TransactionalIdAuthorizationFailed,
        ),
        ("empty", Bytes::new(), ResponseError::InvalidRecord),
        ("two batches", [&good[..], &good].concat().into(), ResponseError::InvalidRecord),
    ];
    for (what, bytes, error) in cases {
        let answer = client.produce("t", 0, bytes);
        assert_eq!(answer.error_code, error.code(), "{what}: {:?}", answer.error_message);
        assert!(answer.error_message.is_some() && answer.base_offset == -1, "{what}");
    }
    assert_eq!(client.put("t", 0, &[Rec::new("good")]), 0);
    // Kafka trims an incomplete second batch. A transactional id does not affect batches outside
    // it.
    let mut request = produce_request("t", 0, [&good[..], &good[..30]].concat().into(), -1);
    request.transactional_id = Some(s("tx"));
    let answer = client.call(9, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(values(&mut client), ["good", "good"]);
}

#[test]
fn a_batch_that_no_consumer_could_read_is_refused() {
    let (_server, mut client) = with_topic();
    let three = [Rec::new("a"), Rec::new("b"), Rec::new("c")];
    let changed = |codec, at: usize, change: &[u8]| {
        let mut bytes = batch(&three, Around::codec(codec)).to_vec();
        bytes[at..at + change.len()].copy_from_slice(change);
        bytes
    };
    let counting_five = |codec| {
        let mut bytes = changed(codec, 57, &5_i32.to_be_bytes());
        bytes[23..27].copy_from_slice(&4_i32.to_be_bytes());
        bytes
    };
    let cases = [
        ("five of three", counting_five(Codec::None), ResponseError::InvalidRecord),
        ("five of three, zstd", counting_five(Codec::Zstd), ResponseError::InvalidRecord),
        ("a length", changed(Codec::None, 61, &[0x7e]), ResponseError::InvalidRecord),
        ("zstd garbage", changed(Codec::Zstd, 61, &[7; 12]), ResponseError::InvalidRecord),
        ("gzip garbage", changed(Codec::Gzip, 61, &[7; 12]), ResponseError::InvalidRecord),
    ];
    for (what, mut bytes, error) in cases {
        let crc = reprise::wire::batch::crc_of(&bytes).unwrap();
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let answer = client.produce("t", 0, bytes.into());
        assert_eq!(answer.error_code, error.code(), "{what}: {:?}", answer.error_message);
    }
    assert!(values(&mut client).is_empty());
}

#[test]
fn missing_topics_are_unknown_by_name_and_by_id() {
    let (_server, mut client) = with_topic();
    let good = plain(&[Rec::new("x")]);
    let answer = client.produce("nowhere", 0, good.clone());
    assert_eq!(answer.error_code, ResponseError::UnknownTopicOrPartition.code());
    for index in [-1, 1] {
        let answer = client.produce("t", index, good.clone());
        assert_eq!(answer.error_code, ResponseError::UnknownTopicOrPartition.code());
    }
    let mut request = produce_request("", 0, good, -1);
    request.topic_data[0].topic_id = uuid::Uuid::from_u128(9);
    let answer = client.call(13, &request);
    let one = &answer.responses[0].partition_responses[0];
    assert_eq!(one.error_code, ResponseError::UnknownTopicId.code());
}

#[test]
fn several_topics_and_partitions_are_answered_one_by_one() {
    let (server, mut client) = with_topic();
    client.create("two", 2);
    let mut request = produce_request("t", 0, plain(&[Rec::new("x")]), -1);
    let more = produce_request("two", 1, plain(&[Rec::new("y")]), -1).topic_data.remove(0);
    request.topic_data.push(more);
    let lost = produce_request("two", 0, Bytes::from_static(b"z"), -1).topic_data.remove(0);
    request.topic_data[1].partition_data.push(lost.partition_data[0].clone());
    let answer = client.call(9, &request);
    let codes: Vec<Vec<(i32, i16)>> = answer
        .responses
        .iter()
        .map(|t| t.partition_responses.iter().map(|p| (p.index, p.error_code)).collect())
        .collect();
    let invalid = ResponseError::InvalidRecord.code();
    assert_eq!(codes, [vec![(0, 0)], vec![(1, 0), (0, invalid)]]);
    let counted = || server.metric("reprise_requests_total{api=\"Produce\"}");
    until("the counter", || counted() >= 1.0);
}
