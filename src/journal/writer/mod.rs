//! The single writer of the log: a flush writes the whole queue, calls fdatasync once and wakes the
//! waiters.
//!
//! The next flush begins when the last one ends, without a timer. A failed write of unknown
//! outcome, or a failed fdatasync, poisons the journal. A full disk does not: the partial write is
//! cut off and the flush waits for space.

pub(super) mod append;
pub(super) mod flush_probe;
pub(super) mod write_progress;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

use super::core::JournalCore;
use super::disk::is_gone;
use super::segment::format::{QueuedEntry, crc_seed, encode};
use super::segment::live_segments::{FreshOffsets, Segment};
use super::segment::scan::length;
use super::segment::{SEGMENT_START, SegmentHeader, SegmentId, in_segment};
use super::{Disk, DiskFile, FlushReport, Poisoned, StepResult};

/// Pause between retries while the disk is full.
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of one write; a flush may need several.
const WRITE_BYTES: usize = 1 << 20;
/// Capacity above which a buffer grown by a large group is freed.
const BUFFER_KEPT: usize = 4 << 20;
/// Bytes written between two checks of the free disk space.
const FREE_ASKED_BYTES: u64 = 16 << 20;

/// The single writer; the caller gives it a thread ([`Writer::run`]) or drives it
/// ([`Writer::step`]).
#[derive(Debug)]
pub struct Writer {
    core: Arc<JournalCore>,
    active: ActiveFile,
    batch: Vec<QueuedEntry>,
    buffer: Vec<u8>,
    offsets: Vec<u32>,
    sync: bool,
    unasked_bytes: u64,
    clock: Clock,
}

/// The segment being filled.
#[derive(Debug)]
pub(super) struct ActiveFile {
    pub(super) id: SegmentId,
    pub(super) seed: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) len: u64,
    pub(super) synced: u64,
}

enum WriteFailure {
    Full,
    Broken { doing: &'static str, file: String, cause: io::Error },
}

impl Writer {
    pub(super) fn new(core: Arc<JournalCore>, active: ActiveFile) -> Self {
        Self {
            core,
            active,
            batch: Vec::new(),
            buffer: Vec::new(),
            offsets: Vec::new(),
            sync: false,
            unasked_bytes: 0,
            clock: Clock::start(),
        }
    }

    /// Writes the queue until the journal is closed (by [`Journal::close`](super::Journal::close)
    /// or the end of its last clone) or poisoned.
    pub fn run(mut self) {
        loop {
            let stepped = self.step();
            let mut state = self.core.state();
            match stepped {
                StepResult::Poisoned => return,
                StepResult::Flushed => {}
                StepResult::DiskFull if state.closed => return,
                StepResult::DiskFull => {
                    let waited = self.core.work.wait_timeout(state, FULL_PAUSE);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
                StepResult::Idle => {
                    if state.closed && state.queue.is_empty() {
                        return;
                    }
                    while state.queue.is_empty() && !state.sync_wanted && !state.closed {
                        state.parked = true;
                        let woken = self.core.work.wait(state);
                        state = woken.unwrap_or_else(PoisonError::into_inner);
                    }
                    state.parked = false;
                }
            }
        }
    }

    /// Writes the queue: one write, one fdatasync, then wakes the waiters.
    pub fn step(&mut self) -> StepResult {
        {
            let mut state = self.core.state();
            if state.poisoned.is_some() {
                return StepResult::Poisoned;
            }
            self.sync |= std::mem::take(&mut state.sync_wanted);
            if self.batch.is_empty() {
                std::mem::swap(&mut self.batch, &mut state.queue);
            } else {
                self.batch.append(&mut state.queue);
            }
            if self.batch.is_empty() && !self.sync {
                return StepResult::Idle;
            }
        }
        let started = self.clock.elapsed();
        let (done, mut failure) = self.write_batch();
        let written = self.clock.elapsed();
        let mut synced = None;
        if self.sync && !matches!(failure, Some(WriteFailure::Broken { .. })) {
            match self.sync_active() {
                Ok(()) => synced = Some(self.clock.elapsed().saturating_sub(written)),
                Err(cause) => failure = Some(broken("syncing", self.active.id, cause)),
            }
        }
        if let Some(WriteFailure::Broken { doing, file, cause }) = failure {
            return self.poison(Poisoned { doing, file, cause: cause.to_string() });
        }
        let flushed = self.publish(done, failure.is_some());
        let write = written.saturating_sub(started);
        let (entries, bytes) = flushed;
        self.core.config.0.probe.flushed(FlushReport { entries, bytes, write, sync: synced });
        if failure.is_some() { StepResult::DiskFull } else { StepResult::Flushed }
    }

    /// Writes the batch; returns the number of entries written.
    fn write_batch(&mut self) -> (usize, Option<WriteFailure>) {
        let mut done = 0;
        while done < self.batch.len() {
            let end = self.gather(done);
            let outcome = if end == done { self.roll() } else { self.write(done, end) };
            if let Err(failure) = outcome {
                return (done, Some(failure));
            }
            done = end;
        }
        (done, None)
    }

    /// Encodes whole groups from `from` on that fit the segment; returns the end of the last.
    fn gather(&mut self, from: usize) -> usize {
        self.buffer.clear();
        self.offsets.clear();
        let limit = u64::from(self.core.config.0.segment_bytes);
        let synced_to = in_segment(self.active.synced);
        let mut end = from;
        while self.buffer.len() < WRITE_BYTES {
            let rest = self.batch.get(end..).unwrap_or_default();
            let Some(last) = rest.iter().position(|entry| !entry.continues) else { break };
            let group = rest.get(..=last).unwrap_or_default();
            let bytes: u64 = group.iter().map(|entry| u64::from(entry.len)).sum();
            let at = self.active.len + length(&self.buffer);
            if at > SEGMENT_START && at + bytes > limit {
                break;
            }
            for entry in group {
                let offset = self.active.len + length(&self.buffer);
                self.offsets.push(in_segment(offset));
                encode(&mut self.buffer, self.active.seed, synced_to, entry);
            }
            end += group.len();
        }
        end
    }

    fn write(&mut self, from: usize, end: usize) -> Result<(), WriteFailure> {
        let bytes = length(&self.buffer);
        if let Err(cause) = self.active.file.write_at(self.active.len, &self.buffer) {
            let cut = self.active.file.set_len(self.active.len);
            if is_full(&cause) && cut.is_ok() {
                return Err(WriteFailure::Full);
            }
            return Err(broken("writing", self.active.id, cause));
        }
        self.active.len += bytes;
        let mut segments = self.core.segments_mut();
        if let Some(segment) = segments.map.get_mut(&self.active.id.base) {
            segment.bytes = self.active.len;
            segment.live_bytes += bytes;
            segment.entries += u32::try_from(end - from).unwrap_or(0);
            segment.end += u64::try_from(end - from).unwrap_or(0);
            if let Some(fresh) = &mut segment.fresh {
                fresh.offsets.extend_from_slice(&self.offsets);
            }
        }
        drop(segments);
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
        self.ask_free(bytes);
        Ok(())
    }

    fn ask_free(&mut self, written: u64) {
        self.unasked_bytes += written;
        if self.unasked_bytes >= FREE_ASKED_BYTES {
            self.unasked_bytes = 0;
            self.core.refresh_free_bytes();
        } else {
            let free = self.core.free_bytes.load(Ordering::Acquire);
            self.core.free_bytes.store(free.saturating_sub(written), Ordering::Release);
        }
    }

    fn sync_active(&mut self) -> io::Result<()> {
        if self.active.synced < self.active.len {
            self.active.file.sync_data()?;
            self.active.synced = self.active.len;
            self.core.counters.fsyncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Seals the segment and begins the next one; housekeeping writes the offset table.
    fn roll(&mut self) -> Result<(), WriteFailure> {
        self.sync_active().map_err(|cause| broken("syncing", self.active.id, cause))?;
        let sealed = self.active.id;
        let base = self.core.segments().map.get(&sealed.base).map_or(1, |segment| segment.end);
        let id = SegmentId { base, generation: 0 };
        let (active, segment) = match begin(&*self.core.disk, id) {
            Ok(begun) => begun,
            Err(cause) => {
                if is_gone(&self.core.disk.remove(&id.log_name())) && is_full(&cause) {
                    return Err(WriteFailure::Full);
                }
                return Err(broken("writing", id, cause));
            }
        };
        let mut segments = self.core.segments_mut();
        if let Some(segment) = segments.map.get_mut(&sealed.base) {
            segment.unsaved = true;
            if let Some(fresh) = &mut segment.fresh {
                fresh.sealed = true;
            }
        }
        segments.map.insert(base, segment);
        self.active = active;
        Ok(())
    }

    /// Makes the first `done` entries of the batch visible.
    fn publish(&mut self, done: usize, full: bool) -> (usize, usize) {
        let reached = self.batch.get(..done).and_then(|done| done.last()).map(|last| last.seq);
        let written = reached.unwrap_or_else(|| self.core.progress.written());
        let durable = if self.active.synced == self.active.len {
            written
        } else {
            self.core.progress.durable()
        };
        let (mut bytes, mut ends) = (0, BTreeMap::new());
        for entry in self.batch.iter().take(done) {
            bytes += u64::from(entry.len);
            if let Some(part) = &entry.stream {
                ends.insert(part.stream, part.base_offset.saturating_add(i64::from(part.records)));
            }
        }
        let mut state = self.core.state();
        for (id, end) in ends {
            if let Some(stream) = state.streams.map.get_mut(&id) {
                stream.show(end);
            }
        }
        state.queued_bytes = state.queued_bytes.saturating_sub(bytes);
        state.disk_full = full;
        drop(state);
        self.sync &= full;
        self.core.progress.advance(written, durable);
        // last, so that waiters run on while the memory is freed
        self.batch.drain(..done);
        (done, usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn poison(&mut self, poisoned: Poisoned) -> StepResult {
        self.core.state().poisoned = Some(poisoned.clone());
        self.core.progress.poison(poisoned);
        self.core.config.0.probe.poisoned();
        StepResult::Poisoned
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.core.state().closed = true;
        self.core.progress.close();
    }
}

/// Creates a segment's file, durable with its header.
pub(super) fn begin(disk: &dyn Disk, id: SegmentId) -> io::Result<(ActiveFile, Segment)> {
    let epoch = disk.fresh_epoch();
    let file = disk.create(&id.log_name())?;
    file.write_at(0, &SegmentHeader { id, epoch, end: 0 }.encode())?;
    file.sync_data()?;
    disk.sync_dir()?;
    let mut segment = Segment::new(id, epoch);
    segment.fresh =
        Some(FreshOffsets { file: Arc::clone(&file), offsets: Vec::new(), sealed: false });
    let seed = crc_seed(epoch);
    let active = ActiveFile { id, seed, file, len: SEGMENT_START, synced: SEGMENT_START };
    Ok((active, segment))
}

/// True for errors that pass once space is freed or files are closed.
pub(super) fn is_full(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn broken(doing: &'static str, id: SegmentId, cause: io::Error) -> WriteFailure {
    WriteFailure::Broken { doing, file: id.log_name(), cause }
}
