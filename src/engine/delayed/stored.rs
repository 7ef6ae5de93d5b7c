//! The format of a delayed record in the log (kind 76).
//!
//! ```text
//! 0 version = 1                         u8
//! 1 the stream of its partition         u32, little-endian
//! 5 the record's stored form            the rest, as `wire::batch::RawRecord` has it
//! ```
//! The stream identifies the topic, never a later one of the same name: stream ids are not reused.

use bytes::{BufMut, Bytes, BytesMut};

use crate::engine::error::EngineError;
use crate::journal::StreamId;
use crate::wire::batch::RawRecord;

const VERSION: u8 = 1;
/// Bytes before the record.
const HEAD_BYTES: usize = 5;

/// A delayed record and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredRecord {
    pub(super) stream: StreamId,
    pub(super) record: RawRecord,
}

/// Encodes a record in its stored form as the body of an entry.
pub(super) fn body_of(stream: StreamId, record: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(HEAD_BYTES + record.len());
    body.put_u8(VERSION);
    body.put_u32_le(stream.0);
    body.put_slice(record);
    body.freeze()
}

impl StoredRecord {
    /// Decodes the body of an entry.
    pub(super) fn read(body: &Bytes) -> Result<Self, EngineError> {
        let head = body.first_chunk::<HEAD_BYTES>();
        let Some([VERSION, stream @ ..]) = head else { return Err(EngineError::DelayedRecord) };
        let stream = StreamId(u32::from_le_bytes(*stream));
        let record = RawRecord::parse(&body.slice(HEAD_BYTES..))?;
        Ok(Self { stream, record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::{Headers, TimestampType};

    fn record() -> RawRecord {
        RawRecord {
            timestamp_ms: 5,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some("v".into()),
            headers: Headers::NONE,
        }
    }

    #[test]
    fn the_layout_of_a_delayed_record_is_fixed() {
        let body = body_of(StreamId(300), &record().to_bytes());
        let bytes = b"\x01\x2c\x01\0\0\x01\x04\x05\0\0\0\0\0\0\0\x01\0\0\0v\0\0\0\0";
        assert_eq!(body[..], bytes[..], "the format has changed: give it a new version");
        let stored = StoredRecord { stream: StreamId(300), record: record() };
        assert_eq!(StoredRecord::read(&body).unwrap(), stored);
    }

    #[test]
    fn other_bytes_are_no_record_that_waits() {
        for bad in [&b""[..], b"\x01\x2c\x01\0", b"\x02\x2c\x01\0\0\x01", b"\x01\x2c\x01\0\0\x01"] {
            assert!(StoredRecord::read(&Bytes::from_static(bad)).is_err(), "{bad:?}");
        }
    }
}
