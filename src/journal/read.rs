//! Reads entries by sequence number, checksum verified.

use std::io;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use super::core::JournalCore;
use super::segment::format::{
    ENTRY_HEADER_LEN, PAYLOAD_MAX, crc_seed, decode, decode_header, is_whole,
};
use super::segment::index_file::{self, IndexFile};
use super::segment::live_segments::{EntryLocation, Segment};
use super::segment::scan::{ScanStep, Scanner};
use super::segment::{SegmentId, in_segment};
use super::{Disk, DiskFile, EntryReadError, EntryRef, JournalEntry};

/// Tries of a read: compaction may replace a segment between look-up and open, but hardly twice in
/// a row.
const TRIES: usize = 4;
/// Largest gap in bytes between two wanted entries that one read covers.
const GAP_BYTES: u64 = 32 << 10;
/// Most bytes of one read.
const RUN_BYTES: u64 = 4 << 20;

/// An open sealed segment.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) index: IndexFile,
}

/// Location of an entry's bytes.
#[derive(Clone, Debug)]
struct Spot {
    id: SegmentId,
    seed: u32,
    file: Arc<dyn DiskFile>,
    offset: u64,
    sealed: bool,
}

/// Position of an entry in its segment.
enum EntryPosition {
    At(u32),
    /// The position is unknown: the offset table was rebuilt from a damaged segment. Entries in the
    /// damage are missing from it, so later positions are shifted and a missing entry may exist.
    Untold,
    Gone,
}

impl JournalCore {
    pub(super) fn read(&self, entry: EntryRef) -> Result<JournalEntry, EntryReadError> {
        let mut found = self.read_many(&[entry])?;
        found.pop().ok_or(EntryReadError::Gone { seq: entry.seq })
    }

    /// Reads entries; one read covers neighbours.
    pub(super) fn read_many(
        &self,
        entries: &[EntryRef],
    ) -> Result<Vec<JournalEntry>, EntryReadError> {
        let mut found = Vec::with_capacity(entries.len());
        let mut run: Vec<(EntryRef, Spot)> = Vec::new();
        for entry in entries {
            let spot = self.spot(entry.seq)?;
            let joins = match (run.first(), run.last()) {
                (Some((_, first)), Some((last, at))) => {
                    let end = at.offset + u64::from(last.len);
                    first.id == spot.id
                        && spot.offset >= end
                        && spot.offset - end <= GAP_BYTES
                        && spot.offset + u64::from(entry.len) - first.offset <= RUN_BYTES
                }
                _ => true,
            };
            if !joins {
                self.read_run(&run, &mut found)?;
                run.clear();
            }
            run.push((*entry, spot));
        }
        self.read_run(&run, &mut found)?;
        Ok(found)
    }

    fn read_run(
        &self,
        run: &[(EntryRef, Spot)],
        found: &mut Vec<JournalEntry>,
    ) -> Result<(), EntryReadError> {
        let (Some((_, first)), Some((last, at))) = (run.first(), run.last()) else {
            return Ok(());
        };
        let len = at.offset + u64::from(last.len) - first.offset;
        let fetched = fetch(first, len);
        for (entry, spot) in run {
            let decoded = fetched.as_ref().ok().and_then(|bytes| {
                let from = usize::try_from(spot.offset - first.offset).ok()?;
                let to = from.checked_add(usize::try_from(entry.len).ok()?)?;
                open(&bytes.get(from..to).map(|part| bytes.slice_ref(part))?, spot, *entry)
            });
            match decoded {
                Some(entry) => found.push(entry),
                None => found.push(self.read_again(*entry, spot)?),
            }
        }
        Ok(())
    }

    /// Reads an entry a second time: the offset table may have been wrong, or the file replaced.
    fn read_again(&self, entry: EntryRef, spot: &Spot) -> Result<JournalEntry, EntryReadError> {
        let mut spot = spot.clone();
        if spot.sealed {
            self.forget(spot.id);
            if let EntryLocation::Sealed { id, epoch } = self.segments().place(entry.seq)
                && let Ok(file) = self.disk.open(&id.log_name())
            {
                rebuild(&*self.disk, id, epoch, &file)
                    .map_err(|source| EntryReadError::Io { file: id.idx_name(), source })?;
            }
            spot = self.spot(entry.seq)?;
        }
        let file = spot.id.log_name();
        let bytes = fetch(&spot, u64::from(entry.len))
            .map_err(|source| unreadable(&file, spot.offset, source))?;
        open(&bytes, &spot, entry).ok_or(EntryReadError::Corrupt { file, offset: spot.offset })
    }

    fn spot(&self, seq: u64) -> Result<Spot, EntryReadError> {
        let mut failure = EntryReadError::Gone { seq };
        for _ in 0..TRIES {
            let place = self.segments().place(seq);
            match place {
                EntryLocation::Fresh { id, epoch, file, offset } => {
                    return Ok(Spot { id, seed: crc_seed(epoch), file, offset, sealed: false });
                }
                EntryLocation::NotWritten => return Err(EntryReadError::NotWritten { seq }),
                EntryLocation::Gone => return Err(EntryReadError::Gone { seq }),
                EntryLocation::Sealed { id, epoch } => match self.sealed_spot(id, epoch, seq) {
                    Ok(Some(spot)) => return Ok(spot),
                    Ok(None) => return Err(EntryReadError::Gone { seq }),
                    Err(source) => {
                        failure = EntryReadError::Io { file: id.log_name(), source };
                        self.forget(id);
                    }
                },
            }
        }
        Err(failure)
    }

    fn sealed_spot(&self, id: SegmentId, epoch: u64, seq: u64) -> io::Result<Option<Spot>> {
        let handle = self.handle(id, epoch)?;
        let file = Arc::clone(&handle.file);
        let slot = handle.index.find(seq)?;
        let seed = crc_seed(epoch);
        Ok(slot.map(|slot| Spot { id, seed, file, offset: slot.offset, sealed: true }))
    }

    /// Position of an entry in its segment; `None` when the entry is gone or its position is
    /// unknown.
    pub(super) fn ordinal(&self, seq: u64) -> io::Result<Option<u32>> {
        Ok(match self.seek(seq)? {
            EntryPosition::At(ordinal) => Some(ordinal),
            EntryPosition::Untold | EntryPosition::Gone => None,
        })
    }

    fn seek(&self, seq: u64) -> io::Result<EntryPosition> {
        let (id, epoch, entries) = {
            let segments = self.segments();
            let Some(segment) = segments.holding(seq) else { return Ok(EntryPosition::Gone) };
            if let Some(ordinal) = segment.dense_ordinal(seq) {
                return Ok(EntryPosition::At(ordinal));
            }
            if segment.fresh.is_some() {
                return Ok(EntryPosition::Gone);
            }
            (segment.id, segment.epoch, segment.entries)
        };
        let index = &self.handle(id, epoch)?.index;
        if index.count() != entries {
            return Ok(EntryPosition::Untold);
        }
        Ok(index.find(seq)?.map_or(EntryPosition::Gone, |slot| EntryPosition::At(slot.ordinal)))
    }

    /// Says whether an entry exists or is about to be written. An entry that cannot be looked up
    /// counts as existing.
    pub(super) fn holds(&self, seq: u64) -> bool {
        let place = self.segments().place(seq);
        match place {
            EntryLocation::Gone => false,
            EntryLocation::Fresh { .. } | EntryLocation::NotWritten => true,
            EntryLocation::Sealed { .. } => !matches!(self.seek(seq), Ok(EntryPosition::Gone)),
        }
    }

    fn handle(&self, id: SegmentId, epoch: u64) -> io::Result<Arc<Handle>> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(&id) {
            return Ok(Arc::clone(handle));
        }
        drop(handles);
        let file = self.disk.open(&id.log_name())?;
        let index = match IndexFile::open(&*self.disk, id, epoch) {
            Some(index) => index,
            None => rebuild(&*self.disk, id, epoch, &file)?,
        };
        let handle = Arc::new(Handle { file, index });
        handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.put(id, Arc::clone(&handle));
        Ok(handle)
    }

    /// Writes the missing offset tables of sealed segments. The caller holds `maintenance`.
    pub(super) fn write_offset_tables(&self) {
        let next = |segment: &Segment| {
            let fresh = segment.fresh.as_ref().filter(|fresh| fresh.sealed)?;
            Some((segment.id, segment.epoch, fresh.offsets.clone()))
        };
        loop {
            let found = self.segments().map.values().find_map(next);
            let Some((id, epoch, offsets)) = found else { return };
            let pairs: Vec<(u64, u32)> = (id.base..).zip(offsets).collect();
            // on a full disk the table stays in memory until the next step
            if index_file::write(&*self.disk, &id.idx_name(), id, epoch, &pairs).is_err() {
                return;
            }
            if let Some(segment) = self.segments_mut().map.get_mut(&id.base) {
                segment.fresh = None;
            }
        }
    }

    /// Closes a segment's files.
    pub(super) fn forget(&self, id: SegmentId) {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).pop(&id);
    }
}

/// Rebuilds a segment's offset table from its entries.
fn rebuild(
    disk: &dyn Disk,
    id: SegmentId,
    epoch: u64,
    file: &Arc<dyn DiskFile>,
) -> io::Result<IndexFile> {
    let mut scanner = Scanner::new(Arc::clone(file), epoch, id.base)?;
    let mut pairs = Vec::new();
    loop {
        match scanner.next()? {
            ScanStep::Entry(raw) => {
                pairs.push((raw.header.seq, in_segment(raw.offset)));
            }
            ScanStep::Damaged(_) => {
                if !scanner.resync()? {
                    break;
                }
            }
            ScanStep::End => break,
        }
    }
    index_file::write(disk, &id.idx_name(), id, epoch, &pairs)?;
    IndexFile::open(disk, id, epoch).ok_or_else(|| io::Error::other("its offset table is damaged"))
}

fn fetch(spot: &Spot, len: u64) -> io::Result<Bytes> {
    let most = u64::from(PAYLOAD_MAX).max(RUN_BYTES) + 24;
    let len = usize::try_from(len.min(most)).unwrap_or(0);
    let mut bytes = vec![0; len];
    spot.file.read_at(spot.offset, &mut bytes)?;
    Ok(Bytes::from(bytes))
}

fn open(bytes: &Bytes, spot: &Spot, wanted: EntryRef) -> Option<JournalEntry> {
    let header = decode_header(bytes.get(..ENTRY_HEADER_LEN)?)?;
    let right = header.seq == wanted.seq && is_whole(bytes, &header, spot.seed);
    right.then(|| decode(bytes)).flatten()
}

fn unreadable(file: &str, offset: u64, source: io::Error) -> EntryReadError {
    let file = file.to_owned();
    if source.kind() == io::ErrorKind::UnexpectedEof {
        return EntryReadError::Corrupt { file, offset };
    }
    EntryReadError::Io { file, source }
}

/// A failed read or copy of a file.
pub(super) fn read_failed(file: &str, source: io::Error) -> EntryReadError {
    EntryReadError::Io { file: file.to_owned(), source }
}
