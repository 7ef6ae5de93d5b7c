//! The retry ledger's store on disk: waiting and remembered entries take no memory.
//!
//! ```text
//! retry::Ledger ── put ──▶ changes in memory ── flush ──▶ rows on disk ── checkpoint ──▶ durable
//!                  ◀─ get ── changes, else rows              Flusher
//! ```
//! The due times of a group are one ordered table, not a queue per delay level. So nothing waits
//! behind a longer delay, no group waits for another, and exact delays need no queue of their own.
//!
//! Rows are only an index of the log. After a crash they are rebuilt from the log's facts after
//! [`Store::applied`], or from all facts when the file is missing.
//!
//! Memory has the unflushed changes (at most [`HELD_MAX`]) and, per group, its number, counts,
//! slots and open deliveries.

mod changes;
mod entries;
mod flusher;
mod front;
mod group;
mod key;
mod layers;
mod log;
mod needed;
mod pages;
mod refs;
mod renewal;
mod row;
mod shapes;
mod short;
mod taken_entry;
#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::journal::Tables;
use crate::model::{EntryId, GroupId};
use crate::retry::Marks;

pub(super) use flusher::Checkpoint;
pub use flusher::Flusher;
use flusher::{FlushFailure, FlushJob};
pub(super) use front::DueEntry;
use group::StoredGroup;
use key::RowKey;
use layers::Layers;
pub(super) use renewal::{Renewal, RenewalOutcome, apply};
use row::{EntryRow, Row};
pub use shapes::{Shape, ShapeList, ShapeView};
pub use taken_entry::TakenEntry;
use value::MarksRow;
pub(super) use value::ROWS_FILE;

/// Changes in memory before a flush: about 8 MiB. A delivery and its commit are often among them
/// together, and reach the disk as one write.
const CHANGES_MAX: usize = 32 << 10;
/// Most changes in memory, flushing ones included: about 24 MiB. A checkpoint of the tables may
/// take as long as it takes to collect them.
const HELD_MAX: usize = 3 * CHANGES_MAX;
/// Distance to [`HELD_MAX`] at which a full disk refuses more changes: space for one large batch.
const CROWDED: usize = CHANGES_MAX / 2;
/// The layout of the rows; a file of another layout is rebuilt from the log.
pub(super) const ROWS_VERSION: u32 = 13;
/// Pages of the file kept in memory, in bytes.
pub(super) const ROWS_CACHE_BYTES: usize = 8 << 20;

/// The store. See the module's documentation.
#[derive(Debug)]
pub(super) struct Store {
    rows: Layers,
    groups: BTreeMap<GroupId, StoredGroup>,
    /// Groups whose row is out of date; the next flush writes it.
    stale: BTreeSet<GroupId>,
    marks: Marks,
    /// No entry with this id or a higher one was ever stored.
    unknown_from: u64,
    /// The number of the next new group; never reused.
    next_group: u32,
    /// Entry at which the next sweep of graves begins.
    swept: Option<EntryId>,
}

impl Store {
    /// A store without a disk: nothing is flushed, `applied` stays 0.
    pub(super) fn in_memory() -> Self {
        Self::over(Layers::new(None))
    }

    /// The store as of the tables' last checkpoint; the caller applies the log's facts after
    /// [`Store::applied`].
    pub(super) fn open(tables: Tables) -> Self {
        let mut store = Self::over(Layers::new(Some(tables)));
        store.load();
        store
    }

    /// The sequence number of the last checkpoint.
    pub(super) fn applied(&self) -> u64 {
        self.rows.applied()
    }

    /// The failure that made this store unusable; every read is empty from then on. Check it before
    /// a decision of the ledger is used or journalled.
    pub(super) fn failed(&self) -> Option<String> {
        self.rows.failed().map(str::to_owned)
    }

    /// Writes the changes in memory to the rows; a restart still goes back to the checkpoint.
    pub(super) fn flush(&mut self) {
        for name in std::mem::take(&mut self.stale) {
            self.write_group(&name);
        }
        let marks = value::marks_row(self.marks, self.next_group);
        self.rows.put_value(RowKey::new(key::MARKS).0, &marks);
        self.rows.flush();
    }

    /// True when the disk is so far behind that a few more changes would wait for it.
    pub(super) fn is_crowded(&mut self) -> bool {
        let unflushed = self.rows.unflushed();
        unflushed >= CROWDED && unflushed + self.rows.leaving() >= HELD_MAX - CROWDED
    }

    /// True while the flusher has work.
    pub(super) fn is_leaving(&mut self) -> bool {
        self.rows.leaving() > 0
    }

    /// Makes the state after an entry of the log durable.
    pub(super) fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.flush();
        self.rows.checkpoint(checkpoint);
    }

    /// [`Store::checkpoint`] at once, without anything to run before it.
    #[cfg(test)]
    pub(super) fn checkpoint_at(&mut self, applied: u64) {
        let (first, done) = (Box::new(|| Ok(())), Box::new(|_| {}));
        self.checkpoint(Checkpoint { applied, first, done });
    }

    /// Moves writes of rows to the returned flusher's thread, so that the driver never waits for a
    /// disk.
    pub(super) fn flusher(&mut self) -> Flusher {
        self.rows.flusher()
    }

    fn over(rows: Layers) -> Self {
        Self {
            rows,
            groups: BTreeMap::new(),
            stale: BTreeSet::new(),
            marks: Marks::default(),
            unknown_from: 0,
            next_group: 0,
            swept: None,
        }
    }

    fn load(&mut self) {
        if let Some(row) = self.row::<MarksRow>(&RowKey::new(key::MARKS)) {
            self.marks = value::read_marks(&row);
            self.next_group = row.3;
        }
        self.unknown_from = self.ids_end();
        let mut groups = BTreeMap::new();
        let mut damaged = false;
        self.scan(&RowKey::new(key::GROUP), |key, value| {
            let name = key.split_first().and_then(|(_, name)| std::str::from_utf8(name).ok());
            let row = value::decode(value).map(StoredGroup::of_row);
            damaged |= name.is_none() || row.is_none();
            groups.extend(name.map(GroupId::new).zip(row));
            ControlFlow::Continue(())
        });
        for group in groups.values_mut() {
            self.scan(&RowKey::of_group(key::OPEN, group.number), |key, value| {
                damaged |= !group.load_open(key, value::decode(value));
                ControlFlow::Continue(())
            });
            self.scan(&RowKey::of_group(key::SHAPE, group.number), |_, value| {
                match value::decode(value) {
                    Some(row) => group.shapes.load(row),
                    None => damaged = true,
                }
                ControlFlow::Continue(())
            });
        }
        if damaged {
            self.damaged();
        }
        self.groups = groups;
    }

    /// One past the highest known entry id.
    fn ids_end(&self) -> u64 {
        let (rows, mut last) = (RowKey::new(key::ENTRY), None);
        self.rows.each_back(&rows.0, &rows.clone().end().0, &mut |key, _| {
            last = key::read_id(key);
            ControlFlow::Break(())
        });
        last.map_or(0, |id| id.0.saturating_add(1))
    }

    /// Flushes when memory has enough changes and the last flush is done.
    fn changed(&mut self) {
        let unflushed = self.rows.unflushed();
        if unflushed < CHANGES_MAX {
            return;
        }
        let leaving = self.rows.leaving();
        if leaving == 0 {
            self.flush();
        } else if unflushed + leaving >= HELD_MAX {
            self.rows.wait();
        }
    }

    /// The decoded value of a row; damage makes this store unusable.
    fn row<T: serde::de::DeserializeOwned>(&self, key: &RowKey) -> Option<T> {
        let row = self.rows.get(&key.0)?;
        let value = row.bytes().ok().and_then(|bytes| value::decode(&bytes));
        if value.is_none() {
            self.damaged();
        }
        value
    }

    /// The entry and its references; damage makes this store unusable.
    fn known(&self, id: EntryId) -> EntryRow {
        if id.0 >= self.unknown_from {
            return EntryRow::default();
        }
        let key = RowKey::of_entry(key::ENTRY, id).0;
        let bytes = match self.rows.get(&key) {
            Some(Row::Known(known)) => return known,
            Some(Row::Bytes(bytes)) => bytes,
            None => return EntryRow::default(),
        };
        let Some(known) = EntryRow::decode(&bytes) else {
            self.damaged();
            return EntryRow::default();
        };
        self.rows.understood(&key, known.clone().into());
        known
    }

    fn put_known(&mut self, id: EntryId, known: EntryRow) {
        let key = RowKey::of_entry(key::ENTRY, id).0;
        if known == EntryRow::default() {
            self.rows.delete(key);
            return;
        }
        self.unknown_from = self.unknown_from.max(id.0.saturating_add(1));
        self.rows.put(key, known);
    }

    fn damaged(&self) {
        self.rows.fail(&format!(
            "{ROWS_FILE} holds a damaged row; remove the file and restart, \
             it is rebuilt from the log"
        ));
    }

    /// Calls `f` for every row whose key begins with `prefix`, in order, until it breaks.
    fn scan(&self, prefix: &RowKey, mut f: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) {
        let end = prefix.clone().end();
        self.rows.each(&prefix.0, &end.0, &mut f);
    }
}
