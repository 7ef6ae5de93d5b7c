//! State that the journal's handles share.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use lru::LruCache;

use super::read::Handle;
use super::recover::checkpoint::Snapshot;
use super::segment::SegmentId;
use super::segment::format::QueuedEntry;
use super::segment::live_segments::Segments;
use super::streams::Streams;
use super::tables::changed_keys::KeyedChanges;
use super::writer::write_progress::WriterProgress;
use super::{Disk, EntryKind, EntryRef, JournalOptions, Poisoned, Stats, Tables};

/// A stream is created: key = its name, body = its id u32 (empty = dropped).
pub(super) const KIND_STREAM: EntryKind = EntryKind(1);
/// The id the next stream gets: body = u32.
pub(super) const KIND_NEXT_STREAM: EntryKind = EntryKind(2);
/// A stream's start has moved: key = its id u32, body = offset i64.
pub(super) const KIND_TRIM: EntryKind = EntryKind(3);
/// Dead entries of a segment: key = base u64, generation u32; body = one bit an entry.
pub(super) const KIND_DEAD: EntryKind = EntryKind(4);
/// First kind that owners may use.
pub(super) const KIND_OWNERS: u8 = 16;
/// Segment files kept open.
const HANDLES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(31);

/// Shared state of all clones of a [`Journal`](super::Journal).
#[derive(Debug)]
pub(super) struct JournalCore {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) config: Settings,
    pub(super) state: Mutex<AppendState>,
    /// Wakes the writer; belongs to `state`.
    pub(super) work: Condvar,
    pub(super) segments: RwLock<Segments>,
    pub(super) handles: Mutex<LruCache<SegmentId, Arc<Handle>>>,
    pub(super) tables: Tables,
    pub(super) progress: WriterProgress,
    /// Highest sequence number whose append asked for an fdatasync.
    pub(super) sync_to: AtomicU64,
    /// Free bytes of the disk when last asked, less the bytes written since.
    pub(super) free_bytes: AtomicU64,
    pub(super) counters: Counters,
    /// One checkpoint or compaction at a time.
    pub(super) maintenance: Mutex<Maintenance>,
    /// One trim or drop at a time.
    pub(super) trimming: Mutex<()>,
}

/// [`JournalOptions`] with `Debug`.
pub(super) struct Settings(pub(super) JournalOptions);

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("segment_bytes", &self.0.segment_bytes).finish()
    }
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) fsyncs: AtomicU64,
    pub(super) appended: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) torn_bytes: AtomicU64,
    pub(super) checkpoint_seq: AtomicU64,
}

/// State that appends change.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the writer")]
pub(super) struct AppendState {
    pub(super) next_seq: u64,
    pub(super) queue: Vec<QueuedEntry>,
    pub(super) queued_bytes: u64,
    pub(super) sync_wanted: bool,
    /// The writer sleeps on `work` and no append has woken it yet.
    pub(super) parked: bool,
    pub(super) closed: bool,
    pub(super) disk_full: bool,
    pub(super) poisoned: Option<Poisoned>,
    pub(super) streams: Streams,
    pub(super) keyed: KeyedChanges,
    /// Entries released since the last checkpoint; the entry that caused each release is already
    /// appended.
    pub(super) releases: Vec<EntryRef>,
    pub(super) released_bytes: u64,
    pub(super) appended_bytes: u64,
    /// Owners with tables of their own, and the sequence number each replays from.
    pub(super) holds: BTreeMap<&'static str, u64>,
}

/// State of checkpoints and compaction between steps.
#[derive(Debug, Default)]
pub(super) struct Maintenance {
    pub(super) pending: Option<Snapshot>,
    /// [`JournalCore::bury_orphans`] has run.
    pub(super) buried: bool,
    /// Segments replaced by a copy, or removed, while the index still has their rows.
    pub(super) replaced: Vec<SegmentId>,
    /// First sequence numbers of segments whose copy failed, and the steps for which each is still
    /// skipped.
    pub(super) resting: BTreeMap<u64, u32>,
}

impl AppendState {
    pub(super) fn release(&mut self, entry: EntryRef) {
        self.released_bytes += u64::from(entry.len);
        self.releases.push(entry);
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.next_seq.saturating_sub(1)
    }
}

impl JournalCore {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        config: JournalOptions,
        tables: Tables,
        segments: Segments,
        state: AppendState,
    ) -> Self {
        let progress = WriterProgress::new(state.last_seq());
        let sync_to = AtomicU64::new(state.last_seq());
        let free_bytes = AtomicU64::new(disk.free_bytes().unwrap_or(0));
        Self {
            disk,
            config: Settings(config),
            state: Mutex::new(state),
            work: Condvar::new(),
            segments: RwLock::new(segments),
            handles: Mutex::new(LruCache::new(HANDLES)),
            tables,
            progress,
            sync_to,
            free_bytes,
            counters: Counters::default(),
            maintenance: Mutex::new(Maintenance::default()),
            trimming: Mutex::new(()),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, AppendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn segments(&self) -> RwLockReadGuard<'_, Segments> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn segments_mut(&self) -> RwLockWriteGuard<'_, Segments> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn maintenance(&self) -> MutexGuard<'_, Maintenance> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the writer for an fdatasync when no append up to `seq` has.
    pub(super) fn request_sync(&self, seq: u64) {
        if self.progress.durable() >= seq || self.sync_to.load(Ordering::Acquire) >= seq {
            return;
        }
        let mut state = self.state();
        state.sync_wanted = true;
        self.sync_to.fetch_max(state.last_seq(), Ordering::AcqRel);
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        if parked {
            self.work.notify_one();
        }
    }

    /// Refreshes the number of free bytes from the disk.
    pub(super) fn refresh_free_bytes(&self) -> u64 {
        let free = self.disk.free_bytes().unwrap_or(0);
        self.free_bytes.store(free, Ordering::Release);
        free
    }

    /// Refuses appends from now on; the writer ends after writing the queue.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.work.notify_one();
    }

    pub(super) fn stats(&self) -> Stats {
        let (queued_bytes, disk_full) = {
            let state = self.state();
            (state.queued_bytes, state.disk_full)
        };
        let segments = self.segments();
        let counters = &self.counters;
        Stats {
            bytes: segments.bytes(),
            segments: segments.map.len(),
            live_bytes: segments.live_bytes(),
            disk_free: self.free_bytes.load(Ordering::Acquire),
            fsyncs: counters.fsyncs.load(Ordering::Relaxed),
            appended: counters.appended.load(Ordering::Relaxed),
            queued_bytes,
            durable_seq: self.progress.durable(),
            checkpoint_seq: counters.checkpoint_seq.load(Ordering::Relaxed),
            torn_bytes: counters.torn_bytes.load(Ordering::Relaxed),
            compactions: counters.compactions.load(Ordering::Relaxed),
            disk_full,
        }
    }
}
