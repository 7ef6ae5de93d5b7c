//! Validation of a produced batch's records against its header, as in Kafka's `LogValidator`: a
//! wrong count would stop every consumer at that batch.

use super::compress::decompress;
use super::header::Codec;
use super::produce::Batch;
use super::records::RecordError;
use crate::wire::reader::{ReadError, Reader, length};

/// Walks all records of `batch`, decompressed to at most `bytes_max` bytes. `show` gets each
/// record's index and the producer's timestamp. Uncompressed records are not copied. The CRC is not
/// checked again.
pub fn check_records(
    batch: &Batch,
    bytes_max: usize,
    mut show: impl FnMut(i32, i64),
) -> Result<(), RecordError> {
    let header = &batch.header;
    let codec = header.codec().ok_or(RecordError::Batch)?;
    let bytes_max = if codec == Codec::None { usize::MAX } else { bytes_max };
    let plain = decompress(codec, &batch.payload(), bytes_max)?;
    let mut reader = Reader::new(&plain);
    for index in 0..header.count {
        if reader.is_empty() {
            return Err(RecordError::Count { count: header.count });
        }
        let len = length(reader.varint()?)?;
        let delta_ms = check_record(Reader::new(reader.take(len)?), index)?;
        show(index, header.base_timestamp_ms.saturating_add(delta_ms));
    }
    if reader.is_empty() { Ok(()) } else { Err(RecordError::Count { count: header.count }) }
}

fn check_record(mut reader: Reader<'_>, index: i32) -> Result<i64, RecordError> {
    reader.int8()?; // attributes, unused
    let delta_ms = reader.varlong()?;
    if reader.varint()? != index {
        return Err(RecordError::Offset);
    }
    reader.varint_bytes()?;
    reader.varint_bytes()?;
    let headers = length(reader.varint()?)?;
    for _ in 0..headers {
        reader.varint_bytes()?.ok_or(ReadError::NegativeLength)?;
        reader.varint_bytes()?;
    }
    if reader.is_empty() { Ok(delta_ms) } else { Err(RecordError::Length) }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes, BytesMut};

    use super::*;
    use crate::wire::batch::{
        Header, Headers, ProducerStamp, RawRecord, TimestampType, produce_batch,
    };

    const BYTES_MAX: usize = 1 << 20;

    fn good() -> Bytes {
        let record = |value: Option<&'static str>| RawRecord {
            timestamp_ms: 5,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: value.map(Bytes::from),
            headers: [Header { key: "h".into(), value: None }].into_iter().collect(),
        };
        let plain = RawRecord { headers: Headers::default(), ..record(Some("plain")) };
        let stamp = ProducerStamp { id: 1, epoch: 0, sequence: 0 };
        produce_batch(&[record(Some("a")), plain, record(None)], Some(stamp)).unwrap()
    }

    fn checked(bytes: impl Into<Bytes>) -> Result<(), RecordError> {
        check_records(&Batch::parse(&bytes.into()).unwrap(), BYTES_MAX, |_, _| {})
    }

    /// The good batch with another record count.
    fn counting(count: i32) -> Vec<u8> {
        let mut bytes = good().to_vec();
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        bytes
    }

    #[test]
    fn a_batch_must_match_its_record_count_and_offsets() {
        assert_eq!(checked(good()), Ok(()));
        for count in [2, 4, i32::MAX] {
            assert_eq!(checked(counting(count)), Err(RecordError::Count { count }));
        }
        let mut moved = good().to_vec();
        // Length, attributes and timestamp delta come before the offset delta.
        moved[64] = 2;
        assert_eq!(checked(moved), Err(RecordError::Offset));
    }

    #[test]
    fn a_record_must_end_at_its_stated_length() {
        for at in 61..good().len() {
            let mut bytes = good().to_vec();
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                bytes[at] = byte;
                // Some of these bytes are values, which may be anything.
                let _ = checked(bytes.clone());
            }
        }
        let mut longer = good().to_vec();
        longer[61] += 2;
        assert!(checked(longer).is_err());
        // A null header key, and the largest count of headers.
        for headers in [&[2, 1, 1][..], &[0xfe, 0xff, 0xff, 0xff, 0x0f]] {
            let mut record = BytesMut::from(&[0, 0, 0, 1, 1][..]);
            record.put_slice(headers);
            let mut bytes = good()[..61].to_vec();
            bytes.push(u8::try_from(record.len() * 2).unwrap());
            bytes.extend_from_slice(&record);
            bytes[57..61].copy_from_slice(&1_i32.to_be_bytes());
            let len = i32::try_from(bytes.len() - 12).unwrap();
            bytes[8..12].copy_from_slice(&len.to_be_bytes());
            assert!(matches!(checked(bytes), Err(RecordError::Read(_))), "{headers:?}");
        }
    }
}
