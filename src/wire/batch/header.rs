//! The header of a record batch: 61 bytes before the records.
//!
//! ```text
//!  0 base offset        i64      27 base timestamp   i64
//!  8 length after it    i32      35 max timestamp    i64
//! 12 leader epoch       i32      43 producer id      i64
//! 16 magic = 2          i8       51 producer epoch   i16
//! 17 CRC32C of 21..     u32      53 base sequence    i32
//! 21 attributes         i16      57 record count     i32
//! 23 last offset delta  i32      61 records
//! ```
//! Base offset and leader epoch lie outside the CRC, so that a broker may set them.

use serde::{Deserialize, Serialize};

use crate::wire::reader::{ReadError, Reader};

/// Bytes of the header, from the base offset to the record count.
pub const HEADER_BYTES: usize = 61;
/// Base offset and length: the bytes that the length does not count.
pub(super) const LENGTH_OVERHEAD: usize = 12;
/// First byte that the CRC covers.
pub(super) const CRC_START: usize = 21;

const CODEC_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// The base timestamp is the time from which the log cleaner removes the batch (KIP-534).
const DELETE_HORIZON: i16 = 1 << 6;

/// The clock of a record's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TimestampType {
    /// Set by the producer.
    CreateTime,
    /// Set by the broker at append.
    LogAppendTime,
}

/// Compression of a batch's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// Number 0 in the attributes.
    None,
    /// Number 1 in the attributes.
    Gzip,
    /// Number 2 in the attributes.
    Snappy,
    /// Number 3 in the attributes.
    Lz4,
    /// Number 4 in the attributes.
    Zstd,
}

/// A batch header as on the wire; only its length is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes after this field.
    pub length: i32,
    /// Epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// Format version, 2.
    pub magic: i8,
    /// CRC32C of everything from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type, transactional, control.
    pub attributes: i16,
    /// Offset of the last record minus the base offset.
    pub last_offset_delta: i32,
    /// Base of the records' timestamp deltas, Unix ms.
    pub base_timestamp_ms: i64,
    /// Largest timestamp, Unix ms.
    pub max_timestamp_ms: i64,
    /// −1: no idempotent producer.
    pub producer_id: i64,
    /// −1: no idempotent producer.
    pub producer_epoch: i16,
    /// Sequence of the first record; −1: none.
    pub base_sequence: i32,
    pub count: i32,
}

impl BatchHeader {
    /// Reads the first [`HEADER_BYTES`] bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        // One length check for all fields: this runs for every batch that is relayed.
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(ReadError::Truncated)?;
        let mut r = Reader::new(header);
        Ok(Self {
            base_offset: r.int64()?,
            length: r.int32()?,
            leader_epoch: r.int32()?,
            magic: r.int8()?,
            crc: r.uint32()?,
            attributes: r.int16()?,
            last_offset_delta: r.int32()?,
            base_timestamp_ms: r.int64()?,
            max_timestamp_ms: r.int64()?,
            producer_id: r.int64()?,
            producer_epoch: r.int16()?,
            base_sequence: r.int32()?,
            count: r.int32()?,
        })
    }

    /// Bytes of the whole batch; `None` when the length is negative.
    pub fn total_bytes(&self) -> Option<usize> {
        usize::try_from(self.length).ok()?.checked_add(LENGTH_OVERHEAD)
    }

    /// Offset of the last record, which compaction may have removed.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The codec; `None`: the number is unknown.
    pub fn codec(&self) -> Option<Codec> {
        match self.attributes & CODEC_MASK {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch holds transaction markers instead of records.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Sequence of the last record; it wraps from `i32::MAX` to 0. −1 without a sequence.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let sum = i64::from(self.base_sequence) + i64::from(self.last_offset_delta.max(0));
        i32::try_from(sum & i64::from(i32::MAX)).unwrap_or(0)
    }
}

/// CRC32C of a whole batch; `None` when the batch is shorter than its header.
pub fn crc_of(batch: &[u8]) -> Option<u32> {
    batch.get(CRC_START..).map(crc32c::crc32c)
}

/// Attributes of the sidecar's own batches: uncompressed, not transactional.
pub(super) fn plain_attributes(timestamp_type: TimestampType) -> i16 {
    match timestamp_type {
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => LOG_APPEND_TIME,
    }
}

/// Attributes of a batch that ends a transaction.
pub(super) const MARKER: i16 = TRANSACTIONAL | CONTROL;

/// `attributes` with codec 0.
pub(super) fn uncompressed_attributes(attributes: i16) -> i16 {
    attributes & !CODEC_MASK
}

/// `attributes` without unused bits and with the timestamp type set to `CreateTime`.
pub(super) fn create_time_attributes(attributes: i16) -> i16 {
    attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sequence_wraps_to_zero_behind_the_largest() {
        let mut header = BatchHeader::parse(&[0; HEADER_BYTES]).unwrap();
        header.base_sequence = i32::MAX - 1;
        for (delta, last) in [(0, i32::MAX - 1), (1, i32::MAX), (2, 0), (5, 3)] {
            header.last_offset_delta = delta;
            assert_eq!(header.last_sequence(), last);
        }
        header.base_sequence = -1;
        assert_eq!(header.last_sequence(), -1);
    }

    #[test]
    fn a_header_cut_short_is_refused() {
        for len in 0..HEADER_BYTES {
            assert_eq!(BatchHeader::parse(&vec![0; len]), Err(ReadError::Truncated));
        }
    }
}
