//! Writes a segment that replaces others: same sequence numbers, next generation.

use std::sync::Arc;

use super::format::{crc_seed, encode_copy};
use super::index_file;
use super::live_segments::Segment;
use super::scan::length;
use super::{SEGMENT_START, SegmentHeader, in_segment};
use crate::journal::read::read_failed;
use crate::journal::{Disk, DiskFile, EntryReadError};

/// Bytes gathered into one write.
const COPY_BYTES: usize = 1 << 20;

/// Writes the copy under a temporary name.
pub(in crate::journal) struct CopyWriter {
    header: SegmentHeader,
    seed: u32,
    temporary: String,
    file: Arc<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    segment: Segment,
    pairs: Vec<(u64, u32)>,
}

impl CopyWriter {
    pub(in crate::journal) fn begin(
        disk: &dyn Disk,
        header: SegmentHeader,
    ) -> Result<Self, EntryReadError> {
        let temporary = format!("{}.tmp", header.id.log_name());
        let failed = |source| read_failed(&temporary, source);
        let file = disk.create(&temporary).map_err(failed)?;
        file.write_at(0, &header.encode()).map_err(failed)?;
        let mut segment = Segment::new(header.id, header.epoch);
        segment.end = header.end;
        Ok(Self {
            header,
            seed: crc_seed(header.epoch),
            temporary,
            file,
            at: SEGMENT_START,
            buffer: Vec::new(),
            segment,
            pairs: Vec::new(),
        })
    }

    /// Adds an entry; `dead` sets its dead bit.
    pub(in crate::journal) fn add(
        &mut self,
        raw: &[u8],
        seq: u64,
        dead: bool,
    ) -> Result<(), EntryReadError> {
        let offset = self.at + length(&self.buffer);
        let place = in_segment(offset);
        encode_copy(&mut self.buffer, self.seed, place, raw);
        self.pairs.push((seq, place));
        if dead {
            self.segment.dead.set(self.segment.entries);
            self.segment.unlogged = true;
        } else {
            self.segment.live_bytes += length(raw);
        }
        self.segment.entries += 1;
        if self.buffer.len() >= COPY_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), EntryReadError> {
        let failed = |source| read_failed(&self.temporary, source);
        self.file.write_at(self.at, &self.buffer).map_err(failed)?;
        self.at += length(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// Renames the copy to its final name, durably; `None` when nothing was added.
    pub(in crate::journal) fn finish(
        mut self,
        disk: &dyn Disk,
    ) -> Result<Option<Segment>, EntryReadError> {
        self.flush()?;
        let Self { header, temporary, file, at, mut segment, pairs, .. } = self;
        let failed = |source| read_failed(&temporary, source);
        if pairs.is_empty() {
            disk.remove(&temporary).map_err(failed)?;
            return Ok(None);
        }
        file.sync_data().map_err(failed)?;
        let id = header.id;
        index_file::write(disk, &id.idx_name(), id, header.epoch, &pairs).map_err(failed)?;
        disk.rename(&temporary, &id.log_name()).map_err(failed)?;
        disk.sync_dir().map_err(failed)?;
        segment.bytes = at;
        Ok(Some(segment))
    }
}
