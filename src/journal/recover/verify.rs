//! Verifies every byte of a log that is not open, and reports the damage.

use std::sync::Arc;

use serde::Serialize;

use crate::journal::disk::real_disk::open_error;
use crate::journal::segment::SEGMENT_START;
use crate::journal::segment::catalog::{FoundSegment, catalog, check_format};
use crate::journal::segment::scan::{RawEntry, ScanStep, Scanner};
use crate::journal::{Disk, OpenError};

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Segments with a sound header.
    pub segments: usize,
    pub entries: u64,
    /// Bytes of sound entries.
    pub bytes: u64,
    /// Damaged ranges, in order.
    pub damage: Vec<DamagedRange>,
    pub foreign: Vec<String>,
}

/// A range of a segment that holds no sound entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedRange {
    /// The segment's file name.
    pub file: String,
    /// Offset of its first byte in the file.
    pub offset: u64,
    #[serde(rename = "bytes")]
    pub len: u64,
    /// The range is a torn write: the next start cuts it off.
    pub torn: bool,
}

/// Verifies the whole log; changes nothing except that it writes a missing format file.
pub fn verify(disk: &dyn Disk) -> Result<VerifyReport, OpenError> {
    verify_each(disk, &mut |_, _| {})
}

/// Does the same as [`verify`]. `begin` gets the index of each segment and their number.
pub fn verify_each(
    disk: &dyn Disk,
    begin: &mut dyn FnMut(usize, usize),
) -> Result<VerifyReport, OpenError> {
    check_format(disk)?;
    let listed = catalog(disk, None)?;
    let mut verified = VerifyReport { foreign: listed.foreign, ..VerifyReport::default() };
    let newest = listed.segments.last().map_or(0, |found| found.header.id.base);
    for headless in &listed.headless {
        let torn = headless.id.base >= newest && headless.len <= SEGMENT_START;
        let (file, len) = (headless.id.log_name(), headless.len);
        verified.damage.push(DamagedRange { file, offset: 0, len, torn });
    }
    let count = listed.segments.len();
    for (at, found) in listed.segments.iter().enumerate() {
        let last = at + 1 == count && found.header.end == 0 && listed.headless.is_empty();
        begin(at, count);
        verified.segments += 1;
        let damage = examine(disk, found, last, &mut |raw| {
            verified.entries += 1;
            verified.bytes += crate::journal::segment::scan::length(&raw.bytes);
        })?;
        verified.damage.extend(damage);
    }
    Ok(verified)
}

/// Scans a segment past all damage; `f` gets the sound entries.
pub(super) fn examine(
    disk: &dyn Disk,
    found: &FoundSegment,
    may_tear: bool,
    f: &mut dyn FnMut(&RawEntry),
) -> Result<Vec<DamagedRange>, OpenError> {
    let io = |error| open_error(disk.describe(), "reading a segment", error);
    let header = &found.header;
    let mut scanner =
        Scanner::new(Arc::clone(&found.file), header.epoch, header.id.base).map_err(io)?;
    let mut damage: Vec<DamagedRange> = Vec::new();
    let mut synced_to = 0;
    loop {
        match scanner.next().map_err(io)? {
            ScanStep::Entry(raw) => {
                synced_to = synced_to.max(u64::from(raw.header.synced_to));
                f(&raw);
            }
            ScanStep::Damaged(offset) => {
                scanner.resync().map_err(io)?;
                let len = scanner.offset() - offset;
                damage.push(DamagedRange { file: header.id.log_name(), offset, len, torn: false });
            }
            ScanStep::End => break,
        }
    }
    for range in &mut damage {
        range.torn = may_tear && synced_to <= range.offset;
    }
    Ok(damage)
}
