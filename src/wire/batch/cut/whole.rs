//! Batches that cannot be read: such a batch counts as one record, delivered whole or not at all.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::rewrite::{RewrittenBatch, UnparsedBatches, only};
use super::{ONE, has_data};
use crate::wire::batch::build::empty_batch;
use crate::wire::batch::header::TimestampType;
use crate::wire::batch::headers::Headers;
use crate::wire::batch::produce::Batch;
use crate::wire::batch::raw::RawRecord;

/// Most offsets of such a batch that can become final: each is stored.
const OFFSETS_MAX: i64 = 10_000;

/// A batch of which no record can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableBatch {
    /// The whole batch, header included.
    pub bytes: Bytes,
    /// First to last offset.
    pub offsets: RangeInclusive<i64>,
    /// The largest timestamp of the header, or 0.
    timestamp_ms: i64,
}

impl UnreadableBatch {
    /// Converts to a record without a key; the batch's bytes are its value.
    pub fn into_record(self) -> RawRecord {
        RawRecord {
            timestamp_ms: self.timestamp_ms,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(self.bytes),
            headers: Headers::default(),
        }
    }
}

/// Share of an unreadable batch, from offset `from` on, that is already final.
pub(super) enum FinalShare {
    Nothing,
    /// The whole batch is delivered: otherwise its other records would be lost.
    Some,
    All,
}

pub(super) fn settled(batch: &Batch, from: i64, offsets: &[i64]) -> FinalShare {
    let (first, last) = (from.max(batch.header.base_offset), batch.header.last_offset());
    let low = offsets.partition_point(|offset| *offset < first);
    let high = offsets.partition_point(|offset| *offset <= last);
    match i64::try_from(high.saturating_sub(low)) {
        Ok(0) => FinalShare::Nothing,
        Ok(count) if count > last.saturating_sub(first) => FinalShare::All,
        _ => FinalShare::Some,
    }
}

/// The empty batch that replaces an unreadable one when all its offsets are final.
pub(super) fn nothing_of(batch: &Batch) -> RewrittenBatch {
    let header = &batch.header;
    RewrittenBatch {
        batch: empty_batch(header.base_offset, header.last_offset_delta),
        unpacked_bytes: 0,
    }
}

/// The batch that covers `offset`, if none of its records can be read and its end is certain. A
/// correct CRC, the next batch or the end of the log makes the end certain.
pub fn whole_at(
    records: &Bytes,
    offset: i64,
    log_end: i64,
    bytes_max: usize,
) -> Option<UnreadableBatch> {
    let mut rest = UnparsedBatches(records.clone());
    loop {
        let batch = rest.next_batch().ok()??;
        let (base, last) = (batch.header.base_offset, batch.header.last_offset());
        if last < offset {
            continue;
        }
        let is_there = has_data(&batch.header) && base <= offset && last - base < OFFSETS_MAX;
        let is_unreadable = only(&batch, base, &[], ONE, bytes_max).is_err();
        let mut ends_there = || {
            let next = rest.next_batch().ok().flatten();
            let next = next.map_or(log_end, |next| next.header.base_offset);
            batch.check_crc().is_ok() || next == last.saturating_add(1)
        };
        return (is_there && is_unreadable && ends_there()).then(|| UnreadableBatch {
            offsets: base..=last,
            timestamp_ms: batch.header.max_timestamp_ms.max(0),
            bytes: batch.bytes,
        });
    }
}
