//! The files of the directory that make up the log.

use std::io;
use std::sync::Arc;

use super::{
    FORMAT, FORMAT_NAME, FileKind, HeaderError, SEGMENT_HEADER_LEN, SEGMENT_START, SegmentHeader,
    SegmentId, classify,
};
use crate::journal::disk::real_disk::open_error;
use crate::journal::{Disk, DiskFile, OpenError};

/// A segment file with a sound header.
#[derive(Clone, Debug)]
pub(in crate::journal) struct FoundSegment {
    pub(in crate::journal) header: SegmentHeader,
    pub(in crate::journal) file: Arc<dyn DiskFile>,
}

/// A segment file whose header is damaged.
#[derive(Clone, Debug)]
pub(in crate::journal) struct HeadlessSegment {
    pub(in crate::journal) id: SegmentId,
    pub(in crate::journal) len: u64,
}

/// The files of the directory, by purpose.
#[derive(Debug, Default)]
pub(in crate::journal) struct Catalog {
    /// By first sequence number.
    pub(in crate::journal) segments: Vec<FoundSegment>,
    pub(in crate::journal) headless: Vec<HeadlessSegment>,
    /// Unfinished files, and copies and originals that the log no longer needs.
    pub(in crate::journal) leftovers: Vec<String>,
    /// Files that are not the journal's.
    pub(in crate::journal) foreign: Vec<String>,
}

/// Refuses a directory of another format; writes the format file of a new directory.
pub(in crate::journal) fn check_format(disk: &dyn Disk) -> Result<(), OpenError> {
    let io = |source| open_error(disk.describe(), "reading its format", source);
    match disk.open(FORMAT_NAME) {
        Ok(file) => {
            let len = usize::try_from(file.len().map_err(io)?.min(64)).unwrap_or(0);
            let mut text = vec![0; len];
            file.read_at(0, &mut text).map_err(io)?;
            let found = String::from_utf8_lossy(&text).trim().parse::<u16>();
            match found {
                Ok(FORMAT) => return Ok(()),
                Ok(found) => return Err(OpenError::Format { dir: disk.describe(), found }),
                // torn when the directory was made; every segment names its format as well
                Err(_) => {}
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let io = |source| open_error(disk.describe(), "writing its format", source);
    let file = disk.create(FORMAT_NAME).map_err(io)?;
    file.write_at(0, format!("{FORMAT}\n").as_bytes()).map_err(io)?;
    file.sync_data().map_err(io)?;
    disk.sync_dir().map_err(io)
}

/// Reads the headers of all segments and separates copies from originals. `known` says whether the
/// index has committed to a segment; `None` without an index.
pub(in crate::journal) fn catalog(
    disk: &dyn Disk,
    known: Option<&dyn Fn(SegmentId) -> bool>,
) -> Result<Catalog, OpenError> {
    let io = |source| open_error(disk.describe(), "listing it", source);
    let mut catalog = Catalog::default();
    let mut offsets = Vec::new();
    for name in disk.list().map_err(io)? {
        match classify(&name) {
            FileKind::Log(id) => catalog.add(disk, id)?,
            FileKind::Idx(id) => offsets.push(id),
            FileKind::Temporary => catalog.leftovers.push(name),
            FileKind::Own => {}
            FileKind::Foreign => catalog.foreign.push(name),
        }
    }
    catalog.settle(known);
    let has = |id: &SegmentId| catalog.segments.iter().any(|found| found.header.id == *id);
    let stray = offsets.iter().filter(|id| !has(id)).map(|id| id.idx_name());
    let stray: Vec<String> = stray.collect();
    catalog.leftovers.extend(stray);
    Ok(catalog)
}

impl Catalog {
    fn add(&mut self, disk: &dyn Disk, id: SegmentId) -> Result<(), OpenError> {
        let io = |source| open_error(disk.describe(), "reading a segment", source);
        let file = disk.open(&id.log_name()).map_err(io)?;
        let len = file.len().map_err(io)?;
        let mut header = [0; SEGMENT_HEADER_LEN];
        if len >= SEGMENT_START {
            file.read_at(0, &mut header).map_err(io)?;
        }
        match SegmentHeader::decode(&header) {
            Ok(header) if header.id == id => self.segments.push(FoundSegment { header, file }),
            Ok(_) | Err(HeaderError::Damaged) => self.headless.push(HeadlessSegment { id, len }),
            Err(HeaderError::Format(found)) => {
                return Err(OpenError::Format { dir: disk.describe(), found });
            }
        }
        Ok(())
    }

    /// Keeps one segment of each original and its copies.
    fn settle(&mut self, known: Option<&dyn Fn(SegmentId) -> bool>) {
        let ids: Vec<SegmentId> = self.segments.iter().map(|found| found.header.id).collect();
        let mut found = std::mem::take(&mut self.segments);
        // an uncommitted copy of an original that the index knows is removed
        found.retain(|copy| {
            let header = &copy.header;
            let uncommitted = known.is_some_and(|known| {
                let covered = |id: &&SegmentId| {
                    **id != header.id && (header.id.base..header.end).contains(&id.base)
                };
                header.end != 0
                    && !known(header.id)
                    && ids.iter().filter(covered).any(|id| known(*id))
            });
            if uncommitted {
                self.leftovers.push(header.id.log_name());
            }
            !uncommitted
        });
        found.sort_by_key(|found| std::cmp::Reverse(found.header.id.generation));
        for candidate in found {
            let base = candidate.header.id.base;
            let superseded = self.segments.iter().any(|kept| {
                kept.header.id.base == base
                    || (kept.header.id.base..kept.header.end).contains(&base)
            });
            if superseded {
                self.leftovers.push(candidate.header.id.log_name());
            } else {
                self.segments.push(candidate);
            }
        }
        self.segments.sort_by_key(|found| found.header.id.base);
    }
}
