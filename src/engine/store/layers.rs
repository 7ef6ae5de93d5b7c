//! Changes in memory above rows on disk, read as one ordered map of bytes.
//!
//! ```text
//! changes ── flush ──▶ leaving (one layer a flush) ── Flusher ──▶ rows on disk
//! ```
//! A leaving layer is read until its rows are on disk, so a change is visible at once and stays
//! visible.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use serde::Serialize;

use crate::engine::store::changes::{Changes, Merged, RowChange, ScanOrder};
use crate::engine::store::flusher::{Checkpoint, FlushFailure, FlushJob, Flusher, ROWS};
use crate::engine::store::row::Row;
use crate::engine::store::short::ShortBytes;
use crate::engine::store::value;
use crate::journal::Tables;

/// Most rows of the disk cached until the next flush: a batch of a thousand nacks reads the rows of
/// each origin three times.
const SEEN_MAX: usize = 8 << 10;

/// Failure of a store whose flusher has ended.
const NOBODY: &str = "the thread that writes the retry tables has ended";

/// Called with a key and its value, until it breaks.
pub(super) type RowVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// One ordered map. Reads see a change at once; the next flush writes it to disk.
#[derive(Debug)]
pub(super) struct Layers {
    /// Changes that are not flushed.
    changes: Changes,
    /// Flushed layers that may not be on disk yet, newest first.
    leaving: VecDeque<FlushingLayer>,
    /// Rows read from disk since the last flush, missing ones included: a decision reads the same
    /// few rows more than once.
    seen: RefCell<HashMap<ShortBytes, Option<Row>>>,
    /// `None` for a store in memory: everything stays in `changes`.
    tables: Option<Tables>,
    /// Sends jobs to the flusher; `None` to write on this thread.
    flusher: Option<Sender<FlushJob>>,
    /// After the first failure every read is empty and every change is dropped.
    failure: FlushFailure,
}

#[derive(Debug)]
struct FlushingLayer {
    changes: Arc<Changes>,
    written: Receiver<()>,
}

impl Layers {
    pub(super) fn new(tables: Option<Tables>) -> Self {
        Self {
            changes: Changes::new(),
            leaving: VecDeque::new(),
            seen: RefCell::default(),
            tables,
            flusher: None,
            failure: FlushFailure::default(),
        }
    }

    /// Moves writes to the returned flusher.
    pub(super) fn flusher(&mut self) -> Flusher {
        let (sender, jobs) = channel();
        self.flusher = Some(sender);
        Flusher { jobs, tables: self.tables.clone(), failure: self.failure.clone() }
    }

    /// Takes over the flusher of rows that failed.
    pub(super) fn take_flusher(&mut self, old: &mut Self) {
        self.flusher = old.flusher.take();
    }

    /// The shared failure of these rows.
    pub(super) fn failure(&self) -> FlushFailure {
        self.failure.clone()
    }

    /// Sends a renewal to the flusher; false when its thread has ended.
    pub(super) fn renew(&self, job: FlushJob) -> bool {
        if let Some(flusher) = &self.flusher {
            return flusher.send(job).is_ok();
        }
        job.run(self.tables.as_ref(), &self.failure);
        true
    }

    /// The failure that made this store unusable.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failure.told()
    }

    /// Makes this store unusable.
    pub(super) fn fail(&self, why: &str) {
        self.failure.tell(why);
    }

    /// Number of changes that are not flushed.
    pub(super) fn unflushed(&self) -> usize {
        if self.tables.is_some() { self.changes.len() } else { 0 }
    }

    /// Number of flushed changes that may not be on disk yet.
    pub(super) fn leaving(&mut self) -> usize {
        while let Some(last) = self.leaving.back() {
            match last.written.try_recv() {
                Ok(()) => self.arrived(),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.fail(NOBODY);
                    break;
                }
            }
        }
        self.leaving.iter().map(|layer| layer.changes.len()).sum()
    }

    /// Waits until the oldest flushed layer is on disk.
    pub(super) fn wait(&mut self) {
        let Some(last) = self.leaving.back() else { return };
        match last.written.recv() {
            Ok(()) => self.arrived(),
            Err(_) => self.fail(NOBODY),
        }
    }

    /// The sequence number of the last checkpoint; 0 without a disk.
    pub(super) fn applied(&self) -> u64 {
        self.tables.as_ref().map_or(0, Tables::applied)
    }

    pub(super) fn get(&self, key: &ShortBytes) -> Option<Row> {
        if self.failed().is_some() {
            return None;
        }
        if let Some(change) = self.layers().find_map(|layer| layer.get(key)) {
            return change.row().cloned();
        }
        if let Some(seen) = self.seen.borrow().get(key) {
            return seen.clone();
        }
        let found = self.failure.latch(self.tables.as_ref()?.get(ROWS, key))?;
        let found = found.map(|bytes| Row::Bytes(ShortBytes::from(bytes)));
        let mut seen = self.seen.borrow_mut();
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(key.clone(), found.clone());
        found
    }

    /// Caches the decoded value of a row, so that its bytes are decoded once.
    pub(super) fn understood(&self, key: &ShortBytes, row: Row) {
        if let Some(seen) = self.seen.borrow_mut().get_mut(key) {
            *seen = Some(row);
        }
    }

    /// Calls `f` for each key in `from..to`, in order, until it breaks.
    pub(super) fn each(&self, from: &ShortBytes, to: &ShortBytes, f: &mut RowVisitor<'_>) {
        self.read(from, to, ScanOrder::Up, f);
    }

    /// [`Layers::each`] from the last key to the first.
    pub(super) fn each_back(&self, from: &ShortBytes, to: &ShortBytes, f: &mut RowVisitor<'_>) {
        self.read(from, to, ScanOrder::Down, f);
    }

    fn read(&self, from: &ShortBytes, to: &ShortBytes, way: ScanOrder, f: &mut RowVisitor<'_>) {
        if self.failed().is_some() || from >= to {
            return;
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut changes = Merged::of(self.layers(), bounds, way).peekable();
        let mut flow = ControlFlow::Continue(());
        if let Some(tables) = &self.tables {
            let mut visit = |key: &[u8], value: &[u8]| {
                let mut replaced = false;
                while let Some((at, change)) = changes.next_if(|(at, _)| way.is_by(at, key)) {
                    replaced = at[..] == *key;
                    flow = self.show(at, change, flow, f);
                    if flow.is_break() {
                        return flow;
                    }
                }
                if !replaced {
                    flow = f(key, value);
                }
                flow
            };
            self.failure.latch(match way {
                ScanOrder::Up => tables.each(ROWS, from, Some(to), &mut visit),
                ScanOrder::Down => tables.each_back(ROWS, from, to, &mut visit),
            });
        }
        for (at, change) in changes {
            if flow.is_break() {
                return;
            }
            flow = self.show(at, change, flow, f);
        }
    }

    fn show(
        &self,
        at: &ShortBytes,
        change: &RowChange,
        flow: ControlFlow<()>,
        f: &mut RowVisitor<'_>,
    ) -> ControlFlow<()> {
        let Some(row) = change.row() else { return flow };
        match self.failure.latch(row.bytes()) {
            Some(bytes) => f(at, &bytes),
            None => ControlFlow::Break(()),
        }
    }

    /// Writes a value; one that cannot be encoded makes this store unusable.
    pub(super) fn put_value<T: Serialize>(&mut self, key: ShortBytes, value: &T) {
        if let Some(row) = self.failure.latch(value::encode(value)) {
            self.put(key, row);
        }
    }

    pub(super) fn put(&mut self, key: ShortBytes, row: impl Into<Row>) {
        if self.failed().is_none() {
            self.changes.insert(key, RowChange::Put(row.into()));
        }
    }

    /// Writes a row with a new key. If it is removed before a flush, it never reaches the disk.
    pub(super) fn put_new(&mut self, key: ShortBytes, value: ShortBytes) {
        match self.changes.get(&key) {
            None | Some(RowChange::New(_)) if self.failed().is_none() => {
                self.changes.insert(key, RowChange::New(value.into()));
            }
            _ => self.put(key, value),
        }
    }

    pub(super) fn delete(&mut self, key: ShortBytes) {
        if self.tables.is_none() || matches!(self.changes.get(&key), Some(RowChange::New(_))) {
            self.changes.remove(&key);
        } else if self.failed().is_none() {
            self.changes.insert(key, RowChange::Gone);
        }
    }

    /// Sends every change to the tables; the next checkpoint makes them durable.
    pub(super) fn flush(&mut self) {
        if self.tables.is_none() || self.changes.is_empty() || self.failed().is_some() {
            return;
        }
        let changes = Arc::new(std::mem::take(&mut self.changes));
        let (sender, written) = channel();
        self.leaving.push_front(FlushingLayer { changes: Arc::clone(&changes), written });
        self.work(FlushJob::Write(changes, sender));
        self.leaving();
    }

    /// Flushes, and makes the changes durable with a checkpoint.
    pub(super) fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.flush();
        self.work(FlushJob::Checkpoint(checkpoint));
    }

    fn work(&self, job: FlushJob) {
        let here = match &self.flusher {
            None => Some(job),
            Some(flusher) => {
                let unsent = flusher.send(job).err();
                unsent.map(|unsent| {
                    self.fail(NOBODY);
                    unsent.0
                })
            }
        };
        if let Some(job) = here {
            job.run(self.tables.as_ref(), &self.failure);
        }
    }

    fn layers(&self) -> impl Iterator<Item = &Changes> {
        std::iter::once(&self.changes).chain(self.leaving.iter().map(|layer| &*layer.changes))
    }

    /// Drops the oldest leaving layer, which is on disk, and the rows cached before.
    fn arrived(&mut self) {
        let arrived = self.leaving.pop_back();
        if let (Some(flusher), Some(layer)) = (&self.flusher, arrived) {
            // A flusher that has ended has nothing to free.
            let _ = flusher.send(FlushJob::Forget(layer.changes));
        }
        self.seen.get_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::{ROWS_CACHE_BYTES, ROWS_FILE, ROWS_VERSION};
    use crate::journal::MemDisk;

    fn layers() -> Layers {
        let disk = MemDisk::new(1).disk();
        Layers::new(Some(Tables::open(&disk, ROWS_FILE, ROWS_VERSION, ROWS_CACHE_BYTES).unwrap()))
    }

    fn short(byte: u8) -> ShortBytes {
        ShortBytes::from(&[byte][..])
    }

    #[test]
    fn a_deleted_recreated_and_deleted_row_is_gone() {
        let mut layers = layers();
        layers.put(short(1), short(7));
        layers.flush();
        layers.delete(short(1));
        layers.put_new(short(1), short(7));
        layers.delete(short(1));
        assert_eq!(layers.get(&short(1)), None);
        layers.flush();
        assert_eq!(layers.get(&short(1)), None);
    }

    #[test]
    fn a_row_deleted_before_a_flush_never_reaches_the_disk() {
        let mut layers = layers();
        layers.put_new(short(1), short(7));
        assert_eq!(layers.get(&short(1)), Some(Row::Bytes(short(7))));
        layers.put_new(short(1), short(8));
        layers.delete(short(1));
        assert_eq!((layers.get(&short(1)), layers.unflushed()), (None, 0));
    }

    #[test]
    fn backward_reads_over_all_layers_equal_forward_reads() {
        let mut layers = layers();
        (0..40).for_each(|key| layers.put(short(key), short(0)));
        layers.flush();
        let _nobody_works = layers.flusher();
        for (layer, step) in [(1, 3), (2, 5), (3, 7)] {
            (0..60).step_by(step).for_each(|key| layers.put(short(key), short(layer)));
            (1..60).step_by(2 * step).for_each(|key| layers.delete(short(key)));
            if layer < 3 {
                layers.flush();
            }
        }
        let read = |back: bool, most: usize| {
            let mut rows = Vec::new();
            let mut some = |key: &[u8], value: &[u8]| {
                rows.push((key.to_vec(), value.to_vec()));
                if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            if back {
                layers.each_back(&short(3), &short(57), &mut some);
            } else {
                layers.each(&short(3), &short(57), &mut some);
            }
            rows
        };
        let (mut up, most) = (read(false, 100), 7);
        assert!(up.len() > 3 * most, "{}", up.len());
        up.reverse();
        assert_eq!(read(true, 100), up);
        assert_eq!(read(true, most), up[..most]);
    }
}
