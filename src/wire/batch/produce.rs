//! Batches of a Produce request, split and checked before they are stored.

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

use super::header::{BatchHeader, HEADER_BYTES, LENGTH_OVERHEAD, crc_of};

/// The smallest record: its length byte and six fields after it.
pub(super) const RECORD_BYTES_MIN: usize = 7;
/// The only stored format; formats 0 and 1 ended with Kafka 4.0 (KIP-724).
pub(super) const MAGIC: i8 = 2;
/// The smallest length of a batch of format 0 (Kafka's `RECORD_OVERHEAD_V0`).
const LENGTH_MIN: i32 = 14;

/// One batch with its header parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub bytes: Bytes,
}

/// Reason why a produced batch is refused; the doc of a variant names its Kafka error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Kafka error `CORRUPT_MESSAGE`.
    #[error("a batch ends before the length it claims")]
    Truncated,
    /// Kafka error `CORRUPT_MESSAGE`.
    #[error("a batch claims a length of {length}, less than any batch has")]
    Length {
        /// Length in the header, in bytes.
        length: i32,
    },
    /// Kafka error `CORRUPT_MESSAGE`.
    #[error("a batch is damaged: its CRC32C is {found:08x}, its bytes give {computed:08x}")]
    Crc {
        /// CRC in the header.
        found: u32,
        /// CRC of the bytes.
        computed: u32,
    },
    /// Kafka error `INVALID_RECORD` for formats 0 and 1, `CORRUPT_MESSAGE` for any other number.
    #[error("record format {magic} is not stored; version 2 (Kafka 0.11 and later) is")]
    Magic {
        /// Record format in the header.
        magic: i8,
    },
    /// Kafka error `MESSAGE_TOO_LARGE`.
    #[error("a batch of {bytes} bytes is over the limit of {max}")]
    TooLarge {
        /// Size with the header, in bytes.
        bytes: usize,
        max: usize,
    },
    /// Kafka error `INVALID_RECORD`.
    #[error("a batch counts {count} records, its offsets and bytes say otherwise")]
    Count {
        /// Record count in the header.
        count: i32,
    },
    /// Kafka error `INVALID_RECORD`.
    #[error("clients may not write control records")]
    Control,
    /// Kafka error `INVALID_RECORD`.
    #[error("a batch of producer id {producer_id} has no sequence")]
    NoSequence {
        /// Producer id in the header.
        producer_id: i64,
    },
    /// Kafka error `UNSUPPORTED_COMPRESSION_TYPE`.
    #[error("compression codec {codec} is not known")]
    Codec {
        /// Lowest three bits of the attributes.
        codec: i16,
    },
}

impl BatchError {
    /// The error code for the Produce answer.
    pub fn code(&self) -> ResponseError {
        match self {
            Self::Truncated | Self::Length { .. } | Self::Crc { .. } => {
                ResponseError::CorruptMessage
            }
            Self::Magic { magic: 0..=MAGIC } => ResponseError::InvalidRecord,
            Self::Magic { .. } => ResponseError::CorruptMessage,
            Self::TooLarge { .. } => ResponseError::MessageTooLarge,
            Self::Count { .. } | Self::Control | Self::NoSequence { .. } => {
                ResponseError::InvalidRecord
            }
            Self::Codec { .. } => ResponseError::UnsupportedCompressionType,
        }
    }
}

impl Batch {
    /// Parses only the header of the first batch: for bytes that the sidecar stored.
    pub fn parse(bytes: &Bytes) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes).map_err(|_| BatchError::Truncated)?;
        let total = header.total_bytes().ok_or(BatchError::Truncated)?;
        if total < HEADER_BYTES || total > bytes.len() {
            return Err(BatchError::Truncated);
        }
        Ok(Self { header, bytes: bytes.slice(..total) })
    }

    /// The record bytes, still compressed.
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(HEADER_BYTES.min(self.bytes.len())..)
    }

    pub fn check_crc(&self) -> Result<(), BatchError> {
        let computed = crc_of(&self.bytes).ok_or(BatchError::Truncated)?;
        let found = self.header.crc;
        if computed == found { Ok(()) } else { Err(BatchError::Crc { found, computed }) }
    }

    fn check_produced(&self, bytes_max: usize) -> Result<(), BatchError> {
        let header = &self.header;
        if self.bytes.len() > bytes_max {
            return Err(BatchError::TooLarge { bytes: self.bytes.len(), max: bytes_max });
        }
        self.check_crc()?;
        if header.codec().is_none() {
            return Err(BatchError::Codec { codec: header.attributes & 7 });
        }
        if header.is_control() {
            return Err(BatchError::Control);
        }
        if header.producer_id >= 0 && header.base_sequence < 0 {
            return Err(BatchError::NoSequence { producer_id: header.producer_id });
        }
        self.check_count()
    }

    fn check_count(&self) -> Result<(), BatchError> {
        let count = self.header.count;
        let wrong = BatchError::Count { count };
        if count < 1 || self.header.last_offset_delta.checked_add(1) != Some(count) {
            return Err(wrong);
        }
        let plain = self.header.codec() == Some(super::Codec::None);
        let room = (self.bytes.len() - HEADER_BYTES) / RECORD_BYTES_MIN;
        let fits = usize::try_from(count).is_ok_and(|count| count <= room);
        if plain && !fits { Err(wrong) } else { Ok(()) }
    }
}

/// The checked batches of one produced record set; iteration ends after the first refused one.
#[derive(Debug)]
pub struct Batches {
    rest: Bytes,
    bytes_max: usize,
}

/// Splits `bytes` into batches of at most `bytes_max` bytes each. Each passes Kafka's checks that
/// need no record: size, format 2, CRC32C, codec, counts, no control batch. Trailing bytes that are
/// no whole batch are ignored, as Kafka trims them.
pub fn batches(bytes: Bytes, bytes_max: usize) -> Batches {
    Batches { rest: bytes, bytes_max }
}

impl Batches {
    /// Whether more than one whole batch is left, by the length fields alone.
    pub fn are_several(&self) -> Result<bool, BatchError> {
        let Some(first) = whole_bytes(&self.rest)? else { return Ok(false) };
        whole_bytes(&self.rest.slice(first..)).map(|second| second.is_some())
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let bytes = whole_bytes(&rest).transpose()?;
        let checked = bytes.and_then(|bytes| {
            let batch = first(&rest.slice(..bytes))?;
            batch.check_produced(self.bytes_max)?;
            Ok(batch)
        });
        if let Ok(batch) = &checked {
            self.rest = rest.slice(batch.bytes.len()..);
        }
        Some(checked)
    }
}

/// The offset after the last whole batch.
pub fn end_of(records: &Bytes) -> Option<i64> {
    let (mut rest, mut end) = (records.clone(), None);
    while let Ok(batch) = Batch::parse(&rest) {
        end = Some(batch.header.last_offset().saturating_add(1));
        rest = rest.slice(batch.bytes.len()..);
    }
    end
}

/// The size of the first batch, of any format; `None`: no whole batch is left. The rules are those
/// of Kafka's `ByteBufferLogInputStream`.
fn whole_bytes(bytes: &Bytes) -> Result<Option<usize>, BatchError> {
    let Some(length) = bytes.get(8..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    if length < LENGTH_MIN {
        return Err(BatchError::Length { length });
    }
    let Some(magic) = bytes.get(16) else { return Ok(None) };
    let magic = magic.cast_signed();
    if !(0..=MAGIC).contains(&magic) {
        return Err(BatchError::Magic { magic });
    }
    let total = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH_OVERHEAD));
    Ok(total.filter(|total| *total <= bytes.len()))
}

/// Parses the one batch in `bytes`. An old format is detected first, because its header differs.
fn first(bytes: &Bytes) -> Result<Batch, BatchError> {
    match bytes.get(16) {
        Some(&magic) if magic.cast_signed() != MAGIC => {
            Err(BatchError::Magic { magic: magic.cast_signed() })
        }
        _ => Batch::parse(bytes),
    }
}
