//! Control batches: markers that end a producer's transaction in a partition.
//!
//! One record: its key is version and type (i16 each; 0 aborts, 1 commits), its value version (i16)
//! and coordinator epoch (i32). Clients read both and show neither to an application.

use bytes::{BufMut, Bytes, BytesMut};

use super::build::{PlainHeader, ProducerStamp, begin, finish, record_body};
use super::header::{HEADER_BYTES, MARKER, TimestampType};
use super::headers::Headers;
use super::produce::Batch;
use super::raw::RawRecord;
use super::records::records;
use crate::wire::varint::put_length;

/// The format of key and value.
const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
/// One node coordinates all transactions, so the epoch never changes.
const COORDINATOR_EPOCH: i32 = 0;
/// Bound of a marker's records, far above a marker's size.
const MARKER_BYTES_MAX: usize = 1024;

/// Encodes the batch that commits or aborts a producer's transaction in a partition.
pub fn marker_batch(producer_id: i64, epoch: i16, commits: bool, timestamp_ms: i64) -> Bytes {
    let (mut key, mut value) = (BytesMut::with_capacity(4), BytesMut::with_capacity(6));
    key.put_i16(VERSION);
    key.put_i16(if commits { COMMIT } else { ABORT });
    value.put_i16(VERSION);
    value.put_i32(COORDINATOR_EPOCH);
    let record = RawRecord {
        timestamp_ms,
        timestamp_type: TimestampType::CreateTime,
        key: Some(key.freeze()),
        value: Some(value.freeze()),
        headers: Headers::default(),
    };
    let body = record_body(&record, &record.headers, 0, 0);
    let plain = PlainHeader {
        attributes: MARKER,
        last_offset_delta: 0,
        timestamp_ms,
        timestamp_ms_max: timestamp_ms,
        stamp: Some(ProducerStamp { id: producer_id, epoch, sequence: -1 }),
        count: 1,
    };
    let mut out = begin(0, HEADER_BYTES + 2 + body.len(), &plain);
    put_length(&mut out, &body);
    out.put_slice(&body);
    finish(out)
}

/// Whether a marker commits; `None`: the batch is no marker.
pub fn commits(batch: &Batch) -> Option<bool> {
    if !batch.header.is_control() {
        return None;
    }
    let record = records(batch, MARKER_BYTES_MAX).ok()?.next()?.ok()?;
    match record.key?.get(2..4)? {
        [0, 0] => Some(false),
        [0, 1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::{empty_batch, produce_batch};

    #[test]
    fn a_marker_names_its_producer_and_outcome() {
        for says in [false, true] {
            let bytes = marker_batch(7, 3, says, 5);
            let batch = Batch::parse(&bytes).unwrap();
            batch.check_crc().unwrap();
            let header = &batch.header;
            assert!(header.is_control() && header.is_transactional());
            assert_eq!((header.producer_id, header.producer_epoch), (7, 3));
            assert_eq!((header.base_sequence, header.count, header.last_offset_delta), (-1, 1, 0));
            assert_eq!(header.max_timestamp_ms, 5);
            assert_eq!(commits(&batch), Some(says));
        }
    }

    #[test]
    fn a_marker_is_written_as_kafka_writes_it() {
        // Length 16, attributes, two deltas, key 00 00 00 01, value 00 00 00 00 00 00, no headers.
        let record = [32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(marker_batch(7, 3, true, 5)[HEADER_BYTES..], record);
    }

    #[test]
    fn records_and_empty_batches_are_no_markers() {
        let record = RawRecord {
            timestamp_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from_static(&[0, 0, 0, 1])),
            value: None,
            headers: Headers::default(),
        };
        let produced = produce_batch(&[record], None).unwrap();
        for bytes in [produced, empty_batch(5, 0)] {
            assert_eq!(commits(&Batch::parse(&bytes).unwrap()), None);
        }
    }
}
