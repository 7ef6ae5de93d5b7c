//! Single records taken out of the batches a client is given, the way a log cleaner does it: what
//! stays keeps its offset and every one of its bytes.
//!
//! A batch that loses nothing is passed as it came. One that loses a record is written anew,
//! uncompressed, with the header it had: base offset, last offset delta, producer, kind and clock
//! stay, so that a client moves on over the gap. Control batches are never opened.

mod rewrite;
#[cfg(test)]
mod tests;
mod whole;

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use self::rewrite::{Found, Rest, keep, only};
use self::whole::{Settled, nothing_of, settled};
use super::header::BatchHeader;
use super::produce::Batch;
use super::records::RecordError;
use crate::model::Runs;

pub use self::whole::{Whole, whole_at};

/// What a client is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whole batches.
    pub records: Bytes,
    /// The first record kept by [`alone_seen`] or [`below`].
    pub first: Option<i64>,
    /// Where a client goes on: behind the last batch. Without any: the offset asked for, or −1
    /// where none was told.
    pub end: i64,
}

/// Why a batch cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// Written before Kafka 0.11, or by a Kafka yet to come.
    #[error("the batch at offset {base_offset} has record format {magic}; version 2 is cut")]
    Magic {
        /// Which batch.
        base_offset: i64,
        /// The format's number.
        magic: i8,
    },
    /// Compressed in a way nobody knows.
    #[error("the batch at offset {base_offset} has the unknown compression codec {codec}")]
    Codec {
        /// Which batch.
        base_offset: i64,
        /// The codec's number.
        codec: i16,
    },
    /// Damaged.
    #[error("the batch at offset {base_offset} is damaged: {damage}")]
    Corrupt {
        /// Which batch.
        base_offset: i64,
        /// How.
        damage: Damage,
    },
    /// It unpacks to more than allowed.
    #[error("the batch at offset {base_offset} unpacks to more than {max} bytes")]
    TooLarge {
        /// Which batch.
        base_offset: i64,
        /// The bound, in bytes.
        max: usize,
    },
}

/// What is wrong with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its length is less than its header takes.
    #[error("its length is impossible")]
    Length,
    /// Its CRC32C is not that of its bytes.
    #[error("its checksum is wrong")]
    Crc,
    /// Its bytes hold more or fewer records.
    #[error("it does not hold the {count} records it claims")]
    Count {
        /// As claimed.
        count: i32,
    },
    /// A record lies outside, or not behind the one before it.
    #[error("the offsets in it do not rise from its first to its last")]
    Offsets,
    /// It cannot be unpacked, or a record in it cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
}

impl CutError {
    /// Which batch it is.
    pub fn base_offset(&self) -> i64 {
        match self {
            Self::Magic { base_offset, .. }
            | Self::Codec { base_offset, .. }
            | Self::Corrupt { base_offset, .. }
            | Self::TooLarge { base_offset, .. } => *base_offset,
        }
    }
}

/// The same records without those at `offsets`, which ascend. A batch of which nothing remains
/// stays as an empty one. A torn last batch is kept out.
///
/// What is unpacked and kept is at most `bytes_max` bytes in all. A batch that would be too much
/// or cannot be cut ends the result before it; only as the first one it is an error. One that
/// cannot be read and of which every offset is left out stays as an empty one.
pub fn without(records: &Bytes, offsets: &[i64], bytes_max: usize) -> Result<Cut, CutError> {
    without_from(records, i64::MIN, offsets, bytes_max)
}

/// The same for a client that asked from `from` on: a batch that is cut loses what lies below as
/// well. Some clients (sarama, kafkajs) take an answer of such records alone for a record lost.
pub fn without_from(
    records: &Bytes,
    from: i64,
    offsets: &[i64],
    bytes_max: usize,
) -> Result<Cut, CutError> {
    let mut pieces = Pieces::of(records);
    let mut end = None;
    let mut left = bytes_max;
    let mut rest = Rest(records.clone());
    loop {
        let next = rest.next_batch().and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let holds = has_data(&batch.header) && within(offsets, &batch.header);
            if !holds {
                return Ok(Some((batch, None)));
            }
            match (keep(&batch, from, offsets, left), settled(&batch, i64::MIN, offsets)) {
                (Err(_), Settled::All) => {
                    let nothing = nothing_of(&batch);
                    Ok(Some((batch, Some(nothing))))
                }
                (cut, _) => Ok(Some((batch, cut?))),
            }
        });
        match next {
            Ok(Some((batch, cut))) => {
                end = Some(batch.header.last_offset().saturating_add(1));
                match cut {
                    None => pieces.pass(&batch),
                    Some(cut) => {
                        left = left.saturating_sub(cut.unpacked_bytes);
                        pieces.replace(&batch, cut.batch);
                    }
                }
            }
            Err(error) if end.is_none() => return Err(error),
            Ok(None) | Err(_) => break,
        }
    }
    let nowhere = if from == i64::MIN { -1 } else { from };
    Ok(Cut { records: pieces.joined(), first: None, end: end.unwrap_or(nowhere) })
}

/// As [`alone_seen`], of all records there are.
pub fn alone(
    records: &Bytes,
    from: i64,
    without: &[i64],
    bytes_max: usize,
) -> Result<Cut, CutError> {
    alone_seen(records, from, without, &Runs::default(), bytes_max)
}

/// One record, whatever its offset.
pub(super) const ONE: i64 = i64::MIN;

/// Only the first data record at or above `from` that is none of `without`, which ascend, and in no
/// batch of `hidden`. Its batch ends at it, and nothing follows; of what lies before, only control
/// batches stay, which end transactions for a client that reads committed records. Without such a
/// record: as [`without_from`].
///
/// One batch at a time is unpacked, to at most `bytes_max` bytes. One that cannot be read is one
/// record: it is given whole, unless all of it is to be left out. Where some of it is, it ends the
/// search; it is an error where nothing lies before it.
pub fn alone_seen(
    records: &Bytes,
    from: i64,
    without: &[i64],
    hidden: &Runs,
    bytes_max: usize,
) -> Result<Cut, CutError> {
    below(records, from, (without, ONE), hidden, bytes_max)
}

/// Like [`alone_seen`], and the records of the same batch behind the first one that lie below an
/// offset.
pub fn below(
    records: &Bytes,
    from: i64,
    (without, below): (&[i64], i64),
    hidden: &Runs,
    bytes_max: usize,
) -> Result<Cut, CutError> {
    let mut pieces = Pieces::of(records);
    let mut reached = false;
    let mut rest = Rest(records.clone());
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

fn has_data(header: &BatchHeader) -> bool {
    !header.is_control() && header.count != 0
}

/// The first records that are wanted; the whole batch, where it cannot be read.
fn first_of(
    batch: &Batch,
    from: i64,
    (without, below): (&[i64], i64),
    bytes_max: usize,
) -> Result<Option<Found>, CutError> {
    only(batch, from, without, below, bytes_max).or_else(|error| {
        match settled(batch, from, without) {
            Settled::Nothing => Ok(Some(Found {
                offset: from.max(batch.header.base_offset),
                end: batch.header.last_offset().saturating_add(1),
                batch: None,
            })),
            Settled::All => Ok(None),
            Settled::Some => Err(error),
        }
    })
}

/// Whether one of these offsets, which ascend, lies in the batch.
fn within(offsets: &[i64], header: &BatchHeader) -> bool {
    let at = offsets.partition_point(|offset| *offset < header.base_offset);
    offsets.get(at).is_some_and(|offset| *offset <= header.last_offset())
}

/// The result as it grows: runs of batches that are passed are one slice of where they came from.
struct Pieces<'a> {
    source: &'a Bytes,
    run: Range<usize>,
    before: Vec<Bytes>,
}

impl<'a> Pieces<'a> {
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
