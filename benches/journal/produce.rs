//! Prepared Produce requests, and the check of their answer.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use reprise::wire::batch::{Headers, RawRecord, TimestampType, build_batch};

/// The last version that names its topic (librdkafka's, and Java's before topic ids).
const VERSION: i16 = 12;
/// API key of Produce.
const API_KEY: i16 = 0;
/// Bytes of the one record's value.
const VALUE_BYTES: usize = 1024;

/// The topic of all records.
pub(crate) const TOPIC: &str = "bench";

/// A batch of one record with a value of 1 KiB, as a producer sends it.
pub(crate) fn batch() -> Bytes {
    let record = RawRecord {
        timestamp_ms: 1_700_000_000_000,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(Bytes::from(vec![b'x'; VALUE_BYTES])),
        headers: Headers::default(),
    };
    build_batch(0, &record, &[])
}

/// A whole request with acks = all, without its length prefix.
pub(crate) fn request(partition: i32, records: Bytes) -> Bytes {
    let mut data = PartitionProduceData::default();
    data.index = partition;
    data.records = Some(records);
    let mut topic = TopicProduceData::default();
    topic.name = TopicName(StrBytes::from_static_str(TOPIC));
    topic.partition_data.push(data);
    let mut request = ProduceRequest::default();
    request.acks = -1;
    request.timeout_ms = 30_000;
    request.topic_data.push(topic);
    let mut frame = BytesMut::new();
    frame.put_i16(API_KEY);
    frame.put_i16(VERSION);
    frame.put_i32(1);
    frame.put_i16(5);
    frame.put_slice(b"bench");
    frame.put_u8(0);
    request.encode(&mut frame, VERSION).unwrap();
    frame.freeze()
}

/// Whether an answer, length prefix included, says that the one record is taken.
pub(crate) fn is_taken(answer: &[u8]) -> bool {
    // length, correlation id, no tagged fields, one topic, its name, one partition, its index
    let error_at = 4 + 4 + 1 + 1 + 1 + TOPIC.len() + 1 + 4;
    answer.get(error_at..error_at + 2) == Some(&[0, 0])
}
