//! Replays the log: to the journal's own index first, then to its owners.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checkpoint::{KEYED, decode_ref, next_stream_entry};
use crate::journal::compact::dead_key;
use crate::journal::core::{
    JournalCore, KIND_DEAD, KIND_NEXT_STREAM, KIND_OWNERS, KIND_STREAM, KIND_TRIM,
};
use crate::journal::read::read_failed;
use crate::journal::segment::bitmap::Bitmap;
use crate::journal::segment::format::{decode, i64_at, u32_at};
use crate::journal::segment::live_segments::Segment;
use crate::journal::segment::scan::{RawEntry, ScanStep, Scanner, length};
use crate::journal::segment::{SegmentId, in_segment};
use crate::journal::{EntryKind, EntryReadError, EntryRef, JournalEntry, OpenError, StreamId};

/// Entries replayed between two saves of the index: bounds memory during a rebuild.
const CATCH_UP_ENTRIES: u64 = 32 << 10;
/// Keyed entries of one read.
const KEYED_RUN: usize = 256;

/// The log as found at start; each owner replays it before anything is appended.
#[derive(Debug)]
pub struct Recovery {
    core: Arc<JournalCore>,
    last_seq: u64,
    torn_bytes: u64,
    foreign: Vec<String>,
}

/// Called for each entry of a walk: position, length, entry.
type EntryVisitor<'f> = &'f mut dyn FnMut(u32, u64, &RawEntry) -> Result<(), EntryReadError>;

/// A segment to walk.
pub(in crate::journal) struct SegmentWalk {
    id: SegmentId,
    epoch: u64,
    /// One past the last sequence number of its range.
    pub(in crate::journal) end: u64,
    bytes: u64,
    pub(in crate::journal) dead: Bitmap,
}

impl SegmentWalk {
    pub(in crate::journal) fn of(segment: &Segment) -> Self {
        Self {
            id: segment.id,
            epoch: segment.epoch,
            end: segment.end,
            bytes: segment.bytes,
            dead: segment.dead.clone(),
        }
    }

    /// Calls `f` for each entry.
    pub(in crate::journal) fn go(
        &self,
        mut scanner: Scanner,
        f: EntryVisitor<'_>,
    ) -> Result<(), EntryReadError> {
        for ordinal in 0.. {
            let next = scanner.next();
            match next.map_err(|source| read_failed(&self.id.log_name(), source))? {
                ScanStep::Entry(raw) => f(ordinal, length(&raw.bytes), &raw)?,
                ScanStep::Damaged(offset) => return Err(self.corrupt(offset)),
                ScanStep::End => break,
            }
        }
        Ok(())
    }

    pub(in crate::journal) fn corrupt(&self, offset: u64) -> EntryReadError {
        EntryReadError::Corrupt { file: self.id.log_name(), offset }
    }
}

impl Recovery {
    pub(in crate::journal) fn new(
        core: Arc<JournalCore>,
        torn_bytes: u64,
        foreign: Vec<String>,
    ) -> Self {
        let last_seq = core.progress.durable();
        Self { core, last_seq, torn_bytes, foreign }
    }

    /// The sequence number of the journal's last checkpoint: an owner without tables of its own
    /// passes it to [`Recovery::replay`].
    pub fn checkpointed(&self) -> u64 {
        self.core.counters.checkpoint_seq.load(Ordering::Relaxed).min(self.last_seq)
    }

    /// The last entry of the log.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Bytes of the torn tail that was cut.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Files in the directory that are not the journal's; they are left untouched.
    pub fn foreign(&self) -> &[String] {
        &self.foreign
    }

    /// Calls `f` in sequence order. With `from` = 0 it reads every live entry. Otherwise it reads
    /// the latest entry of every key up to `from`, then every entry after `from`, released or not.
    /// Each owner calls this with the `from` of its own tables, before housekeeping begins. The
    /// journal's own kinds are left out. The parts of an entry share a large buffer, so copy any
    /// part that is kept.
    pub fn replay(
        &self,
        from: u64,
        f: &mut dyn FnMut(&JournalEntry, EntryRef),
    ) -> Result<(), EntryReadError> {
        let refs = if from > 0 { self.core.keyed_until(from)? } else { Vec::new() };
        for run in refs.chunks(KEYED_RUN) {
            for (entry, placed) in self.core.read_many(run)?.iter().zip(run) {
                f(entry, *placed);
            }
        }
        self.core.walk(from, self.last_seq, from == 0, &mut |entry, placed| {
            if entry.kind.0 >= KIND_OWNERS {
                f(entry, placed);
            }
            Ok(())
        })
    }
}

impl JournalCore {
    /// Replays the log into the index, from its last checkpoint to the end.
    pub(super) fn catch_up(&self) -> Result<(), OpenError> {
        let applied = self.tables.applied();
        self.counters.checkpoint_seq.store(applied, Ordering::Relaxed);
        if let Some(entry) = next_stream_entry(&self.tables)? {
            let next = u32_at(&self.read(entry)?.body, 0).unwrap_or(1);
            let mut state = self.state();
            state.streams.next_id = state.streams.next_id.max(next);
        }
        if applied == 0 {
            self.recount()?;
        }
        let unknown = self.unknown();
        let last = self.progress.durable();
        let mut waiting = 0;
        let mut saved = false;
        self.walk(applied, last, applied == 0, &mut |entry, placed| {
            self.catch_up_with(entry, placed)?;
            waiting += 1;
            if waiting >= CATCH_UP_ENTRIES {
                (waiting, saved) = (0, true);
                self.save_now()?;
            }
            Ok(())
        })?;
        for stream in self.state().streams.map.values_mut() {
            let next = stream.next;
            stream.show(next);
        }
        self.mark_left_over(&unknown)?;
        if saved {
            self.save_now()?;
            self.tables.checkpoint(last)?;
            self.counters.checkpoint_seq.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    fn save_now(&self) -> Result<(), crate::journal::TablesError> {
        let snapshot = self.snapshot();
        let sealed = self.save(&snapshot).map_err(|error| crate::journal::TablesError {
            file: crate::journal::segment::INDEX_NAME.to_owned(),
            doing: "catching up",
            cause: error.to_string(),
        })?;
        self.forget_saved(&snapshot, &sealed);
        Ok(())
    }

    fn catch_up_with(&self, entry: &JournalEntry, placed: EntryRef) -> Result<(), EntryReadError> {
        let key = entry.key.as_ref();
        let tombstone = entry.is_tombstone();
        let id = |bytes: &[u8]| u32_at(bytes, 0).map(StreamId);
        match (entry.kind, key) {
            (KIND_STREAM, Some(name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                if let Some(id) = id(&entry.body) {
                    self.state().streams.add(id, &name);
                } else {
                    let dropped = self.state().streams.by_name.get(&name).copied();
                    self.dropped_again(dropped)?;
                }
            }
            (KIND_NEXT_STREAM, _) => {
                let mut state = self.state();
                let next = u32_at(&entry.body, 0).unwrap_or(1);
                state.streams.next_id = state.streams.next_id.max(next);
            }
            (KIND_TRIM, Some(key)) => {
                if let (Some(id), Some(to)) = (id(key), i64_at(&entry.body, 0)) {
                    let dead = self.batches_below(id, to)?;
                    self.state().trimmed(id, to, &dead);
                }
            }
            _ => {}
        }
        let stream = entry.stream.as_ref();
        self.state().note(placed, entry.kind, key, stream, tombstone);
        Ok(())
    }

    fn dropped_again(&self, id: Option<StreamId>) -> Result<(), EntryReadError> {
        let Some(id) = id else { return Ok(()) };
        let dead = self.batches_below(id, i64::MAX)?;
        let mut state = self.state();
        state.streams.remove(id);
        for batch in dead {
            state.release(batch.entry);
        }
        Ok(())
    }

    /// Sealed segments that the index does not know, or not to their end.
    fn unknown(&self) -> BTreeSet<SegmentId> {
        let segments = self.segments();
        let unsaved =
            segments.map.values().filter(|segment| segment.is_sealed() && segment.unsaved);
        unsaved.map(|segment| segment.id).collect()
    }

    /// Marks dead entries of segments that a crash kept on the disk after the index forgot them.
    /// The log still has their dead bits.
    fn mark_left_over(&self, unknown: &BTreeSet<SegmentId>) -> Result<(), EntryReadError> {
        let left: Vec<SegmentWalk> = {
            let segments = self.segments();
            let left = segments.map.values().filter(|segment| unknown.contains(&segment.id));
            left.map(SegmentWalk::of).collect()
        };
        for walk in left {
            let Some(entry) = self.keyed_get(KIND_DEAD, &dead_key(walk.id))? else { continue };
            let dead = Bitmap::from_bytes(&self.read(entry)?.body);
            self.walk_one(&walk, &mut |ordinal, len, raw| {
                if dead.get(ordinal) {
                    let len = in_segment(len);
                    self.segments_mut().mark_dead(EntryRef { seq: raw.header.seq, len }, ordinal);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Recounts live bytes after dead bits were read from the log.
    fn recount(&self) -> Result<(), EntryReadError> {
        let marked = self.walks(0).into_iter().filter(|walk| walk.dead != Bitmap::default());
        for walk in marked {
            let mut live = 0;
            self.walk_one(&walk, &mut |ordinal, entry_len, _| {
                if !walk.dead.get(ordinal) {
                    live += entry_len;
                }
                Ok(())
            })?;
            if let Some(segment) = self.segments_mut().map.get_mut(&walk.id.base) {
                segment.live_bytes = live;
            }
        }
        Ok(())
    }

    /// Owners' keys whose latest entry is at or before `from`, in sequence order.
    fn keyed_until(&self, from: u64) -> Result<Vec<EntryRef>, EntryReadError> {
        let mut latest: BTreeMap<Vec<u8>, Option<EntryRef>> = BTreeMap::new();
        self.tables.each(KEYED, &[KIND_OWNERS], None, &mut |key, row| {
            latest.insert(key.to_vec(), decode_ref(row));
            ControlFlow::Continue(())
        })?;
        for (kind, key, changed) in self.state().keyed.changed() {
            if kind.0 >= KIND_OWNERS {
                let live = (!changed.tombstone).then_some(changed.entry);
                latest.insert(crate::journal::tables::changed_keys::index_key(kind, &key), live);
            }
        }
        let refs = latest.into_values().flatten().filter(|entry| entry.seq <= from);
        let mut refs: Vec<EntryRef> = refs.collect();
        refs.sort_unstable();
        Ok(refs)
    }

    /// The latest live entry of a key.
    pub(in crate::journal) fn keyed_get(
        &self,
        kind: EntryKind,
        key: &[u8],
    ) -> Result<Option<EntryRef>, EntryReadError> {
        if let Some(changed) = self.state().keyed.get(kind, key) {
            return Ok((!changed.tombstone).then_some(changed.entry));
        }
        let row =
            self.tables.get(KEYED, &crate::journal::tables::changed_keys::index_key(kind, key))?;
        Ok(row.and_then(|row| decode_ref(&row)))
    }

    /// Calls `f` for the entries after `from` up to `to` in sequence order.
    fn walk(
        &self,
        from: u64,
        to: u64,
        skip_dead: bool,
        f: &mut dyn FnMut(&JournalEntry, EntryRef) -> Result<(), EntryReadError>,
    ) -> Result<(), EntryReadError> {
        for walk in self.walks(from) {
            self.walk_one(&walk, &mut |ordinal, _, raw| {
                let seq = raw.header.seq;
                if seq <= from || seq > to || (skip_dead && walk.dead.get(ordinal)) {
                    return Ok(());
                }
                let entry = decode(&raw.bytes).ok_or_else(|| walk.corrupt(raw.offset))?;
                let len = in_segment(length(&raw.bytes));
                f(&entry, EntryRef { seq, len })
            })?;
        }
        Ok(())
    }

    fn walks(&self, from: u64) -> Vec<SegmentWalk> {
        let segments = self.segments();
        segments.after(from).map(SegmentWalk::of).collect()
    }

    fn walk_one(&self, walk: &SegmentWalk, f: EntryVisitor<'_>) -> Result<(), EntryReadError> {
        walk.go(self.enter(walk)?, f)
    }

    /// Opens a segment to walk. The open file stays readable after its removal.
    pub(in crate::journal) fn enter(&self, walk: &SegmentWalk) -> Result<Scanner, EntryReadError> {
        let name = walk.id.log_name();
        let failed = |source| read_failed(&name, source);
        let file = self.disk.open(&name).map_err(failed)?;
        let mut scanner = Scanner::new(file, walk.epoch, walk.id.base).map_err(failed)?;
        scanner.stop_at(walk.bytes);
        Ok(scanner)
    }
}
