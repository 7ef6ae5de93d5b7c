//! Tests with batches as brokers store them: every codec, compacted, transactional, either
//! timestamp type.

mod alone;
mod hostile;
mod without;

use bytes::{BufMut, Bytes, BytesMut};

use super::*;
use crate::wire::batch::build::{finish, put_at, record_body};
use crate::wire::batch::tests::{gzip, lz4, snappy, xerial, zstd};
use crate::wire::batch::{
    HEADER_BYTES, Header, Headers, RawRecord, RecordView, TimestampType, records,
};
use crate::wire::varint::put_varint;

const MAX: usize = 1 << 20;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;
const BASE_MS: i64 = 1_700_000_000_000;

/// Name, number and compressor of every codec.
type Compress = fn(&[u8]) -> Vec<u8>;
const CODECS: [(&str, i16, Compress); 6] = [
    ("none", 0, <[u8]>::to_vec),
    ("gzip", 1, gzip),
    ("snappy", 2, snappy),
    ("snappy, xerial frames", 2, xerial),
    ("lz4", 3, lz4),
    ("zstd", 4, zstd),
];

/// Parameters of a test batch.
#[derive(Clone)]
struct BatchParameters {
    base: i64,
    last: i64,
    offsets: Vec<i64>,
    codec: usize,
    flags: i16,
}

impl BatchParameters {
    fn of(base: i64, last: i64, offsets: &[i64]) -> Self {
        Self { base, last, offsets: offsets.to_vec(), codec: 0, flags: 0 }
    }

    fn codec(mut self, codec: usize) -> Self {
        self.codec = codec;
        self
    }

    fn flags(mut self, flags: i16) -> Self {
        self.flags = flags;
        self
    }

    fn bytes(&self) -> Bytes {
        let mut plain = BytesMut::new();
        for offset in &self.offsets {
            let record = record(*offset);
            let delta_ms = record.timestamp_ms - BASE_MS;
            let body = record_body(&record, &record.headers, delta_ms, offset - self.base);
            put_varint(&mut plain, i64::try_from(body.len()).unwrap());
            plain.put_slice(&body);
        }
        let (_, number, compress) = CODECS[self.codec];
        let mut out = BytesMut::zeroed(HEADER_BYTES);
        let payload = if self.offsets.is_empty() { Vec::new() } else { compress(&plain) };
        out.put_slice(&payload);
        put_at(&mut out, 0, self.base.to_be_bytes()).unwrap();
        put_at(&mut out, 12, 9_i32.to_be_bytes()).unwrap(); // leader epoch
        put_at(&mut out, 16, [2]).unwrap();
        put_at(&mut out, 21, (number | self.flags).to_be_bytes()).unwrap();
        put_at(&mut out, 23, i32::try_from(self.last - self.base).unwrap().to_be_bytes()).unwrap();
        put_at(&mut out, 27, BASE_MS.to_be_bytes()).unwrap();
        put_at(&mut out, 35, (BASE_MS + 77_000).to_be_bytes()).unwrap();
        put_at(&mut out, 43, 4_711_i64.to_be_bytes()).unwrap();
        put_at(&mut out, 51, 3_i16.to_be_bytes()).unwrap();
        put_at(&mut out, 53, 50_i32.to_be_bytes()).unwrap();
        put_at(&mut out, 57, i32::try_from(self.offsets.len()).unwrap().to_be_bytes()).unwrap();
        finish(out)
    }
}

/// The test record of an offset: some are null or empty, some timestamps are out of order.
fn record(offset: i64) -> RawRecord {
    let nth = usize::try_from(offset).unwrap();
    let headers: Headers = [
        Header { key: "dup".into(), value: Some("1".into()) },
        Header { key: Bytes::from_static(&[0xff, 0x00]), value: Some(Bytes::from_static(&[0xfe])) },
        Header { key: "dup".into(), value: None },
    ]
    .into_iter()
    .take(nth % 4)
    .collect();
    RawRecord {
        timestamp_ms: BASE_MS + (offset * 7_919) % 5_000 - 1_000,
        timestamp_type: TimestampType::CreateTime,
        key: (nth % 3 != 0).then(|| Bytes::from(format!("key {offset}"))),
        value: (nth % 5 != 0).then(|| Bytes::from("order ".repeat(nth % 7))),
        headers,
    }
}

fn joined(batches: &[Bytes]) -> Bytes {
    batches.concat().into()
}

/// Splits a result into batches; each has a correct CRC, and no bytes follow the last.
fn split(records: &Bytes) -> Vec<Batch> {
    let mut rest = records.clone();
    let mut all = Vec::new();
    while !rest.is_empty() {
        let batch = Batch::parse(&rest).unwrap();
        batch.check_crc().unwrap();
        rest = rest.slice(batch.bytes.len()..);
        all.push(batch);
    }
    all
}

fn read(batch: &Batch) -> Vec<RecordView> {
    if batch.header.count == 0 {
        return Vec::new(); // whatever its codec
    }
    records(batch, MAX).unwrap().collect::<Result<_, _>>().unwrap()
}

fn offsets(batch: &Batch) -> Vec<i64> {
    read(batch).iter().map(|record| record.offset).collect()
}

/// Asserts that each record equals the original at its offset, byte for byte.
fn assert_whole(batch: &Batch) {
    for seen in read(batch) {
        let mut expected = record(seen.offset);
        expected.timestamp_type = batch.header.timestamp_type();
        if expected.timestamp_type == TimestampType::LogAppendTime {
            expected.timestamp_ms = BASE_MS + 77_000;
        }
        let offset = seen.offset;
        assert_eq!(seen.into_raw(), expected, "offset {offset}");
    }
}

/// Asserts the header fields that a rewritten batch keeps.
fn assert_same_header(anew: &BatchHeader, was: &BatchHeader) {
    assert_eq!(anew.attributes, was.attributes & !7, "uncompressed, else the same");
    let kept = |h: &BatchHeader| {
        let producer = (h.producer_id, h.producer_epoch, h.base_sequence);
        (h.base_offset, h.leader_epoch, h.magic, h.base_timestamp_ms, producer)
    };
    assert_eq!(kept(anew), kept(was));
}
