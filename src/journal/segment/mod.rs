//! The header of a segment, and the names of the journal's files.
//!
//! ```text
//! "REPRISEJ" | format u16 | 0 u16 | generation u32 | epoch u64 | base_seq u64 | end_seq u64
//! | 0 u32 | crc32c u32                                          48 bytes, little-endian
//! ```
//! `end_seq` is 0 for a segment that the writer fills. For a copy it is one past the last sequence
//! number of its range: a copy is complete before it gets its name.

pub(super) mod bitmap;
pub(super) mod catalog;
pub(super) mod copy;
pub(super) mod encoded_head;
pub(super) mod entry;
pub(super) mod format;
pub(super) mod index_file;
pub(super) mod live_segments;
pub(super) mod scan;

use super::segment::format::{put, u16_at, u32_at, u64_at};

/// The format of a data directory that this build reads and writes; it is in each header too.
pub(super) const FORMAT: u16 = 3;
/// Bytes before the first entry.
pub(super) const SEGMENT_HEADER_LEN: usize = 48;
/// [`SEGMENT_HEADER_LEN`] as a file offset.
pub(super) const SEGMENT_START: u64 = 48;
/// The journal's own index.
pub(super) const INDEX_NAME: &str = "index.redb";
/// The file with the format of the directory.
pub(super) const FORMAT_NAME: &str = "FORMAT";
/// Locked by the process that uses the directory.
pub(super) const LOCK_NAME: &str = "LOCK";
/// Folder for damaged bytes that repair moves out of the log.
pub(super) const QUARANTINE: &str = "quarantine";

const MAGIC: &[u8; 8] = b"REPRISEJ";
const CRC_AT: usize = 44;

/// Identity of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentId {
    /// First sequence number of its range.
    pub(super) base: u64,
    /// Raised by every rewrite.
    pub(super) generation: u32,
}

/// The decoded header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) id: SegmentId,
    pub(super) epoch: u64,
    /// One past the last sequence number; 0 while the writer fills it.
    pub(super) end: u64,
}

/// Why a segment's header was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged,
    Format(u16),
}

/// A byte offset or an entry count within a segment, as stored. A segment has less than 4 GiB: its
/// limit is a `u32`, and only one group of at most `GROUP_MAX` bytes may exceed that limit.
pub(super) fn in_segment(n: u64) -> u32 {
    debug_assert!(u32::try_from(n).is_ok(), "a segment of 4 GiB or more: {n}");
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &FORMAT.to_le_bytes());
        put(&mut bytes, 12, &self.id.generation.to_le_bytes());
        put(&mut bytes, 16, &self.epoch.to_le_bytes());
        put(&mut bytes, 24, &self.id.base.to_le_bytes());
        put(&mut bytes, 32, &self.end.to_le_bytes());
        let crc = crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default());
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        match Self::fields(bytes).ok_or(HeaderError::Damaged)? {
            (FORMAT, header) => Ok(header),
            (format, _) => Err(HeaderError::Format(format)),
        }
    }

    fn fields(bytes: &[u8]) -> Option<(u16, Self)> {
        let crc = crc32c::crc32c(bytes.get(..CRC_AT)?);
        if bytes.get(..8)? != MAGIC || crc != u32_at(bytes, CRC_AT)? {
            return None;
        }
        let id = SegmentId { base: u64_at(bytes, 24)?, generation: u32_at(bytes, 12)? };
        let header = Self { id, epoch: u64_at(bytes, 16)?, end: u64_at(bytes, 32)? };
        Some((u16_at(bytes, 8)?, header))
    }
}

impl SegmentId {
    pub(super) fn log_name(self) -> String {
        format!("{:020}.{:04}.log", self.base, self.generation)
    }

    /// Name of the segment's offset table.
    pub(super) fn idx_name(self) -> String {
        format!("{:020}.{:04}.idx", self.base, self.generation)
    }
}

/// Kind of a file in the directory, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Log(SegmentId),
    Idx(SegmentId),
    /// A leftover of an unfinished rewrite.
    Temporary,
    /// The format file, the lock, or a look-up file.
    Own,
    Foreign,
}

/// True for a file of look-up tables.
pub(super) fn is_tables(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|ext| ext == "redb")
}

/// Classifies a file name.
pub(super) fn classify(name: &str) -> FileKind {
    if name == FORMAT_NAME || name == LOCK_NAME || name == QUARANTINE || is_tables(name) {
        return FileKind::Own;
    }
    if let Some(stem) = name.strip_suffix(".tmp") {
        let ours = matches!(classify(stem), FileKind::Log(_) | FileKind::Idx(_));
        return if ours { FileKind::Temporary } else { FileKind::Foreign };
    }
    let mut parts = name.split('.');
    let (Some(base), Some(generation), Some(ext), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return FileKind::Foreign;
    };
    let (Ok(base), Ok(generation)) = (base.parse(), generation.parse()) else {
        return FileKind::Foreign;
    };
    let id = SegmentId { base, generation };
    match ext {
        "log" if id.log_name() == name => FileKind::Log(id),
        "idx" if id.idx_name() == name => FileKind::Idx(id),
        _ => FileKind::Foreign,
    }
}
