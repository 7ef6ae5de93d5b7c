//! Repairs a damaged log so that it can start: damaged bytes go to a quarantine file, the rest
//! stays.

use std::sync::Arc;

use serde::Serialize;

use super::verify::{DamagedRange, examine, verify};
use crate::journal::disk::real_disk::open_error;
use crate::journal::segment::catalog::{FoundSegment, catalog, check_format};
use crate::journal::segment::copy::CopyWriter;
use crate::journal::segment::{QUARANTINE, SegmentHeader, SegmentId, is_tables};
use crate::journal::{Disk, OpenError};

/// A range of bytes that was moved out of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuarantinedRange {
    pub file: String,
    /// Offset of its first byte in that file.
    pub offset: u64,
    #[serde(rename = "bytes")]
    pub len: u64,
    /// The file inside the data directory that has the bytes now.
    pub into: String,
}

/// Moves all damaged bytes to `quarantine/`. The look-up files are removed, and the next start
/// rebuilds them. A torn end is left to the next start. Changes nothing when there is no damage.
pub fn repair(disk: &dyn Disk) -> Result<Vec<QuarantinedRange>, OpenError> {
    check_format(disk)?;
    let damage = verify(disk)?.damage;
    let damage: Vec<DamagedRange> = damage.into_iter().filter(|range| !range.torn).collect();
    let mut moved = Vec::new();
    if damage.is_empty() {
        return Ok(moved);
    }
    let io = |error| open_error(disk.describe(), "moving damaged bytes", error);
    for range in &damage {
        let into = format!("{QUARANTINE}/{}.{}", range.file, range.offset);
        let from = disk.open(&range.file).map_err(io)?;
        let mut bytes = vec![0; usize::try_from(range.len).unwrap_or(0)];
        from.read_at(range.offset, &mut bytes).map_err(io)?;
        let target = disk.create(&into).map_err(io)?;
        target.write_at(0, &bytes).map_err(io)?;
        target.sync_data().map_err(io)?;
        let (file, offset, len) = (range.file.clone(), range.offset, range.len);
        moved.push(QuarantinedRange { file, offset, len, into });
    }
    disk.sync_dir().map_err(io)?;
    // look-up files first: they must not outlive the entries they point to
    for name in disk.list().map_err(io)? {
        if is_tables(&name) {
            disk.remove(&name).map_err(io)?;
        }
    }
    disk.sync_dir().map_err(io)?;
    let listed = catalog(disk, None)?;
    for headless in &listed.headless {
        disk.remove(&headless.id.log_name()).map_err(io)?;
    }
    let is_damaged = |id: SegmentId| damage.iter().any(|range| range.file == id.log_name());
    for found in listed.segments.iter().filter(|found| is_damaged(found.header.id)) {
        let next = listed.segments.iter().find(|next| next.header.id.base > found.header.id.base);
        rewrite(disk, found, next.map(|next| next.header.id.base))?;
    }
    disk.sync_dir().map_err(io)?;
    Ok(moved)
}

/// Replaces a segment with its sound entries.
fn rewrite(disk: &dyn Disk, found: &FoundSegment, next: Option<u64>) -> Result<(), OpenError> {
    let old = found.header;
    let mut last_seq = old.id.base;
    examine(disk, found, false, &mut |raw| last_seq = raw.header.seq)?;
    let end = match (old.end, next) {
        (0, Some(next)) => next,
        (0, None) => last_seq + 1,
        (end, _) => end,
    };
    let id = SegmentId { base: old.id.base, generation: old.id.generation + 1 };
    let header = SegmentHeader { id, epoch: disk.fresh_epoch(), end };
    let found = FoundSegment { header: old, file: Arc::clone(&found.file) };
    let mut copy = CopyWriter::begin(disk, header)?;
    let mut failure = None;
    examine(disk, &found, false, &mut |raw| {
        if failure.is_none() {
            failure = copy.add(&raw.bytes, raw.header.seq, false).err();
        }
    })?;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    copy.finish(disk)?;
    let removed = disk.remove(&old.id.log_name());
    removed.map_err(|error| open_error(disk.describe(), "replacing a damaged segment", error))
}
