//! Tests of the Fetch reader, with answers of every version by the codec crate.

mod aborted;
mod hostile;
mod session;
mod whole;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response as r;
use kafka_protocol::messages::{FetchResponse, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::*;
use crate::wire::batch::{
    Batch, Headers, RawRecord, TimestampType, empty_batch, produce_batch, rebase,
};

const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A batch of `count` records of `bytes` bytes at `base`.
fn batch(base: i64, count: usize, bytes: usize) -> Bytes {
    let record = RawRecord {
        timestamp_ms: base,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(vec![0xff; bytes].into()),
        headers: Headers::NONE,
    };
    let mut batch = produce_batch(&vec![record; count], None).unwrap().to_vec();
    rebase(&mut batch, base, 5).unwrap();
    batch.into()
}

/// A message of format 0 or 1, as in old segments, of the smallest size.
fn message(offset: i64, magic: u8) -> Bytes {
    let time: &[u8] = if magic == 1 { &[0; 8] } else { &[] };
    let body = [&[0; 4][..], &[magic, 0], time, &[0xff; 8]].concat();
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&offset.to_be_bytes()[..], &len, &body].concat().into()
}

/// A partition's records, and the expected `end`.
type Case = (Option<Bytes>, Option<i64>);

fn cases() -> Vec<Case> {
    let torn = |len: usize| batch(900, 3, 40).slice(..len);
    let joined = |all: &[Bytes]| Some(all.concat().into());
    let mut cases = vec![
        (None, None),
        (Some(Bytes::new()), None),
        (Some(batch(812, 1, 0)), Some(813)),
        (joined(&[batch(0, 3, 70), batch(10, 2, 5), batch(99, 4, 1)]), Some(103)),
        (joined(&[batch(7, 1, 9), empty_batch(8, 11)]), Some(20)),
        (joined(&[message(40, 0), message(41, 0)]), Some(42)),
        (joined(&[message(50, 1), batch(51, 1, 3)]), Some(52)),
    ];
    for len in [1, 16, 17, 26, 27, 60, batch(900, 3, 40).len() - 1] {
        cases.push((Some(torn(len)), None));
        cases.push((joined(&[batch(880, 2, 2), torn(len)]), Some(882)));
    }
    cases
}

/// Expected hidden offsets: those of empty batches, and the gaps between batches.
fn hidden_of(records: Option<&Bytes>) -> OffsetRuns {
    let mut rest = records.cloned().unwrap_or_default();
    let mut hidden = OffsetRuns::default();
    let mut end = None;
    while let Ok(batch) = Batch::parse(&rest) {
        rest = rest.slice(batch.bytes.len()..);
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        hidden.add(end.unwrap_or(first)..first);
        if batch.header.count == 0 {
            hidden.add(first..last + 1);
        }
        end = Some(last + 1);
    }
    hidden
}

/// Expected begin of the first whole batch.
fn first_of(records: Option<&Bytes>) -> Option<i64> {
    Batch::parse(records?).ok().map(|batch| batch.header.base_offset)
}

fn partition(version: i16, index: i32, records: Option<Bytes>) -> r::PartitionData {
    let mut partition = r::PartitionData::default();
    partition.partition_index = index;
    partition.error_code = i16::try_from(index % 5).unwrap();
    partition.high_watermark = 1_000 + i64::from(index);
    partition.last_stable_offset = 77;
    partition.log_start_offset = 3 + i64::from(index);
    let aborted = [None, Some(0), Some(1), Some(3)][usize::try_from(index % 4).unwrap()];
    partition.aborted_transactions = aborted.map(|n| vec![r::AbortedTransaction::default(); n]);
    partition.records = records;
    if version >= 11 {
        partition.preferred_read_replica = 9.into();
    }
    if version >= 12 && index % 3 == 0 {
        partition.diverging_epoch.end_offset = 4;
        partition.current_leader.leader_id = 7.into();
        partition.snapshot_id.epoch = 8;
        partition.unknown_tagged_fields.insert(200, Bytes::from(vec![0xff; 140]));
        for aborted in partition.aborted_transactions.iter_mut().flatten() {
            aborted.unknown_tagged_fields.insert(0, Bytes::from_static(b"new"));
            aborted.unknown_tagged_fields.insert(9, Bytes::new());
        }
    }
    partition
}

fn topic(version: i16, nth: u8, partitions: Vec<r::PartitionData>) -> r::FetchableTopicResponse {
    let mut topic = r::FetchableTopicResponse::default();
    if version >= 13 {
        topic.topic_id = Uuid::from_bytes([nth; 16]);
    } else {
        topic.topic =
            TopicName(text(&String::from(char::from(nth)).repeat(usize::from(nth - b'a'))));
    }
    if version >= 12 && nth.is_multiple_of(2) {
        topic.unknown_tagged_fields.insert(3, Bytes::from_static(b"of a topic"));
    }
    topic.partitions = partitions;
    topic
}

/// An answer with these partitions: the bytes after the correlation id, and the expected
/// partitions.
fn answer(version: i16, topics: Vec<Vec<Case>>) -> (Bytes, Vec<PartitionFetched>) {
    let mut answer = FetchResponse::default();
    answer.throttle_time_ms = 5;
    if version >= 7 {
        answer.session_id = 0x0102_0304;
    }
    let mut expected = Vec::new();
    let mut index = 0;
    for (nth, cases) in (b'b'..).zip(topics) {
        let mut partitions = Vec::new();
        for (records, end) in cases {
            partitions.push(partition(version, index, records.clone()));
            let name = String::from(char::from(nth)).repeat(usize::from(nth - b'a'));
            expected.push(PartitionFetched {
                topic: (version < 13).then_some(name),
                topic_id: if version < 13 { Uuid::nil() } else { Uuid::from_bytes([nth; 16]) },
                partition: index,
                error_code: i16::try_from(index % 5).unwrap(),
                high_watermark: 1_000 + i64::from(index),
                log_start: if version < 5 { -1 } else { 3 + i64::from(index) },
                first: first_of(records.as_ref()),
                end,
                hidden: hidden_of(records.as_ref()),
                sparse: Vec::new(),
            });
            index += 1;
        }
        answer.responses.push(topic(version, nth, partitions));
    }
    if version >= 12 {
        answer.unknown_tagged_fields.insert(300, Bytes::from_static(b"of the answer"));
    }
    if version >= 16 {
        let mut node = r::NodeEndpoint::default();
        (node.node_id, node.host, node.port) = (7.into(), text("kafka-7"), 9092);
        answer.node_endpoints = vec![node];
    }
    let mut bytes = BytesMut::new();
    if version >= 12 {
        bytes.extend_from_slice(&[2, 5, 1, 0, 130, 1, 0]); // tagged fields of the header
    }
    answer.encode(&mut bytes, version).unwrap();
    (bytes.freeze(), expected)
}

fn full(version: i16) -> (Bytes, Vec<PartitionFetched>) {
    answer(version, vec![cases(), vec![], cases().split_off(16), vec![(None, None)]])
}

/// A small answer, short enough to be cut at every byte.
fn small(version: i16) -> (Bytes, Vec<PartitionFetched>) {
    let few = |nth: [usize; 3]| nth.map(|nth| cases()[nth].clone()).to_vec();
    answer(version, vec![few([0, 1, 4]), vec![], few([6, 2, 16])])
}

/// Reads the chunks; returns the partitions found, and whether the answer was whole.
fn fed<'a>(
    version: i16,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<PartitionFetched>, Result<bool, FetchedError>) {
    let mut fetched = FetchAnswer::new(version);
    let mut found = Vec::new();
    for chunk in chunks {
        if let Err(error) = fetched.feed(chunk, |partition| found.push(partition)) {
            return (found, Err(error));
        }
        assert!(fetched.carry.capacity() <= 2 * ITEM_BYTES_MAX, "it keeps next to nothing");
    }
    (found, Ok(fetched.is_done()))
}

/// Splits `bytes` into chunks of random sizes, some of them empty or small.
fn torn<'a>(rng: &mut fastrand::Rng, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let most = [2, 10, 50, 5_000][rng.usize(..4)];
        let (chunk, rest) = bytes.split_at(rng.usize(..most).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}
