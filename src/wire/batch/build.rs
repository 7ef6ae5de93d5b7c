//! Encoding of the sidecar's own batches, and the fields a broker may set in a client's.

use bytes::{BufMut, Bytes, BytesMut};

use super::header::{
    BatchHeader, CRC_START, HEADER_BYTES, LENGTH_OVERHEAD, TimestampType, create_time_attributes,
    plain_attributes,
};
use super::headers::Headers;
use super::produce::Batch;
use super::raw::RawRecord;
use crate::wire::reader::ReadError;
use crate::wire::varint::{put_length, put_varint};

/// Leader epoch of every local partition and its batches: leaders never move.
pub const LEADER_EPOCH: i32 = 0;

/// Sets base offset and leader epoch, both outside the CRC.
pub fn rebase(batch: &mut [u8], base_offset: i64, leader_epoch: i32) -> Result<(), ReadError> {
    put_at(batch, 0, base_offset.to_be_bytes())?;
    put_at(batch, 12, leader_epoch.to_be_bytes())
}

/// Returns the batch with this largest timestamp, `CreateTime` and a new CRC. Unused attribute bits
/// are cleared, as Kafka's `DefaultRecordBatch.setMaxTimestamp` does.
pub fn with_max_timestamp(batch: &Batch, timestamp_ms: i64) -> Result<Batch, ReadError> {
    let mut bytes = BytesMut::from(&batch.bytes[..]);
    put_at(&mut bytes, 21, create_time_attributes(batch.header.attributes).to_be_bytes())?;
    put_at(&mut bytes, 35, timestamp_ms.to_be_bytes())?;
    let bytes = finish(bytes);
    Ok(Batch { header: BatchHeader::parse(&bytes)?, bytes })
}

/// Encodes one record at `base_offset`: uncompressed, with producer id −1 and the record's own
/// timestamp and type. `extra_headers` follow its own headers.
pub fn build_batch(
    base_offset: i64,
    record: &RawRecord,
    extra_headers: &[(&'static str, String)],
) -> Bytes {
    let headers = record.headers.with(extra_headers);
    let body = record_body(record, &headers, 0, 0);
    let mut out = begin(
        base_offset,
        HEADER_BYTES + 10 + body.len(),
        &PlainHeader {
            attributes: plain_attributes(record.timestamp_type),
            last_offset_delta: 0,
            timestamp_ms: record.timestamp_ms,
            timestamp_ms_max: record.timestamp_ms,
            stamp: None,
            count: 1,
        },
    );
    put_length(&mut out, &body);
    out.put_slice(&body);
    finish(out)
}

/// The fields by which a broker recognizes a repeated batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStamp {
    pub id: i64,
    pub epoch: i16,
    /// Sequence of the batch's first record in its partition.
    pub sequence: i32,
}

/// Encodes a batch for a Produce: uncompressed, headers unchanged. Timestamps keep their values but
/// become `CreateTime`, because a broker accepts no other type. `None`: no records.
pub fn produce_batch(records: &[RawRecord], stamp: Option<ProducerStamp>) -> Option<Bytes> {
    let first = records.first()?;
    let latest_ms = records.iter().map(|record| record.timestamp_ms).max()?;
    let count = i32::try_from(records.len()).ok()?;
    let plain = PlainHeader {
        attributes: plain_attributes(TimestampType::CreateTime),
        last_offset_delta: count.saturating_sub(1),
        timestamp_ms: first.timestamp_ms,
        timestamp_ms_max: latest_ms,
        stamp,
        count,
    };
    let bytes: usize = records.iter().map(|record| 48 + record.payload_bytes()).sum();
    let mut out = begin(0, HEADER_BYTES + bytes, &plain);
    for (offset, record) in (0..).zip(records) {
        let delta_ms = record.timestamp_ms.saturating_sub(first.timestamp_ms);
        let body = record_body(record, &record.headers, delta_ms, offset);
        put_length(&mut out, &body);
        out.put_slice(&body);
    }
    Some(finish(out))
}

/// Encodes a batch without records over `base_offset..=base_offset + last_offset_delta`. Kafka's
/// log cleaner leaves such batches, so clients move past them.
pub fn empty_batch(base_offset: i64, last_offset_delta: i32) -> Bytes {
    finish(begin(
        base_offset,
        HEADER_BYTES,
        &PlainHeader {
            attributes: plain_attributes(TimestampType::CreateTime),
            last_offset_delta,
            timestamp_ms: -1,
            timestamp_ms_max: -1,
            stamp: None,
            count: 0,
        },
    ))
}

/// Header fields that differ between the sidecar's own batches.
pub(super) struct PlainHeader {
    pub(super) attributes: i16,
    pub(super) last_offset_delta: i32,
    pub(super) timestamp_ms: i64,
    pub(super) timestamp_ms_max: i64,
    pub(super) stamp: Option<ProducerStamp>,
    pub(super) count: i32,
}

pub(super) fn begin(base_offset: i64, capacity: usize, plain: &PlainHeader) -> BytesMut {
    let mut out = BytesMut::with_capacity(capacity);
    out.put_i64(base_offset);
    out.put_i32(0); // length, by finish
    out.put_i32(LEADER_EPOCH);
    out.put_i8(2);
    out.put_u32(0); // crc, by finish
    out.put_i16(plain.attributes);
    out.put_i32(plain.last_offset_delta);
    out.put_i64(plain.timestamp_ms);
    out.put_i64(plain.timestamp_ms_max);
    let none = ProducerStamp { id: -1, epoch: -1, sequence: -1 };
    let stamp = plain.stamp.unwrap_or(none);
    out.put_i64(stamp.id);
    out.put_i16(stamp.epoch);
    out.put_i32(stamp.sequence);
    out.put_i32(plain.count);
    out
}

/// Sets length and CRC of the batch in `out`. The length cannot saturate: the records come from
/// frames or journal entries, which have less than 2 GiB.
pub(super) fn finish(mut out: BytesMut) -> Bytes {
    let length = i32::try_from(out.len() - LENGTH_OVERHEAD).unwrap_or(i32::MAX);
    let crc = out.get(CRC_START..).map_or(0, crc32c::crc32c);
    // The header was just written, so both positions exist.
    let _ = put_at(&mut out, 8, length.to_be_bytes());
    let _ = put_at(&mut out, 17, crc.to_be_bytes());
    out.freeze()
}

/// Encodes a record without the length before it.
pub(super) fn record_body(
    record: &RawRecord,
    headers: &Headers,
    delta_ms: i64,
    offset: i64,
) -> BytesMut {
    let mut body = BytesMut::with_capacity(32 + record.payload_bytes() + headers.raw().len());
    body.put_i8(0); // attributes
    put_varint(&mut body, delta_ms);
    put_varint(&mut body, offset);
    for part in [&record.key, &record.value] {
        match part {
            None => put_varint(&mut body, -1),
            Some(bytes) => {
                put_length(&mut body, bytes);
                body.put_slice(bytes);
            }
        }
    }
    put_varint(&mut body, i64::from(headers.len()));
    body.put_slice(headers.raw());
    body
}

pub(super) fn put_at<const N: usize>(
    bytes: &mut [u8],
    at: usize,
    field: [u8; N],
) -> Result<(), ReadError> {
    let place = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>);
    *place.ok_or(ReadError::Truncated)? = field;
    Ok(())
}
