//! Iteration over the records of one batch.

use bytes::Bytes;

use super::compress::decompress;
use super::header::{BatchHeader, TimestampType};
use super::headers::Headers;
use super::produce::{Batch, RECORD_BYTES_MIN};
use super::raw::RawRecord;
use crate::wire::reader::{ReadError, Reader, length};

/// One record with its offset; key, value and headers share the batch's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    pub offset: i64,
    /// Unix ms; with `LogAppendTime` the batch's.
    pub timestamp_ms: i64,
    pub timestamp_type: TimestampType,
    /// `None` = null.
    pub key: Option<Bytes>,
    /// `None` = null.
    pub value: Option<Bytes>,
    pub headers: Headers,
}

/// Reason why the records of a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The batch is cut short, not of version 2, or its codec is unknown.
    #[error("the batch is not one whose records can be read")]
    Batch,
    /// The compressed bytes are broken.
    #[error("the records cannot be decompressed: {0}")]
    Decompress(&'static str),
    /// The plain bytes exceed the bound.
    #[error("the records decompress to more than {max} bytes")]
    TooLarge {
        /// The bound, in bytes.
        max: usize,
    },
    /// The header counts more records than the bytes can hold.
    #[error("the batch claims {count} records, which its bytes cannot hold")]
    Count {
        /// Record count in the header.
        count: i32,
    },
    #[error("a record is broken: {0}")]
    Read(#[from] ReadError),
    /// A record's offset does not match its index in the batch.
    #[error("a record has another offset than its place in the batch")]
    Offset,
    /// A record's fields end before or after its length.
    #[error("a record does not have the length it claims")]
    Length,
}

/// The records of one batch; iteration ends after the first broken one.
#[derive(Debug)]
pub struct Records {
    header: BatchHeader,
    plain: Bytes,
    left: i32,
}

/// Decompresses the records of `batch` to at most `bytes_max` bytes. The CRC is not checked again:
/// [`batches`](super::batches) and the journal have done that.
pub fn records(batch: &Batch, bytes_max: usize) -> Result<Records, RecordError> {
    let header = batch.header;
    let codec = header.codec().filter(|_| header.magic == 2).ok_or(RecordError::Batch)?;
    let plain = decompress(codec, &batch.payload(), bytes_max)?;
    let count = header.count;
    let room = plain.len() / RECORD_BYTES_MIN;
    if usize::try_from(count).map_or(true, |count| count > room) {
        return Err(RecordError::Count { count });
    }
    Ok(Records { header, plain, left: count })
}

/// The record at `offset`; `None`: the batch has none there.
pub fn find_record(
    batch: &Batch,
    offset: i64,
    bytes_max: usize,
) -> Result<Option<RawRecord>, RecordError> {
    for record in records(batch, bytes_max)? {
        let record = record?;
        if record.offset == offset {
            return Ok(Some(record.into_raw()));
        }
    }
    Ok(None)
}

impl RecordView {
    pub fn into_raw(self) -> RawRecord {
        RawRecord {
            timestamp_ms: self.timestamp_ms,
            timestamp_type: self.timestamp_type,
            key: self.key,
            value: self.value,
            headers: self.headers,
        }
    }
}

impl Iterator for Records {
    type Item = Result<RecordView, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

impl Records {
    fn read(&mut self) -> Result<RecordView, RecordError> {
        let plain = self.plain.clone();
        let mut outer = Reader::new(&plain);
        let len = length(outer.varint()?)?;
        let mut reader = Reader::new(outer.take(len)?);
        self.plain = plain.slice_ref(outer.rest());

        let share = |part: Option<&[u8]>| part.map(|bytes| plain.slice_ref(bytes));
        reader.int8()?; // attributes, unused
        let timestamp_delta = reader.varlong()?;
        let offset_delta = reader.varint()?;
        let key = share(reader.varint_bytes()?);
        let value = share(reader.varint_bytes()?);
        let count = u32::try_from(reader.varint()?).map_err(|_| ReadError::NegativeLength)?;
        // `parse` bounds the count by the bytes: each header takes at least two.
        let headers = Headers::parse(count, plain.slice_ref(reader.rest()))
            .map_err(|_| RecordError::Length)?;
        let header = &self.header;
        let timestamp_type = header.timestamp_type();
        Ok(RecordView {
            offset: header.base_offset.saturating_add(i64::from(offset_delta)),
            timestamp_ms: match timestamp_type {
                TimestampType::CreateTime => {
                    header.base_timestamp_ms.saturating_add(timestamp_delta)
                }
                TimestampType::LogAppendTime => header.max_timestamp_ms,
            },
            timestamp_type,
            key,
            value,
            headers,
        })
    }
}
