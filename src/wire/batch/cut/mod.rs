//! Removal of single records from batches on their way to a client, as the log cleaner does. The
//! other records keep their offsets and bytes.
//!
//! A batch that loses no record is forwarded unchanged. A batch that loses one is rewritten
//! uncompressed. Base offset, last offset delta, producer, type and timestamp type stay, so clients
//! move past the gap. Control batches are never opened.

mod rewrite;
#[cfg(test)]
mod tests;
mod whole;

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use self::rewrite::{SelectedRecords, UnparsedBatches, keep, only};
use self::whole::{FinalShare, nothing_of, settled};
use super::header::BatchHeader;
use super::produce::Batch;
use super::records::RecordError;
use crate::model::OffsetRuns;

pub use self::whole::{UnreadableBatch, whole_at};

/// Batches for the client after the removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Holds whole batches only.
    pub records: Bytes,
    /// The first record kept by [`alone_seen`] or [`below`].
    pub first: Option<i64>,
    /// The client's next fetch offset: after the last batch. Without a batch: the requested offset,
    /// or −1 if there was none.
    pub end: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// Format 0 or 1, older than Kafka 0.11, or a future format.
    #[error("the batch at offset {base_offset} has record format {magic}; version 2 is cut")]
    Magic {
        base_offset: i64,
        /// Record format in the header.
        magic: i8,
    },
    /// The compression codec is unknown.
    #[error("the batch at offset {base_offset} has the unknown compression codec {codec}")]
    Codec {
        base_offset: i64,
        /// Lowest three bits of the attributes.
        codec: i16,
    },
    #[error("the batch at offset {base_offset} is damaged: {damage}")]
    Corrupt {
        /// Base offset of the batch, outside the CRC.
        base_offset: i64,
        damage: BatchDamage,
    },
    /// The records decompress to more than the bound.
    #[error("the batch at offset {base_offset} unpacks to more than {max} bytes")]
    TooLarge {
        base_offset: i64,
        /// The bound, in bytes.
        max: usize,
    },
}

/// Defects of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchDamage {
    /// The length is less than a header.
    #[error("its length is impossible")]
    Length,
    /// The CRC32C does not match the bytes.
    #[error("its checksum is wrong")]
    Crc,
    /// The bytes hold more or fewer records than the header counts.
    #[error("it does not hold the {count} records it claims")]
    Count {
        /// Count in the header.
        count: i32,
    },
    /// A record's offset lies outside of the batch, or does not exceed the one before.
    #[error("the offsets in it do not rise from its first to its last")]
    Offsets,
    /// The batch cannot be decompressed, or a record cannot be parsed.
    #[error(transparent)]
    Records(#[from] RecordError),
}

/// Removes the records at `offsets`, which ascend. A batch that loses all its records is left out;
/// the last one stays as an empty one, so that clients move past it. Some clients (kafka-go) end at
/// an empty batch with another one behind it. A truncated last batch is dropped.
///
/// `bytes_max` bounds all decompressed and kept bytes together. A batch over the bound, or one that
/// cannot be cut, ends the result before it; as the first batch it is an error. An unreadable batch
/// stays as an empty one if all its offsets are removed.
pub fn without(records: &Bytes, offsets: &[i64], bytes_max: usize) -> Result<Cut, CutError> {
    without_from(records, i64::MIN, offsets, bytes_max)
}

/// Like [`without`], for a client that fetches from `from`: a rewritten batch also loses the
/// records below. Some clients (sarama, kafkajs) take an answer with only such records for a lost
/// record.
pub fn without_from(
    records: &Bytes,
    from: i64,
    offsets: &[i64],
    bytes_max: usize,
) -> Result<Cut, CutError> {
    let mut pieces = BatchPieces::of(records);
    let mut end = None;
    let mut left = bytes_max;
    let mut emptied = None;
    let mut rest = UnparsedBatches(records.clone());
    loop {
        let next = rest.next_batch().and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let holds = has_data(&batch.header) && within(offsets, &batch.header);
            if !holds {
                return Ok(Some((batch, None)));
            }
            match (keep(&batch, from, offsets, left), settled(&batch, i64::MIN, offsets)) {
                (Err(_), FinalShare::All) => {
                    let nothing = nothing_of(&batch);
                    Ok(Some((batch, Some(nothing))))
                }
                (cut, _) => Ok(Some((batch, cut?))),
            }
        });
        match next {
            Ok(Some((batch, cut))) => {
                end = Some(batch.header.last_offset().saturating_add(1));
                emptied = None;
                match cut {
                    None => pieces.pass(&batch),
                    Some(cut) => {
                        left = left.saturating_sub(cut.unpacked_bytes);
                        if is_empty(&cut.batch) {
                            pieces.leave_out(&batch);
                            emptied = Some(cut.batch);
                        } else {
                            pieces.replace(&batch, cut.batch);
                        }
                    }
                }
            }
            Err(error) if end.is_none() => return Err(error),
            Ok(None) | Err(_) => break,
        }
    }
    if let Some(batch) = emptied {
        pieces.add(batch);
    }
    let nowhere = if from == i64::MIN { -1 } else { from };
    Ok(Cut { records: pieces.joined(), first: None, end: end.unwrap_or(nowhere) })
}

/// Like [`alone_seen`], with no hidden offsets.
pub fn alone(
    records: &Bytes,
    from: i64,
    without: &[i64],
    bytes_max: usize,
) -> Result<Cut, CutError> {
    alone_seen(records, from, without, &OffsetRuns::default(), bytes_max)
}

/// Bound for [`below`] that keeps one record.
pub(super) const ONE: i64 = i64::MIN;

/// Keeps only the first data record at or above `from` that is neither in `without`, which ascend,
/// nor in `hidden`. Its batch ends at it, and no batch follows. Of earlier batches only control
/// batches stay: they end transactions for read-committed clients. Without such a record: as
/// [`without_from`].
///
/// One batch at a time is decompressed, to at most `bytes_max` bytes. An unreadable batch counts as
/// one record and is kept whole, unless all its offsets are removed. If only some are removed, it
/// ends the search; without anything before it, it is an error.
pub fn alone_seen(
    records: &Bytes,
    from: i64,
    without: &[i64],
    hidden: &OffsetRuns,
    bytes_max: usize,
) -> Result<Cut, CutError> {
    below(records, from, (without, ONE), hidden, bytes_max)
}

/// Like [`alone_seen`], plus the later records of the same batch below an offset.
pub fn below(
    records: &Bytes,
    from: i64,
    (without, below): (&[i64], i64),
    hidden: &OffsetRuns,
    bytes_max: usize,
) -> Result<Cut, CutError> {
    let mut pieces = BatchPieces::of(records);
    let mut reached = false;
    let mut rest = UnparsedBatches(records.clone());
    let mut at = 0;
    loop {
        let next = rest.next_batch().and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let header = &batch.header;
            let is_seen = has_data(header) && hidden.at(header.base_offset).is_none();
            let asked = is_seen && header.last_offset() >= from;
            let found =
                if asked { first_of(&batch, from, (without, below), bytes_max)? } else { None };
            Ok(Some((batch, found)))
        });
        let (batch, found) = match next {
            Ok(Some(next)) => next,
            Err(error) if !reached => return Err(error),
            Ok(None) | Err(_) => break,
        };
        if let Some(found) = found {
            match found.batch {
                None => pieces.pass(&batch),
                Some(bytes) => pieces.replace(&batch, bytes),
            }
            let (first, end) = (Some(found.offset), found.end);
            return Ok(Cut { records: pieces.joined(), first, end });
        }
        at += batch.bytes.len();
        let wanted = batch.header.last_offset() >= from;
        reached |= wanted;
        if wanted && batch.header.is_control() {
            pieces.pass(&batch);
        } else {
            pieces.leave_out(&batch);
        }
    }
    without_from(&records.slice(..at), from, without, bytes_max)
}

fn is_empty(batch: &[u8]) -> bool {
    BatchHeader::parse(batch).is_ok_and(|header| header.count == 0)
}

fn has_data(header: &BatchHeader) -> bool {
    !header.is_control() && header.count != 0
}

/// The first selected records; the whole batch if it cannot be read.
fn first_of(
    batch: &Batch,
    from: i64,
    (without, below): (&[i64], i64),
    bytes_max: usize,
) -> Result<Option<SelectedRecords>, CutError> {
    only(batch, from, without, below, bytes_max).or_else(|error| {
        match settled(batch, from, without) {
            FinalShare::Nothing => Ok(Some(SelectedRecords {
                offset: from.max(batch.header.base_offset),
                end: batch.header.last_offset().saturating_add(1),
                batch: None,
            })),
            FinalShare::All => Ok(None),
            FinalShare::Some => Err(error),
        }
    })
}

/// Whether one of `offsets`, which ascend, lies in the batch.
fn within(offsets: &[i64], header: &BatchHeader) -> bool {
    let at = offsets.partition_point(|offset| *offset < header.base_offset);
    offsets.get(at).is_some_and(|offset| *offset <= header.last_offset())
}

/// Builds the result: consecutive unchanged batches become one slice of the source.
struct BatchPieces<'a> {
    source: &'a Bytes,
    run: Range<usize>,
    before: Vec<Bytes>,
}

impl<'a> BatchPieces<'a> {
    fn of(source: &'a Bytes) -> Self {
        Self { source, run: 0..0, before: Vec::new() }
    }

    fn pass(&mut self, batch: &Batch) {
        self.run.end += batch.bytes.len();
    }

    fn replace(&mut self, batch: &Batch, bytes: Bytes) {
        self.leave_out(batch);
        self.before.push(bytes);
    }

    fn add(&mut self, bytes: Bytes) {
        self.flush();
        self.run = self.run.end..self.run.end;
        self.before.push(bytes);
    }

    fn leave_out(&mut self, batch: &Batch) {
        self.flush();
        let at = self.run.end + batch.bytes.len();
        self.run = at..at;
    }

    fn flush(&mut self) {
        if !self.run.is_empty() {
            self.before.push(self.source.slice(self.run.clone()));
        }
    }

    fn joined(mut self) -> Bytes {
        self.flush();
        if self.before.len() <= 1 {
            return self.before.pop().unwrap_or_default();
        }
        let mut out = BytesMut::with_capacity(self.before.iter().map(Bytes::len).sum());
        for piece in &self.before {
            out.extend_from_slice(piece);
        }
        out.freeze()
    }
}
