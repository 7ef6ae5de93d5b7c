//! What a client produces, cut into batches and checked before anything is stored.

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

use super::header::{BatchHeader, HEADER_BYTES, LENGTH_OVERHEAD, crc_of};

/// The least a record takes: its length byte and six fields behind it.
pub(super) const RECORD_BYTES_MIN: usize = 7;
/// The only format stored; 0 and 1 ended with Kafka 4.0 (KIP-724).
pub(super) const MAGIC: i8 = 2;
/// The least a batch of format 0 has behind its length field (Kafka's `RECORD_OVERHEAD_V0`).
const LENGTH_MIN: i32 = 14;

/// One batch with its header read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub bytes: Bytes,
}

/// Why a produced batch is refused; the doc of a variant names its Kafka code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// `CORRUPT_MESSAGE`
    #[error("a batch ends before the length it claims")]
    Truncated,
    /// `CORRUPT_MESSAGE`
    #[error("a batch claims a length of {length}, less than any batch has")]
    Length {
        /// The claim, in bytes.
        length: i32,
    },
    /// `CORRUPT_MESSAGE`
    #[error("a batch is damaged: its CRC32C is {found:08x}, its bytes give {computed:08x}")]
    Crc {
        /// In the header.
        found: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// `INVALID_RECORD` for a format there was, `CORRUPT_MESSAGE` for any other number.
    #[error("record format {magic} is not stored; version 2 (Kafka 0.11 and later) is")]
    Magic {
        /// The format's number.
        magic: i8,
    },
    /// `MESSAGE_TOO_LARGE`
    #[error("a batch of {bytes} bytes is over the limit of {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// `INVALID_RECORD`
    #[error("a batch counts {count} records, its offsets and bytes say otherwise")]
    Count {
        /// As claimed.
        count: i32,
    },
    /// `INVALID_RECORD`
    #[error("clients may not write control records")]
    Control,
    /// `INVALID_RECORD`
    #[error("a batch of producer id {producer_id} has no sequence")]
    NoSequence {
        /// The producer's id.
        producer_id: i64,
    },
    /// `UNSUPPORTED_COMPRESSION_TYPE`
    #[error("compression codec {codec} is not known")]
    Codec {
        /// The codec's number.
        codec: i16,
    },
}

impl BatchError {
    /// The Kafka error a Produce answer carries for it.
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
    /// Reads the first batch of `bytes` and nothing but its header: for bytes we stored.
    pub fn parse(bytes: &Bytes) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes).map_err(|_| BatchError::Truncated)?;
        let total = header.total_bytes().ok_or(BatchError::Truncated)?;
        if total < HEADER_BYTES || total > bytes.len() {
            return Err(BatchError::Truncated);
        }
        Ok(Self { header, bytes: bytes.slice(..total) })
    }

    /// The record bytes, compressed as they came.
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(HEADER_BYTES.min(self.bytes.len())..)
    }

    /// Whether the CRC in the header is that of the bytes.
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

/// The batches of one produced record set, each checked; ends behind the first refused one.
#[derive(Debug)]
pub struct Batches {
    rest: Bytes,
    bytes_max: usize,
}

/// Cuts `bytes` into batches of at most `bytes_max` bytes each and checks all that Kafka checks
/// without decoding a record: size, format 2, CRC32C, codec, counts, no control batch. Bytes at the
/// end that make no whole batch are left out, as Kafka trims them.
pub fn batches(bytes: Bytes, bytes_max: usize) -> Batches {
    Batches { rest: bytes, bytes_max }
}

impl Batches {
    /// Whether more than one whole batch is left, by their lengths alone.
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

/// The offset after the last whole batch of what was read from a log.
pub fn end_of(records: &Bytes) -> Option<i64> {
    let (mut rest, mut end) = (records.clone(), None);
    while let Ok(batch) = Batch::parse(&rest) {
        end = Some(batch.header.last_offset().saturating_add(1));
        rest = rest.slice(batch.bytes.len()..);
    }
    end
}

/// The size of the first batch, of any format; `None`: no whole one is left. The rules are those of
/// Kafka's `ByteBufferLogInputStream`.
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

/// The one batch in `bytes`; an old format is told before its header, whose meaning differs.
fn first(bytes: &Bytes) -> Result<Batch, BatchError> {
    match bytes.get(16) {
        Some(&magic) if magic.cast_signed() != MAGIC => {
            Err(BatchError::Magic { magic: magic.cast_signed() })
        }
        _ => Batch::parse(bytes),
    }
}
