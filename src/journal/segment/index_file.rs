//! The offset table beside a sealed segment: where each sequence number begins. Rebuilt from the
//! segment when it is missing or wrong.
//!
//! ```text
//! "REPRISEX" | format u16 | 0 u16 | count u32 | epoch u64 | base_seq u64 | 0 u32 | crc32c u32
//! then count × (seq - base_seq u32, offset u32)                          little-endian
//! ```
//! The checksum covers the 36 bytes before it; the entry at its offset verifies a pair.

use std::io;
use std::sync::Arc;

use super::format::{put, u32_at, u64_at};
use super::scan::length;
use super::{FORMAT, SegmentId, in_segment};
use crate::journal::{Disk, DiskFile};

const MAGIC: &[u8; 8] = b"REPRISEX";
const HEADER_LEN: usize = 40;
const CRC_AT: usize = 36;
/// Bytes of a pair.
pub(in crate::journal) const PAIR_LEN: u64 = 8;

/// An open offset table.
#[derive(Debug)]
pub(in crate::journal) struct IndexFile {
    file: Arc<dyn DiskFile>,
    base: u64,
    count: u32,
}

/// Position of a sequence number in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct IndexSlot {
    /// Position among the segment's entries, from 0.
    pub(in crate::journal) ordinal: u32,
    /// Byte offset in the segment.
    pub(in crate::journal) offset: u64,
}

/// Writes the table of a segment; `pairs` are (sequence number, offset) in order.
pub(in crate::journal) fn write(
    disk: &dyn Disk,
    name: &str,
    id: SegmentId,
    epoch: u64,
    pairs: &[(u64, u32)],
) -> io::Result<()> {
    let count = in_segment(length(pairs));
    let mut bytes = vec![0; HEADER_LEN];
    bytes.reserve(pairs.len() * 8);
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, 8, &FORMAT.to_le_bytes());
    put(&mut bytes, 12, &count.to_le_bytes());
    put(&mut bytes, 16, &epoch.to_le_bytes());
    put(&mut bytes, 24, &id.base.to_le_bytes());
    let crc = crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default());
    put(&mut bytes, CRC_AT, &crc.to_le_bytes());
    for (seq, offset) in pairs {
        // compact.rs merges only segments whose range has less than 2^32 sequence numbers.
        let delta = in_segment(seq.saturating_sub(id.base));
        bytes.extend_from_slice(&delta.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
    }
    let written = disk.create(name).and_then(|file| {
        file.write_at(0, &bytes)?;
        file.sync_data()
    });
    if written.is_err() {
        // half a table is useless, and a full disk needs its space
        let _ = disk.remove(name);
    }
    written
}

impl IndexFile {
    /// Opens a table; `None` when it is missing, damaged, or belongs to another segment.
    pub(in crate::journal) fn open(disk: &dyn Disk, id: SegmentId, epoch: u64) -> Option<Self> {
        let file = disk.open(&id.idx_name()).ok()?;
        let mut header = [0; HEADER_LEN];
        file.read_at(0, &mut header).ok()?;
        let crc = crc32c::crc32c(header.get(..CRC_AT)?);
        let count = u32_at(&header, 12)?;
        let ours = header.starts_with(MAGIC)
            && u32_at(&header, CRC_AT)? == crc
            && u64_at(&header, 16)? == epoch
            && u64_at(&header, 24)? == id.base
            && file.len().ok()? == 40 + u64::from(count) * PAIR_LEN;
        ours.then_some(Self { file, base: id.base, count })
    }

    /// Number of pairs.
    pub(in crate::journal) fn count(&self) -> u32 {
        self.count
    }

    /// Looks up a sequence number; `None` when the segment does not have it.
    pub(in crate::journal) fn find(&self, seq: u64) -> io::Result<Option<IndexSlot>> {
        let Ok(wanted) = u32::try_from(seq.saturating_sub(self.base)) else { return Ok(None) };
        // a segment that was never compacted has every number, so the first guess is right
        let (mut low, mut high) = (0, self.count);
        let mut guess = wanted.min(self.count.saturating_sub(1));
        while low < high {
            let (delta, offset) = self.pair(guess)?;
            match delta.cmp(&wanted) {
                std::cmp::Ordering::Equal => {
                    return Ok(Some(IndexSlot { ordinal: guess, offset: u64::from(offset) }));
                }
                std::cmp::Ordering::Less => low = guess + 1,
                std::cmp::Ordering::Greater => high = guess,
            }
            guess = low + (high.saturating_sub(low)) / 2;
        }
        Ok(None)
    }

    fn pair(&self, ordinal: u32) -> io::Result<(u32, u32)> {
        let mut pair = [0; 8];
        self.file.read_at(40 + u64::from(ordinal) * PAIR_LEN, &mut pair)?;
        Ok((u32_at(&pair, 0).unwrap_or(0), u32_at(&pair, 4).unwrap_or(0)))
    }
}
