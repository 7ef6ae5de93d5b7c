//! The public handle of the journal.

use std::sync::Arc;

use tokio::sync::Notify;

use super::core::JournalCore;
use super::writer::append::Terms;
use super::{
    AppendError, AppendResult, Bounds, Disk, Durability, EntryKind, EntryReadError, EntryRef,
    HousekeepingFailure, HousekeepingReport, JournalEntry, JournalError, JournalOptions, NewEntry,
    OpenError, Poisoned, ReadSize, Recovery, Shortage, Stats, StreamId, StreamRead, Tables,
    TablesError, Writer, recover,
};

/// Released bytes, as a share of a segment, that make a checkpoint due: dead space is then found
/// early.
const RELEASED_SHARE: u32 = 4;
/// Changed keys that make a checkpoint due: bounds their memory.
const KEYED_MOST: usize = 64 << 10;

/// The commit log; clones share it.
#[derive(Clone, Debug)]
pub struct Journal {
    core: Arc<JournalCore>,
    _closer: Arc<Closer>,
}

/// Checkpoints, releases and compaction; the caller drives it from a thread of its own.
#[derive(Debug)]
pub struct Housekeeper {
    core: Arc<JournalCore>,
}

/// Closes the journal when its last clone is dropped.
#[derive(Debug)]
struct Closer(Arc<JournalCore>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Journal {
    /// Opens the journal of a directory. It finds the end of the log, cuts a torn tail, refuses a
    /// damaged middle and replays the rest into the index.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: JournalOptions,
    ) -> Result<(Self, Writer, Recovery), OpenError> {
        let opened = recover::open(disk, config)?;
        let core = opened.core;
        let writer = Writer::new(Arc::clone(&core), opened.active);
        let recovery = Recovery::new(Arc::clone(&core), opened.torn_bytes, opened.foreign);
        let closer = Arc::new(Closer(Arc::clone(&core)));
        Ok((Self { core, _closer: closer }, writer, recovery))
    }

    /// Appends a group of entries atomically: a crash keeps all of them or none. Never blocks: it
    /// assigns sequence numbers and offsets and queues the group for the writer. Wait with
    /// [`Journal::durable`].
    pub fn append(&self, group: Vec<NewEntry>) -> Result<AppendResult, AppendError> {
        self.append_with(group, Durability::Fsync)
    }

    /// [`Journal::append`] with a choice of durability: an `Os` group does not by itself cause an
    /// fdatasync.
    pub fn append_with(
        &self,
        group: Vec<NewEntry>,
        durability: Durability,
    ) -> Result<AppendResult, AppendError> {
        self.core.append(group, Terms { durability, reserved: false, own: false })
    }

    /// [`Journal::append`] that may use the reserve of free space: for entries that free space (a
    /// discard, a final outcome), never for new data.
    pub fn append_reserved(&self, group: Vec<NewEntry>) -> Result<AppendResult, AppendError> {
        let durability = Durability::Fsync;
        self.core.append(group, Terms { durability, reserved: true, own: false })
    }

    /// Returns when entry `seq` is on the disk. While the disk is full it waits for space.
    pub async fn durable(&self, seq: u64) -> Result<(), JournalError> {
        self.core.request_sync(seq);
        self.core.progress.wait(seq, Durability::Fsync).await
    }

    /// Returns when entry `seq` has the durability asked for.
    pub async fn acknowledged(&self, seq: u64, durability: Durability) -> Result<(), JournalError> {
        match durability {
            Durability::Fsync => self.durable(seq).await,
            Durability::Os => self.core.progress.wait(seq, Durability::Os).await,
        }
    }

    /// [`Journal::durable`] for a plain thread.
    pub fn durable_blocking(&self, seq: u64) -> Result<(), JournalError> {
        self.core.request_sync(seq);
        self.core.progress.wait_durable_blocking(seq)
    }

    /// Says whether an append of new data, up to 1 MiB, would be accepted now.
    pub fn admits(&self) -> Result<(), AppendError> {
        self.core.admits(0)
    }

    /// [`Journal::admits`] for an append of `bytes`, where that is more than 1 MiB.
    pub fn admits_bytes(&self, bytes: u64) -> Result<(), AppendError> {
        self.core.admits(bytes)
    }

    /// The last entry that is durable; 0 = none.
    pub fn durable_seq(&self) -> u64 {
        self.core.progress.durable()
    }

    /// The last entry that was appended; 0 = none.
    pub fn appended_seq(&self) -> u64 {
        self.core.state().last_seq()
    }

    /// Reads an entry, checksum verified.
    pub fn read(&self, entry: EntryRef) -> Result<JournalEntry, EntryReadError> {
        self.core.read(entry)
    }

    /// Says whether the log still has an entry, released or not, according to the index. The bytes
    /// are not read.
    pub fn holds(&self, entry: EntryRef) -> bool {
        self.core.holds(entry.seq)
    }

    /// Calls `f` in sequence order for every durable entry of these kinds still in the log,
    /// released ones included. Reads the whole log, without blocking appends or compaction.
    pub fn past(
        &self,
        kinds: &[EntryKind],
        f: &mut dyn FnMut(&JournalEntry),
    ) -> Result<(), EntryReadError> {
        self.core.past(kinds, f)
    }

    /// Calls `f` in sequence order for the owners' durable entries after `from`, without blocking
    /// appends or compaction. With `from` = 0 only live entries are read, otherwise released ones
    /// too.
    pub fn replay(
        &self,
        from: u64,
        f: &mut dyn FnMut(&JournalEntry, EntryRef),
    ) -> Result<(), EntryReadError> {
        self.core.replay_beside(from, f)
    }

    /// Marks an entry as no longer needed. Call it after the append that superseded the entry: the
    /// release takes effect once everything appended before it is durable. An entry that superseded
    /// others may be released only after them. Idempotent.
    pub fn release(&self, entry: EntryRef) {
        self.core.state().release(entry);
    }

    /// The latest live entry of a key.
    pub fn keyed_get(
        &self,
        kind: EntryKind,
        key: &[u8],
    ) -> Result<Option<EntryRef>, EntryReadError> {
        self.core.keyed_get(kind, key)
    }

    /// The stream of this name, created if there is none.
    pub fn stream_open(&self, name: &str) -> Result<StreamId, AppendError> {
        self.core.stream_open(name)
    }

    /// The stream of this name.
    pub fn stream_find(&self, name: &str) -> Option<StreamId> {
        self.core.state().streams.by_name.get(name).copied()
    }

    /// Names and ids of all streams, by name.
    pub fn stream_list(&self) -> Vec<(String, StreamId)> {
        let state = self.core.state();
        state.streams.by_name.iter().map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// Drops a stream and all its batches; unknown ids are no error.
    pub fn stream_drop(&self, id: StreamId) -> Result<(), JournalError> {
        self.core.stream_drop(id)
    }

    /// Moves the start of a stream forward to offset `to`, at most its visible end, and releases
    /// the batches wholly before it. Returns the new start.
    pub fn stream_trim(&self, id: StreamId, to: i64) -> Result<i64, JournalError> {
        self.core.stream_trim(id, to)
    }

    /// Offsets of a stream; `None` for an unknown stream.
    pub fn stream_bounds(&self, id: StreamId) -> Option<Bounds> {
        self.core.stream_bounds(id)
    }

    /// The base offset of a recent batch by its entry; `None` when the batch is not in memory.
    pub fn stream_offset(&self, id: StreamId, seq: u64) -> Option<i64> {
        self.core.state().streams.map.get(&id)?.offset_of(seq)
    }

    /// Visible batches from the one that contains `from`. Only the first batch may exceed
    /// `max_bytes`. Empty at the visible end.
    pub fn stream_read(
        &self,
        id: StreamId,
        from: i64,
        max_bytes: usize,
    ) -> Result<StreamRead, EntryReadError> {
        self.core.stream_read(id, from, ReadSize::any(max_bytes))
    }

    /// [`Journal::stream_read`] that reads nothing when the first batch is larger than allowed.
    pub fn stream_read_within(
        &self,
        id: StreamId,
        from: i64,
        size: ReadSize,
    ) -> Result<StreamRead, EntryReadError> {
        self.core.stream_read(id, from, size)
    }

    /// The first visible batch with a record at or after a timestamp: its base offset and greatest
    /// timestamp.
    pub fn stream_find_time(
        &self,
        id: StreamId,
        timestamp_ms: i64,
    ) -> Result<Option<(i64, i64)>, EntryReadError> {
        self.core.stream_find_time(id, timestamp_ms)
    }

    /// The visible batch with the greatest timestamp: its base offset and that timestamp.
    pub fn stream_latest_time(&self, id: StreamId) -> Result<Option<(i64, i64)>, EntryReadError> {
        self.core.stream_latest_time(id)
    }

    /// Offset up to which retention may trim: earlier batches were appended at or before entry
    /// `old`, or exceed `max_bytes`. Equals the stream's start when nothing has expired.
    pub fn stream_expired(
        &self,
        id: StreamId,
        max_bytes: Option<u64>,
        old: Option<u64>,
    ) -> Result<i64, EntryReadError> {
        self.core.stream_expired(id, max_bytes, old)
    }

    /// The entry of the newest visible batch; `None` for an empty or unknown stream.
    pub fn stream_newest(&self, id: StreamId) -> Result<Option<u64>, EntryReadError> {
        self.core.stream_newest(id)
    }

    /// Notifies `waker` once (`notify_one`), at the next visible append of the stream or its drop.
    /// Watch before reading, so that no append in between is missed.
    pub fn stream_watch(&self, id: StreamId, waker: &Arc<Notify>) {
        match self.core.state().streams.map.get_mut(&id) {
            Some(stream) => stream.watch(waker),
            None => waker.notify_one(),
        }
    }

    /// Opens an owner's tables beside the log. They start empty when the journal's own index was
    /// rebuilt: its releases are lost then, and the owner must repeat them.
    pub fn tables(
        &self,
        name: &str,
        version: u32,
        cache_bytes: usize,
    ) -> Result<Tables, TablesError> {
        let tables = Tables::open(&self.core.disk, name, version, cache_bytes)?;
        tables.lean_on(self.core.tables.born())?;
        Ok(tables)
    }

    /// Reopens an owner's tables after a failure, as of their last checkpoint. They start empty if
    /// `anew` is set or the file cannot be opened.
    pub fn renew_tables(&self, tables: &Tables, anew: bool) -> Result<(), TablesError> {
        if anew || tables.reopen().is_err() {
            tables.begin_anew()?;
        }
        tables.lean_on(self.core.tables.born())
    }

    /// The free space that new records lack; `None`: the disk has room, whether or not records are
    /// refused for another reason.
    pub fn shortage(&self) -> Option<Shortage> {
        if let Err(AppendError::DiskFull { free_bytes, needed_bytes }) = self.admits() {
            return Some(Shortage { needed_bytes, free_bytes });
        }
        let stats = self.stats();
        let waiting = Shortage { needed_bytes: stats.queued_bytes, free_bytes: stats.disk_free };
        stats.disk_full.then_some(waiting)
    }

    /// Free bytes of the disk, asked now.
    pub fn free_bytes(&self) -> u64 {
        self.core.refresh_free_bytes()
    }

    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// The write or fdatasync failure that poisoned the journal, if any.
    pub fn poisoned(&self) -> Option<Poisoned> {
        self.core.state().poisoned.clone()
    }

    /// Saves the index with everything appended and released so far. Waits until that is durable,
    /// so the writer must be running. Returns the sequence number saved. An owner with tables of
    /// its own calls this first, then [`Tables::checkpoint`](super::Tables::checkpoint), then
    /// [`Journal::hold_from`].
    pub fn checkpoint(&self) -> Result<u64, JournalError> {
        self.core.checkpoint()
    }

    /// Tells compaction that `owner` will replay from after `seq`: later entries stay even when
    /// released. An owner that never calls this replays live entries only.
    pub fn hold_from(&self, owner: &'static str, seq: u64) {
        self.core.state().holds.insert(owner, seq);
    }

    /// The housekeeper; one thread at a time does its work, however many housekeepers exist.
    pub fn housekeeper(&self) -> Housekeeper {
        Housekeeper { core: Arc::clone(&self.core) }
    }

    /// Refuses appends from now on; [`Writer::run`] returns after writing the queue.
    pub fn close(&self) {
        self.core.close();
    }
}

impl Housekeeper {
    /// Does one step of work, without waiting for the writer. It writes the offset tables of newly
    /// sealed segments. It makes a checkpoint when one is due and the log is durable to that point.
    /// It deletes or copies forward at most one run of segments. Later steps retry a failure after
    /// other work.
    pub fn step(&mut self) -> Result<HousekeepingReport, HousekeepingFailure> {
        let mut kept = HousekeepingReport::default();
        match self.keep(&mut kept) {
            Ok(()) => Ok(kept),
            Err(cause) => {
                Err(HousekeepingFailure { kept: HousekeepingReport { more: false, ..kept }, cause })
            }
        }
    }

    fn keep(&self, kept: &mut HousekeepingReport) -> Result<(), JournalError> {
        self.core.refresh_free_bytes();
        let mut maintenance = self.core.maintenance();
        self.core.write_offset_tables();
        if maintenance.pending.is_some() || self.checkpoint_due() {
            let seq = self.core.pending_seq(&mut maintenance);
            self.core.request_sync(seq);
            if self.core.progress.durable() >= seq {
                self.core.save_pending(&mut maintenance)?;
                kept.checkpoint = Some(seq);
            } else {
                kept.more = true;
            }
        }
        let compacted = self.core.compact(&mut maintenance, kept);
        if !maintenance.buried {
            self.core.bury_orphans(&maintenance.replaced)?;
            maintenance.buried = true;
        }
        compacted
    }

    /// Makes the next steps save a checkpoint as of now, for a caller that drives the writer itself
    /// and cannot wait in [`Journal::checkpoint`].
    pub fn request_checkpoint(&mut self) {
        let seq = self.core.pending_seq(&mut self.core.maintenance());
        self.core.request_sync(seq);
    }

    fn checkpoint_due(&self) -> bool {
        let config = &self.core.config.0;
        let state = self.core.state();
        state.appended_bytes >= config.checkpoint_bytes
            || state.released_bytes >= u64::from(config.segment_bytes / RELEASED_SHARE)
            || state.keyed.len() >= KEYED_MOST
    }
}
