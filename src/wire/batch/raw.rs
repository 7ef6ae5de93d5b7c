//! One record as the retry journal stores it, byte for byte.
//!
//! ```text
//! 0 version            u8    1
//! 1 flags              u8    1 `LogAppendTime`, 2 has a key, 4 has a value
//! 2 timestamp, Unix ms i64   little-endian, full width
//!   key                u32 length, bytes     only when flagged
//!   value              u32 length, bytes     only when flagged
//!   header count       u32
//!   headers            the rest, as in a v2 record
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use super::header::TimestampType;
use super::headers::Headers;
use crate::wire::reader::ReadError;

const VERSION: u8 = 1;
const LOG_APPEND_TIME: u8 = 1;
const HAS_KEY: u8 = 2;
const HAS_VALUE: u8 = 4;

/// A record without its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Unix ms, full width.
    pub timestamp_ms: i64,
    pub timestamp_type: TimestampType,
    /// `None` = null.
    pub key: Option<Bytes>,
    /// `None` = null (a tombstone).
    pub value: Option<Bytes>,
    pub headers: Headers,
}

/// Reason why stored bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawRecordError {
    #[error("a stored record has format {version}; this build reads {VERSION}")]
    Version {
        /// First byte of the record.
        version: u8,
    },
    /// Bits that no build has written.
    #[error("a stored record has unknown flags {flags:#04x}")]
    Flags {
        /// Second byte of the record.
        flags: u8,
    },
    #[error("a stored record is damaged: {0}")]
    Read(#[from] ReadError),
}

impl RawRecord {
    /// Bytes of key, value and headers.
    pub fn payload_bytes(&self) -> usize {
        let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        len(&self.key) + len(&self.value) + self.headers.raw().len()
    }

    /// Copies the record into memory of its own: a slice keeps the whole buffer it was cut from.
    #[must_use]
    pub fn detached(&self) -> Self {
        let own = |part: &Option<Bytes>| part.as_deref().map(Bytes::copy_from_slice);
        let (key, value) = (own(&self.key), own(&self.value));
        Self { key, value, headers: self.headers.detached(), ..*self }
    }

    /// Encodes the stored format.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(22 + self.payload_bytes());
        out.put_u8(VERSION);
        let mut flags = 0;
        if self.timestamp_type == TimestampType::LogAppendTime {
            flags |= LOG_APPEND_TIME;
        }
        if self.key.is_some() {
            flags |= HAS_KEY;
        }
        if self.value.is_some() {
            flags |= HAS_VALUE;
        }
        out.put_u8(flags);
        out.put_i64_le(self.timestamp_ms);
        // A part comes from a frame of less than 2 GiB, so its length cannot saturate.
        for part in [&self.key, &self.value].into_iter().flatten() {
            out.put_u32_le(u32::try_from(part.len()).unwrap_or(u32::MAX));
            out.put_slice(part);
        }
        out.put_u32_le(self.headers.len());
        out.put_slice(self.headers.raw());
        out.freeze()
    }

    /// The key of a stored record. The bytes behind it are not read.
    pub fn parse_key(bytes: &Bytes) -> Result<Option<Bytes>, RawRecordError> {
        RecordHead::parse(bytes).map(|head| head.key)
    }

    /// Decodes the stored format; key, value and headers share `bytes`.
    pub fn parse(bytes: &Bytes) -> Result<Self, RawRecordError> {
        let RecordHead { flags, timestamp_ms, timestamp_type, key, mut rest } =
            RecordHead::parse(bytes)?;
        let value = (flags & HAS_VALUE != 0).then(|| part(&mut rest)).transpose()?;
        let count = u32::from_le_bytes(chunk(&mut rest)?);
        let headers = Headers::parse(count, rest)?;
        Ok(Self { timestamp_ms, timestamp_type, key, value, headers })
    }
}

/// The parts of a stored record up to its key.
struct RecordHead {
    flags: u8,
    timestamp_ms: i64,
    timestamp_type: TimestampType,
    key: Option<Bytes>,
    /// The bytes behind the key.
    rest: Bytes,
}

impl RecordHead {
    fn parse(bytes: &Bytes) -> Result<Self, RawRecordError> {
        let mut rest = bytes.clone();
        let [version, flags] = chunk(&mut rest)?;
        if version != VERSION {
            return Err(RawRecordError::Version { version });
        }
        if flags & !(LOG_APPEND_TIME | HAS_KEY | HAS_VALUE) != 0 {
            return Err(RawRecordError::Flags { flags });
        }
        let timestamp_ms = i64::from_le_bytes(chunk(&mut rest)?);
        let timestamp_type = if flags & LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        };
        let key = (flags & HAS_KEY != 0).then(|| part(&mut rest)).transpose()?;
        Ok(Self { flags, timestamp_ms, timestamp_type, key, rest })
    }
}

fn chunk<const N: usize>(rest: &mut Bytes) -> Result<[u8; N], ReadError> {
    let head = *rest.first_chunk::<N>().ok_or(ReadError::Truncated)?;
    *rest = rest.slice(N..);
    Ok(head)
}

fn part(rest: &mut Bytes) -> Result<Bytes, ReadError> {
    let len = u32::from_le_bytes(chunk(rest)?);
    let len = usize::try_from(len).map_err(|_| ReadError::Truncated)?;
    if len > rest.len() {
        return Err(ReadError::Truncated);
    }
    Ok(rest.split_to(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::Header;

    fn sample() -> RawRecord {
        RawRecord {
            timestamp_ms: i64::MAX - 5,
            timestamp_type: TimestampType::LogAppendTime,
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static(b"paid")),
            headers: [
                Header { key: "h".into(), value: None },
                Header { key: "h".into(), value: Some(Bytes::from_static(&[0xff])) },
            ]
            .into_iter()
            .collect(),
        }
    }

    #[test]
    fn a_stored_record_is_read_back_with_any_nulls() {
        for (key, value) in
            [(None, None), (Some("k"), None), (None, Some("v")), (Some(""), Some(""))]
        {
            let record =
                RawRecord { key: key.map(Bytes::from), value: value.map(Bytes::from), ..sample() };
            assert_eq!(RawRecord::parse_key(&record.to_bytes()), Ok(record.key.clone()));
            assert_eq!(RawRecord::parse(&record.to_bytes()), Ok(record));
        }
    }

    #[test]
    fn the_layout_of_a_stored_record_is_fixed() {
        let fixture: &[u8] = &[
            0x01, 0x07, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x01, 0x00, 0x00, 0x00,
            0x6b, 0x04, 0x00, 0x00, 0x00, 0x70, 0x61, 0x69, 0x64, 0x02, 0x00, 0x00, 0x00, 0x02,
            0x68, 0x01, 0x02, 0x68, 0x02, 0xff,
        ];
        assert_eq!(RawRecord::parse(&Bytes::from_static(fixture)), Ok(sample()));
        assert_eq!(sample().to_bytes(), fixture);
    }

    #[test]
    fn every_cut_other_version_and_unknown_flag_is_refused() {
        let whole = sample().to_bytes();
        for len in 0..whole.len() {
            assert!(RawRecord::parse(&whole.slice(..len)).is_err(), "{len} bytes");
        }
        let with = |version, flags| [&[version, flags], &whole[2..]].concat().into();
        let answer = RawRecord::parse(&with(2, 7));
        assert_eq!(answer, Err(RawRecordError::Version { version: 2 }));
        let answer = RawRecord::parse(&with(1, 0x0f));
        assert_eq!(answer, Err(RawRecordError::Flags { flags: 0x0f }));
    }
}
