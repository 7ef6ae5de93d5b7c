//! Rewriting of one batch with some of its records.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{BatchDamage, CutError};
use crate::wire::batch::build::{finish, put_at};
use crate::wire::batch::compress::decompress;
use crate::wire::batch::header::{
    BatchHeader, HEADER_BYTES, TimestampType, uncompressed_attributes,
};
use crate::wire::batch::produce::{Batch, MAGIC};
use crate::wire::batch::records::RecordError;
use crate::wire::reader::{ReadError, Reader, length};

/// Batches that are not parsed yet.
pub(super) struct UnparsedBatches(pub(super) Bytes);

/// A rewritten batch with the records that stay.
pub(super) struct RewrittenBatch {
    pub(super) batch: Bytes,
    /// Bytes of the original records, decompressed.
    pub(super) unpacked_bytes: usize,
}

/// Selected records of one batch, and a batch that holds only them.
pub(super) struct SelectedRecords {
    /// The first selected offset.
    pub(super) offset: i64,
    /// The client's next fetch offset.
    pub(super) end: i64,
    /// `None`: the original batch holds only these records.
    pub(super) batch: Option<Bytes>,
}

impl UnparsedBatches {
    /// The next batch, its records not parsed; `None`: no whole batch is left.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, CutError> {
        let mut start = Reader::new(&self.0);
        let (Ok(base_offset), Some(&magic)) = (start.int64(), self.0.get(16)) else {
            return Ok(None);
        };
        let magic = magic.cast_signed();
        if magic != MAGIC {
            return Err(CutError::Magic { base_offset, magic });
        }
        let Ok(header) = BatchHeader::parse(&self.0) else { return Ok(None) };
        let corrupt = |damage| CutError::Corrupt { base_offset, damage };
        let total = header.total_bytes().filter(|total| *total >= HEADER_BYTES);
        let total = total.ok_or(corrupt(BatchDamage::Length))?;
        if total > self.0.len() {
            return Ok(None);
        }
        if base_offset < 0 || header.last_offset_delta < 0 {
            return Err(corrupt(BatchDamage::Offsets));
        }
        let bytes = self.0.slice(..total);
        self.0.advance(total);
        Ok(Some(Batch { header, bytes }))
    }
}

/// Removes `offsets` and all records below `from`; `None`: the batch holds none of `offsets`.
pub(super) fn keep(
    batch: &Batch,
    from: i64,
    offsets: &[i64],
    bytes_max: usize,
) -> Result<Option<RewrittenBatch>, CutError> {
    let plain = open(batch, bytes_max)?;
    let mut anew = BatchRewriter::of(batch, plain.len());
    let mut cut = false;
    each(batch, &plain, |record| {
        if offsets.binary_search(&record.offset).is_ok() {
            cut = true;
        } else if record.offset >= from {
            anew.put(&record);
        }
        true
    })?;
    if !cut {
        return Ok(None);
    }
    let last_offset_delta = batch.header.last_offset_delta;
    Ok(Some(RewrittenBatch { batch: anew.end(last_offset_delta), unpacked_bytes: plain.len() }))
}

/// Selects the first record at or above `from` that is not in `without`, and later ones below
/// `below`. The resulting batch ends at the last of them.
pub(super) fn only(
    batch: &Batch,
    from: i64,
    without: &[i64],
    below: i64,
    bytes_max: usize,
) -> Result<Option<SelectedRecords>, CutError> {
    let plain = open(batch, bytes_max)?;
    let mut anew = BatchRewriter::of(batch, 0);
    let mut kept: Option<(i64, i32)> = None;
    each(batch, &plain, |record| {
        if record.offset < from || without.binary_search(&record.offset).is_ok() {
            return true;
        }
        let first = match kept {
            Some(_) if record.offset >= below => return false,
            Some((first, _)) => first,
            None => record.offset,
        };
        kept = Some((first, record.delta));
        anew.put(&record);
        record.offset.saturating_add(1) < below
    })?;
    let Some((offset, last)) = kept else { return Ok(None) };
    let BatchHeader { base_offset, count, last_offset_delta, .. } = batch.header;
    let is_all = anew.count == count && last == last_offset_delta;
    let end = base_offset.saturating_add(i64::from(last)).saturating_add(1);
    Ok(Some(SelectedRecords { offset, end, batch: (!is_all).then(|| anew.end(last)) }))
}

/// Decompresses the records. The CRC is checked first: a rewritten batch gets a correct one, which
/// would hide damage from the client.
fn open(batch: &Batch, bytes_max: usize) -> Result<Bytes, CutError> {
    let BatchHeader { base_offset, attributes, .. } = batch.header;
    let codec = batch.header.codec();
    let codec = codec.ok_or(CutError::Codec { base_offset, codec: attributes & 7 })?;
    let corrupt = |damage| CutError::Corrupt { base_offset, damage };
    batch.check_crc().map_err(|_| corrupt(BatchDamage::Crc))?;
    decompress(codec, &batch.payload(), bytes_max).map_err(|error| match error {
        RecordError::TooLarge { max } => CutError::TooLarge { base_offset, max },
        other => corrupt(other.into()),
    })
}

/// A record, as far as it is parsed.
struct Record<'a> {
    offset: i64,
    /// Offset minus the base offset.
    delta: i32,
    timestamp_delta: i64,
    /// The whole record, length included.
    bytes: &'a [u8],
}

/// Calls `go_on` for every record until it returns false.
fn each<'a>(
    batch: &Batch,
    plain: &'a [u8],
    mut go_on: impl FnMut(Record<'a>) -> bool,
) -> Result<(), CutError> {
    let BatchHeader { base_offset, count, last_offset_delta, .. } = batch.header;
    let corrupt = |damage| CutError::Corrupt { base_offset, damage };
    let mut least = 0;
    let mut reader = Reader::new(plain);
    for _ in 0..count {
        let record = read(&mut reader, base_offset);
        let record = record.map_err(|error| corrupt(RecordError::from(error).into()))?;
        if record.delta < least || record.delta > last_offset_delta {
            return Err(corrupt(BatchDamage::Offsets));
        }
        least = record.delta.saturating_add(1);
        if !go_on(record) {
            return Ok(());
        }
    }
    if count < 0 || !reader.is_empty() {
        return Err(corrupt(BatchDamage::Count { count }));
    }
    Ok(())
}

fn read<'a>(reader: &mut Reader<'a>, base_offset: i64) -> Result<Record<'a>, ReadError> {
    let from = reader.rest();
    let len = length(reader.varint()?)?;
    let mut inner = Reader::new(reader.take(len)?);
    inner.int8()?; // attributes, unused
    let timestamp_delta = inner.varlong()?;
    let delta = inner.varint()?;
    let bytes = from.get(..from.len() - reader.remaining()).ok_or(ReadError::Truncated)?;
    let offset = base_offset.saturating_add(i64::from(delta));
    Ok(Record { offset, delta, timestamp_delta, bytes })
}

/// A batch while it is rewritten.
struct BatchRewriter {
    header: BatchHeader,
    bytes: BytesMut,
    count: i32,
    timestamp_ms_max: Option<i64>,
}

impl BatchRewriter {
    fn of(batch: &Batch, records_bytes: usize) -> Self {
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + records_bytes);
        bytes.put_slice(batch.bytes.get(..HEADER_BYTES).unwrap_or_default());
        Self { header: batch.header, bytes, count: 0, timestamp_ms_max: None }
    }

    fn put(&mut self, record: &Record<'_>) {
        self.bytes.put_slice(record.bytes);
        self.count += 1;
        let timestamp_ms = self.header.base_timestamp_ms.saturating_add(record.timestamp_delta);
        self.timestamp_ms_max = self.timestamp_ms_max.max(Some(timestamp_ms));
    }

    /// With `CreateTime` the largest timestamp is that of the kept records. An empty batch, or one
    /// with `LogAppendTime`, keeps the original one.
    fn end(mut self, last_offset_delta: i32) -> Bytes {
        let header = &self.header;
        let timestamp_ms_max = match header.timestamp_type() {
            TimestampType::CreateTime => self.timestamp_ms_max,
            TimestampType::LogAppendTime => None,
        };
        let timestamp_ms_max = timestamp_ms_max.unwrap_or(header.max_timestamp_ms);
        let attributes = uncompressed_attributes(header.attributes);
        // The header was copied first, so every position exists.
        let _ = put_at(&mut self.bytes, 21, attributes.to_be_bytes());
        let _ = put_at(&mut self.bytes, 23, last_offset_delta.to_be_bytes());
        let _ = put_at(&mut self.bytes, 35, timestamp_ms_max.to_be_bytes());
        let _ = put_at(&mut self.bytes, 57, self.count.to_be_bytes());
        finish(self.bytes)
    }
}
