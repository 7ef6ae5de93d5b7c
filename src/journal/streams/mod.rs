//! Streams in memory: their bounds, and the batches the index does not have yet.

pub(super) mod stream_index;
mod stream_read;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::{Bounds, EntryRef, StreamId, StreamPart};

/// Most batches kept in memory after the index has them: consumers mostly read the end.
const TAIL_KEPT: usize = 64;
/// Watchers of a stream above which abandoned ones are removed.
const WATCHERS_SWEPT: usize = 16;

/// Offsets and entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchRef {
    pub(super) base: i64,
    pub(super) records: u32,
    pub(super) entry: EntryRef,
    pub(super) max_timestamp_ms: i64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) start: i64,
    pub(super) next: i64,
    pub(super) visible_end: i64,
    pub(super) bytes: u64,
    /// The newest batches in offset order.
    pub(super) tail: VecDeque<BatchRef>,
    /// The index has every batch below this offset.
    pub(super) indexed_end: i64,
    /// The stream differs from the index.
    pub(super) dirty: bool,
    pub(super) watchers: Vec<Arc<Notify>>,
}

#[derive(Debug)]
pub(super) struct Streams {
    pub(super) by_name: BTreeMap<String, StreamId>,
    pub(super) map: BTreeMap<StreamId, Stream>,
    pub(super) next_id: u32,
    /// Streams dropped since the last checkpoint.
    pub(super) dropped: Vec<StreamId>,
}

/// The part of a stream that a checkpoint saves.
#[derive(Clone, Debug)]
pub(super) struct StreamSave {
    pub(super) id: StreamId,
    pub(super) name: String,
    pub(super) start: i64,
    pub(super) next: i64,
    pub(super) bytes: u64,
    pub(super) batches: Vec<BatchRef>,
}

impl BatchRef {
    pub(super) fn new(part: &StreamPart, entry: EntryRef) -> Self {
        Self {
            base: part.base_offset,
            records: part.records,
            entry,
            max_timestamp_ms: part.max_timestamp_ms,
        }
    }

    /// One past its last offset.
    pub(super) fn end(&self) -> i64 {
        self.base.saturating_add(i64::from(self.records))
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), map: BTreeMap::new(), next_id: 1, dropped: Vec::new() }
    }
}

impl Streams {
    /// Adds a stream that begins at offset 0.
    pub(super) fn add(&mut self, id: StreamId, name: &str) -> &mut Stream {
        self.by_name.insert(name.to_owned(), id);
        self.next_id = self.next_id.max(id.0.saturating_add(1));
        self.map.entry(id).or_insert_with(|| Stream::new(name))
    }

    /// Removes a stream and wakes its watchers.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let mut stream = self.map.remove(&id)?;
        if self.by_name.get(&stream.name) == Some(&id) {
            self.by_name.remove(&stream.name);
        }
        self.dropped.push(id);
        stream.wake();
        Some(stream)
    }

    /// Streams that differ from the index.
    pub(super) fn changed(&self) -> Vec<StreamSave> {
        self.map.iter().filter(|(_, stream)| stream.dirty).map(|(id, s)| s.save(*id)).collect()
    }

    /// Drops batches that the index has saved, up to the kept tail.
    pub(super) fn saved(&mut self, saved: &[StreamSave]) {
        for save in saved {
            let Some(stream) = self.map.get_mut(&save.id) else { continue };
            stream.indexed_end = stream.indexed_end.max(save.next);
            stream.dirty = stream.next != save.next || stream.start != save.start;
            stream.prune();
        }
    }
}

impl Stream {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            start: 0,
            next: 0,
            visible_end: 0,
            bytes: 0,
            tail: VecDeque::new(),
            indexed_end: 0,
            dirty: true,
            watchers: Vec::new(),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            start: self.start,
            visible_end: self.visible_end,
            next: self.next,
            bytes: self.bytes,
        }
    }

    /// Adds the next batch.
    pub(super) fn push(&mut self, batch: BatchRef) {
        debug_assert!(batch.base >= self.next, "offset {} is given twice", batch.base);
        self.next = self.next.max(batch.end());
        self.bytes += u64::from(batch.entry.len);
        self.tail.push_back(batch);
        self.dirty = true;
    }

    /// Makes batches up to `end` visible to readers.
    pub(super) fn show(&mut self, end: i64) {
        if end > self.visible_end {
            self.visible_end = end;
            self.wake();
        }
    }

    /// Moves the start after batches of `released_bytes` were released.
    pub(super) fn trim(&mut self, to: i64, released_bytes: u64) {
        self.start = self.start.max(to);
        self.next = self.next.max(to);
        self.bytes = self.bytes.saturating_sub(released_bytes);
        self.dirty = true;
        while self.tail.front().is_some_and(|batch| batch.end() <= self.start) {
            self.tail.pop_front();
        }
    }

    /// Batches of the tail from the one with offset `from`; `None` when the tail begins later, as
    /// older batches may be in the index.
    pub(super) fn tail_from(&self, from: i64) -> Option<impl Iterator<Item = &BatchRef>> {
        let complete = self.indexed_end <= self.start;
        if !complete && self.tail.front().is_none_or(|first| from < first.base) {
            return None;
        }
        let at = self.tail.partition_point(|batch| batch.end() <= from);
        Some(self.tail.range(at..))
    }

    /// The base offset of a batch of the tail by its entry. Compaction keeps sequence numbers, so
    /// the tail is sorted by them.
    pub(super) fn offset_of(&self, seq: u64) -> Option<i64> {
        let at = self.tail.binary_search_by_key(&seq, |batch| batch.entry.seq).ok()?;
        self.tail.get(at).map(|batch| batch.base)
    }

    pub(super) fn watch(&mut self, waker: &Arc<Notify>) {
        if self.watchers.iter().any(|known| Arc::ptr_eq(known, waker)) {
            return;
        }
        if self.watchers.len() >= WATCHERS_SWEPT {
            self.watchers.retain(|waker| Arc::strong_count(waker) > 1);
        }
        self.watchers.push(Arc::clone(waker));
    }

    fn wake(&mut self) {
        for waker in self.watchers.drain(..) {
            waker.notify_one();
        }
    }

    fn save(&self, id: StreamId) -> StreamSave {
        let at = self.tail.partition_point(|batch| batch.base < self.indexed_end);
        StreamSave {
            id,
            name: self.name.clone(),
            start: self.start,
            next: self.next,
            bytes: self.bytes,
            batches: self.tail.range(at..).copied().collect(),
        }
    }

    fn prune(&mut self) {
        while self.tail.len() > TAIL_KEPT
            && self.tail.front().is_some_and(|batch| batch.end() <= self.indexed_end)
        {
            self.tail.pop_front();
        }
    }
}
