//! Scans the entries of a segment in file order and verifies their checksums, without copying.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::SEGMENT_START;
use super::format::{ENTRY_HEADER_LEN, EntryHeader, crc_seed, decode_header, is_whole};
use crate::journal::DiskFile;

/// Bytes of one read: they stay in a core's second-level cache until they are verified.
const CHUNK_BYTES: u64 = 256 << 10;
/// Most sequence numbers of one segment: the offset table stores them as u32.
const SEGMENT_SPAN: u64 = 1 << 32;

/// A scan of a segment.
#[derive(Debug)]
pub(in crate::journal) struct Scanner {
    file: Arc<dyn DiskFile>,
    seed: u32,
    at: u64,
    end: u64,
    chunk: Bytes,
    chunk_at: u64,
    last_seq: u64,
}

/// An entry of the scan.
#[derive(Clone, Debug)]
pub(in crate::journal) struct RawEntry {
    pub(in crate::journal) offset: u64,
    pub(in crate::journal) header: EntryHeader,
    pub(in crate::journal) bytes: Bytes,
}

/// Result of one step.
#[derive(Debug)]
pub(in crate::journal) enum ScanStep {
    Entry(RawEntry),
    /// Offset at which no valid entry begins, before the end of the file.
    Damaged(u64),
    End,
}

impl Scanner {
    /// Starts after the segment's header; `base` is the first sequence number it may hold.
    pub(in crate::journal) fn new(
        file: Arc<dyn DiskFile>,
        epoch: u64,
        base: u64,
    ) -> io::Result<Self> {
        let end = file.len()?;
        Ok(Self {
            file,
            seed: crc_seed(epoch),
            at: SEGMENT_START,
            end,
            chunk: Bytes::new(),
            chunk_at: 0,
            last_seq: base.saturating_sub(1),
        })
    }

    /// Offset of the next entry.
    pub(in crate::journal) fn offset(&self) -> u64 {
        self.at
    }

    /// Ends the scan at this offset.
    pub(in crate::journal) fn stop_at(&mut self, end: u64) {
        self.end = self.end.min(end);
    }

    pub(in crate::journal) fn next(&mut self) -> io::Result<ScanStep> {
        if self.at >= self.end {
            return Ok(ScanStep::End);
        }
        let Some(raw) = self.entry_at(self.at)? else { return Ok(ScanStep::Damaged(self.at)) };
        self.at += length(&raw.bytes);
        self.last_seq = raw.header.seq;
        Ok(ScanStep::Entry(raw))
    }

    /// Skips damage up to the next valid entry; false when there is none.
    pub(in crate::journal) fn resync(&mut self) -> io::Result<bool> {
        let mut at = self.at + 1;
        while at < self.end {
            if self.entry_at(at)?.is_some() {
                self.at = at;
                return Ok(true);
            }
            at += 1;
        }
        self.at = self.end;
        Ok(false)
    }

    fn entry_at(&mut self, at: u64) -> io::Result<Option<RawEntry>> {
        if !self.fetch(at, ENTRY_HEADER_LEN)? {
            return Ok(None);
        }
        let fixed = self.fetched(at, ENTRY_HEADER_LEN).and_then(|at| self.chunk.get(at));
        let Some(header) = fixed.and_then(decode_header) else { return Ok(None) };
        let seq = header.seq;
        let plausible = seq > self.last_seq && seq - self.last_seq < SEGMENT_SPAN;
        if !plausible || u64::from(header.synced_to) > at {
            return Ok(None);
        }
        if !self.fetch(at, header.entry_len())? {
            return Ok(None);
        }
        let whole = self.fetched(at, header.entry_len()).map(|at| self.chunk.slice(at));
        let Some(bytes) = whole else { return Ok(None) };
        let whole = is_whole(&bytes, &header, self.seed);
        Ok(whole.then_some(RawEntry { offset: at, header, bytes }))
    }

    /// Loads bytes `at..at+len` into the chunk; false when the segment ends before.
    fn fetch(&mut self, at: u64, len: usize) -> io::Result<bool> {
        let wanted = u64::try_from(len).unwrap_or(u64::MAX);
        if wanted > self.end.saturating_sub(at) {
            return Ok(false);
        }
        if self.fetched(at, len).is_some() {
            return Ok(true);
        }
        let size = wanted.max(CHUNK_BYTES).min(self.end - at);
        // reuses the memory of the last chunk, unless an entry of it is still in use
        let mut chunk = std::mem::take(&mut self.chunk).try_into_mut().unwrap_or_default();
        chunk.resize(usize::try_from(size).unwrap_or(len), 0);
        self.file.read_at(at, &mut chunk)?;
        self.chunk = chunk.freeze();
        self.chunk_at = at;
        Ok(self.fetched(at, len).is_some())
    }

    /// Range of bytes `at..at+len` in the chunk.
    fn fetched(&self, at: u64, len: usize) -> Option<Range<usize>> {
        let from = usize::try_from(at.checked_sub(self.chunk_at)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.chunk.len()).then_some(from..to)
    }
}

/// A length as a file offset; `usize` has at most 64 bits.
pub(in crate::journal) fn length<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
