//! Changes in memory over rows on disk, read as one ordered map of bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};
use std::sync::OnceLock;

use crate::journal::{Table, Tables, TablesError};

/// All rows lie in one table; the first byte of a key says what it is.
const ROWS: Table = Table("rows");

/// Rows of the disk that are kept in mind until the next flush.
const SEEN_MAX: usize = 1024;

/// Called with a key and its value, until it breaks.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// One ordered map. Reads see a change at once; the disk sees it with the next flush.
#[derive(Debug)]
pub(super) struct Layers {
    /// Not yet on disk; `None` hides a row of the disk.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Rows looked up on the disk since the last flush, also those that are not there: before
    /// anything is decided the same few are asked for more than once.
    seen: RefCell<HashMap<Vec<u8>, Option<Vec<u8>>>>,
    /// `None`: everything stays in `changes`.
    tables: Option<Tables>,
    /// The first failure: from then on every read is empty and every change is dropped.
    failed: OnceLock<String>,
}

impl Layers {
    pub(super) fn new(tables: Option<Tables>) -> Self {
        let (changes, seen) = (BTreeMap::new(), RefCell::default());
        Self { changes, seen, tables, failed: OnceLock::new() }
    }

    /// The failure that ended the use of this store.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Ends the use of this store; the first reason stays.
    pub(super) fn fail(&self, why: &str) {
        if self.failed.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the table of retries cannot be used any more");
        }
    }

    /// Changes that only memory holds.
    pub(super) fn unflushed(&self) -> usize {
        if self.tables.is_some() { self.changes.len() } else { 0 }
    }

    /// The sequence number of the last checkpoint; 0 without a disk.
    pub(super) fn applied(&self) -> u64 {
        self.tables.as_ref().map_or(0, Tables::applied)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        if self.failed.get().is_some() {
            return None;
        }
        if let Some(change) = self.changes.get(key) {
            return change.as_deref().map(Cow::Borrowed);
        }
        if let Some(seen) = self.seen.borrow().get(key) {
            return seen.clone().map(Cow::Owned);
        }
        let found = self.latch(self.tables.as_ref()?.get(ROWS, key))?;
        let mut seen = self.seen.borrow_mut();
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(key.to_vec(), found.clone());
        found.map(Cow::Owned)
    }

    /// Calls `f` for each key in `from..to`, in order, until it breaks.
    pub(super) fn each(&self, from: &[u8], to: &[u8], f: &mut Visit<'_>) {
        if self.failed.get().is_some() || from >= to {
            return;
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut changes = self.changes.range::<[u8], _>(bounds).peekable();
        let mut flow = ControlFlow::Continue(());
        if let Some(tables) = &self.tables {
            let read = tables.each(ROWS, from, Some(to), &mut |key, value| {
                let mut replaced = false;
                while let Some((at, change)) = changes.next_if(|(at, _)| at.as_slice() <= key) {
                    replaced = at.as_slice() == key;
                    flow = change.as_ref().map_or(flow, |new| f(at, new));
                    if flow.is_break() {
                        return flow;
                    }
                }
                if !replaced {
                    flow = f(key, value);
                }
                flow
            });
            self.latch(read);
        }
        for (at, change) in changes {
            if flow.is_break() {
                return;
            }
            flow = change.as_ref().map_or(flow, |new| f(at, new));
        }
    }

    /// The last flushed key in `from..to`.
    pub(super) fn last_flushed(&self, from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
        let found = self.tables.as_ref()?.last_before(ROWS, from, to);
        self.latch(found).flatten().map(|(key, _)| key)
    }

    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if self.failed.get().is_none() {
            self.changes.insert(key, Some(value));
        }
    }

    pub(super) fn delete(&mut self, key: Vec<u8>) {
        if self.tables.is_none() {
            self.changes.remove(&key);
        } else if self.failed.get().is_none() {
            self.changes.insert(key, None);
        }
    }

    /// Writes every change to the disk's tables; durable only with the next checkpoint.
    pub(super) fn flush(&mut self) {
        let Some(tables) = &self.tables else { return };
        if self.changes.is_empty() || self.failed.get().is_some() {
            return;
        }
        let written = tables.write(|batch| {
            for (key, change) in &self.changes {
                match change {
                    Some(value) => batch.put(ROWS, key, value)?,
                    None => batch.delete(ROWS, key).map(drop)?,
                }
            }
            Ok(())
        });
        if self.latch(written).is_some() {
            self.changes.clear();
            self.seen.get_mut().clear();
        }
    }

    /// Makes what was flushed durable, as the state after entry `applied` of the log.
    pub(super) fn checkpoint(&mut self, applied: u64) {
        self.flush();
        if self.failed.get().is_some() {
            return;
        }
        if let Some(tables) = &self.tables {
            self.latch(tables.checkpoint(applied));
        }
    }

    fn latch<T>(&self, result: Result<T, TablesError>) -> Option<T> {
        result.map_err(|error| self.fail(&error.to_string())).ok()
    }
}
