//! Ordered look-up tables beside the log: fast, bounded, and rebuilt from it when lost.

pub(super) mod changed_keys;
mod table_file;

use std::fmt::Display;
use std::ops::{Bound, ControlFlow};
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::tables::table_file::Backend;
use super::{Disk, DiskFile, TablesError, TimeSlice};

/// Internal rows of [`Tables`].
const META: Table = Table("meta");
const META_VERSION: &[u8] = b"version";
const META_APPLIED: &[u8] = b"applied";
/// Present while the tables are ahead of `applied`. A durable commit of redb first makes earlier
/// commits durable, so a crash in between can expose them. A file with this row is recreated.
const META_AHEAD: &[u8] = b"ahead";
/// Random id of the file; a recreated file gets another.
const META_BORN: &[u8] = b"born";
/// [`META_BORN`] of the file that this one depends on.
const META_BESIDE: &[u8] = b"beside";

/// Name of a table; keys are ordered as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(pub &'static str);

/// Keys and values as they come out of [`Tables::range`].
pub type Pairs = Vec<Pair>;
/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Called for each key with its value; says whether to continue.
pub type KeyVisitor<'f> = &'f mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

type Writable<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;
type OpenedTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;
type ValueGuard = redb::AccessGuard<'static, &'static [u8]>;
type TableRead = Result<(ValueGuard, ValueGuard), redb::StorageError>;

/// A file of named ordered tables; a crash resets it to its last checkpoint.
#[derive(Clone, Debug)]
pub struct Tables(Arc<TablesCore>);

#[derive(Debug)]
struct TablesCore {
    disk: Arc<dyn Disk>,
    name: String,
    version: u32,
    cache_bytes: usize,
    open: RwLock<Option<OpenTables>>,
}

struct OpenTables {
    /// The table last read, as of the last write. Kept because opening a table costs as much as
    /// finding a key.
    reading: Mutex<Option<(Table, Arc<OpenedTable>)>>,
    database: Database,
    frozen: Arc<AtomicBool>,
    turn: Arc<TimeSlice>,
}

impl std::fmt::Debug for OpenTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("database", &self.database).finish_non_exhaustive()
    }
}

impl OpenTables {
    fn forget_reading(&self) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for OpenTables {
    /// Without this, the database would save uncommitted changes as it closes.
    fn drop(&mut self) {
        self.frozen.store(true, Ordering::Release);
    }
}

/// Changes made together; see [`Tables::write`].
pub struct TableWrites<'t> {
    name: &'t str,
    turn: &'t TimeSlice,
    txn: &'t redb::WriteTransaction,
    open: Vec<(&'static str, Writable<'t>)>,
}

impl std::fmt::Debug for TableWrites<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("file", &self.name).finish_non_exhaustive()
    }
}

impl Tables {
    /// Opens the file `name`. A file that is missing, damaged or of another `version` is recreated,
    /// and [`Tables::applied`] is 0.
    pub fn open(
        disk: &Arc<dyn Disk>,
        name: &str,
        version: u32,
        cache_bytes: usize,
    ) -> Result<Self, TablesError> {
        let tables = Self(Arc::new(TablesCore {
            disk: Arc::clone(disk),
            name: name.to_owned(),
            version,
            cache_bytes,
            open: RwLock::new(None),
        }));
        if tables.open_existing().is_err() {
            tables.begin_anew()?;
        }
        Ok(tables)
    }

    /// Recreates the file, empty.
    pub fn begin_anew(&self) -> Result<(), TablesError> {
        self.close();
        let disk = &self.0.disk;
        let file = disk.create(&self.0.name).map_err(self.fail("creating"))?;
        self.install(file)?;
        disk.sync_dir().map_err(self.fail("creating"))?;
        self.put_number(META_BORN, disk.fresh_epoch())?;
        self.checkpoint(0)
    }

    /// Recreates the tables unless they already depend on the file `born`: their contents assume
    /// releases that only that file has.
    pub(super) fn lean_on(&self, born: u64) -> Result<(), TablesError> {
        if self.number(META_BESIDE) == born {
            return Ok(());
        }
        if self.applied() > 0 {
            self.begin_anew()?;
        }
        self.put_number(META_BESIDE, born)?;
        self.checkpoint(0)
    }

    pub(super) fn born(&self) -> u64 {
        self.number(META_BORN)
    }

    /// Returns to the last checkpoint, after a failed write.
    pub(super) fn reopen(&self) -> Result<(), TablesError> {
        self.close();
        let opened = self.open_existing();
        if opened.is_err() {
            self.close();
        }
        opened
    }

    /// The sequence number of the last checkpoint: replay the log after it.
    pub fn applied(&self) -> u64 {
        self.number(META_APPLIED)
    }

    /// Reads a number; 0 when it was never written.
    fn number(&self, key: &[u8]) -> u64 {
        let saved = self.get(META, key).ok().flatten();
        saved.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    fn put_number(&self, key: &[u8], number: u64) -> Result<(), TablesError> {
        self.write(|batch| batch.put(META, key, &number.to_le_bytes()))
    }

    /// Makes changes atomically. They are lost at a restart unless a checkpoint follows.
    pub fn write<T>(
        &self,
        change: impl FnOnce(&mut TableWrites<'_>) -> Result<T, TablesError>,
    ) -> Result<T, TablesError> {
        self.commit(Durability::None, |batch| {
            batch.put(META, META_AHEAD, &[])?;
            change(batch)
        })
    }

    /// The value of a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        self.read(table, None, |table| {
            let value = table.get(key).map_err(self.fail("reading"))?;
            Ok(value.map(|value| value.value().to_vec()))
        })
    }

    /// Keys in `from..to` in order, at most `limit`; `to` = `None` means no upper end.
    pub fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Pairs, TablesError> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        self.each(table, from, to, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(found)
    }

    /// The greatest key below `to` that is at least `from`.
    pub fn last_before(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
    ) -> Result<Option<Pair>, TablesError> {
        let mut last = None;
        self.each_back(table, from, to, &mut |key, value| {
            last = Some((key.to_vec(), value.to_vec()));
            ControlFlow::Break(())
        })?;
        Ok(last)
    }

    /// Calls `f` for each key in `from..to` in order until it breaks.
    pub fn each(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        f: KeyVisitor<'_>,
    ) -> Result<(), TablesError> {
        if to.is_some_and(|to| from >= to) {
            return Ok(());
        }
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        self.read(table, (), |table| {
            let range = table.range::<&[u8]>((Bound::Included(from), end));
            self.visit(range.map_err(self.fail("reading"))?, f)
        })
    }

    /// [`Tables::each`] from the last key to the first.
    pub fn each_back(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        f: KeyVisitor<'_>,
    ) -> Result<(), TablesError> {
        if from >= to {
            return Ok(());
        }
        self.read(table, (), |table| {
            let range = table.range::<&[u8]>(from..to);
            self.visit(range.map_err(self.fail("reading"))?.rev(), f)
        })
    }

    fn visit(
        &self,
        rows: impl Iterator<Item = TableRead>,
        f: KeyVisitor<'_>,
    ) -> Result<(), TablesError> {
        for row in rows {
            let (key, value) = row.map_err(self.fail("reading"))?;
            if f(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Makes everything written so far durable, as the state after entry `applied` of the log.
    /// Entry `applied` must be durable before. An owner whose tables depend on releases calls
    /// [`Journal::checkpoint`](super::Journal::checkpoint) first.
    pub fn checkpoint(&self, applied: u64) -> Result<(), TablesError> {
        self.commit(Durability::Immediate, |batch| {
            batch.put(META, META_VERSION, &self.0.version.to_le_bytes())?;
            batch.delete(META, META_AHEAD)?;
            batch.put(META, META_APPLIED, &applied.to_le_bytes())
        })
    }

    fn commit<T>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut TableWrites<'_>) -> Result<T, TablesError>,
    ) -> Result<T, TablesError> {
        let guard = self.guard();
        let open = guard.as_ref().ok_or_else(|| self.error("writing", &"it is closed"))?;
        // a kept reader keeps redb from reusing pages
        open.forget_reading();
        let mut txn = open.database.begin_write().map_err(self.fail("writing"))?;
        // saves the allocator's state, so that opening after a crash need not scan the file
        txn.set_quick_repair(matches!(durability, Durability::Immediate));
        txn.set_durability(durability).map_err(self.fail("writing"))?;
        let mut batch =
            TableWrites { name: &self.0.name, turn: &open.turn, txn: &txn, open: Vec::new() };
        let changed = change(&mut batch);
        drop(batch);
        match changed {
            Ok(value) => {
                let committed = txn.commit();
                open.forget_reading();
                committed.map_err(self.fail("committing"))?;
                Ok(value)
            }
            Err(error) => {
                // the first failure is the one to report
                let _ = txn.abort();
                Err(error)
            }
        }
    }

    fn read<T>(
        &self,
        table: Table,
        absent: T,
        f: impl FnOnce(&OpenedTable) -> Result<T, TablesError>,
    ) -> Result<T, TablesError> {
        let guard = self.guard();
        let open = guard.as_ref().ok_or_else(|| self.error("reading", &"it is closed"))?;
        match self.reading(open, table)? {
            Some(table) => f(&table),
            None => Ok(absent),
        }
    }

    /// The table as of the last write; `None` when there is none. A writer drops the kept reader
    /// before and after its transaction. The lock is held meanwhile, so no reader opened in between
    /// is kept.
    fn reading(
        &self,
        open: &OpenTables,
        table: Table,
    ) -> Result<Option<Arc<OpenedTable>>, TablesError> {
        let mut reading = open.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, known)) = &*reading
            && *name == table
        {
            return Ok(Some(Arc::clone(known)));
        }
        let txn = open.database.begin_read().map_err(self.fail("reading"))?;
        match txn.open_table(definition(table)) {
            Ok(opened) => {
                let opened = Arc::new(opened);
                *reading = Some((table, Arc::clone(&opened)));
                Ok(Some(opened))
            }
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(self.error("reading", &error)),
        }
    }

    fn open_existing(&self) -> Result<(), TablesError> {
        let file = self.0.disk.open(&self.0.name).map_err(self.fail("opening"))?;
        if file.is_empty().map_err(self.fail("opening"))? {
            return Err(self.error("opening", &"it is empty"));
        }
        // redb may panic on a damaged file
        let installed = panic::catch_unwind(AssertUnwindSafe(|| {
            self.install(file)?;
            Ok((self.get(META, META_VERSION)?, self.get(META, META_AHEAD)?))
        }));
        let (version, ahead) = match installed {
            Ok(read) => read?,
            Err(_) => return Err(self.error("opening", &"it is damaged")),
        };
        if ahead.is_some() {
            return Err(self.error("opening", &"a checkpoint was cut off in the middle"));
        }
        if version.as_deref() == Some(&self.0.version.to_le_bytes()) {
            Ok(())
        } else {
            Err(self.error("opening", &"another build wrote it"))
        }
    }

    fn install(&self, file: Arc<dyn DiskFile>) -> Result<(), TablesError> {
        let frozen = Arc::new(AtomicBool::new(false));
        let turn = Arc::new(TimeSlice::for_later());
        let backend = Backend::new(file, Arc::clone(&frozen), Arc::clone(&turn));
        let mut builder = Database::builder();
        builder.set_cache_size(self.0.cache_bytes);
        let database = builder.create_with_backend(backend).map_err(self.fail("opening"))?;
        *self.0.open.write().unwrap_or_else(PoisonError::into_inner) =
            Some(OpenTables { reading: Mutex::default(), database, frozen, turn });
        Ok(())
    }

    fn close(&self) {
        *self.0.open.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn guard(&self) -> RwLockReadGuard<'_, Option<OpenTables>> {
        self.0.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, doing: &'static str, cause: &dyn Display) -> TablesError {
        TablesError { file: self.0.name.clone(), doing, cause: cause.to_string() }
    }

    fn fail<E: Display>(&self, doing: &'static str) -> impl Fn(E) -> TablesError + '_ {
        move |cause| self.error(doing, &cause)
    }
}

impl<'t> TableWrites<'t> {
    /// Sets a key.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), TablesError> {
        self.turn.give_way();
        let name = self.name;
        self.table(table)?.insert(key, value).map_err(|cause| failed(name, &cause))?;
        Ok(())
    }

    /// Removes a key; returns whether it was there.
    pub fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, TablesError> {
        self.turn.give_way();
        let name = self.name;
        let old = self.table(table)?.remove(key).map_err(|cause| failed(name, &cause))?;
        Ok(old.is_some())
    }

    /// Reads a key, changes of this batch included.
    pub fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        let name = self.name;
        let value = self.table(table)?.get(key).map_err(|cause| failed(name, &cause))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    /// Keys in `from..to` in order, at most `limit`, changes of this batch included.
    pub fn range(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Pairs, TablesError> {
        let name = self.name;
        let mut found = Vec::new();
        if from >= to {
            return Ok(found);
        }
        let range = self.table(table)?.range(from..to).map_err(|cause| failed(name, &cause))?;
        for item in range.take(limit) {
            let (key, value) = item.map_err(|cause| failed(name, &cause))?;
            found.push((key.value().to_vec(), value.value().to_vec()));
        }
        Ok(found)
    }

    /// The greatest key below `to` that is at least `from`, changes of this batch included.
    pub fn last_before(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
    ) -> Result<Option<Pair>, TablesError> {
        let name = self.name;
        if from >= to {
            return Ok(None);
        }
        let mut range = self.table(table)?.range(from..to).map_err(|cause| failed(name, &cause))?;
        let Some(last) = range.next_back() else { return Ok(None) };
        let (key, value) = last.map_err(|cause| failed(name, &cause))?;
        Ok(Some((key.value().to_vec(), value.value().to_vec())))
    }

    fn table(&mut self, table: Table) -> Result<&mut Writable<'t>, TablesError> {
        let at = self.open.iter().position(|(name, _)| *name == table.0);
        let at = if let Some(at) = at {
            at
        } else {
            let opened = self.txn.open_table(definition(table));
            self.open.push((table.0, opened.map_err(|cause| failed(self.name, &cause))?));
            self.open.len() - 1
        };
        let found = self.open.get_mut(at).map(|(_, table)| table);
        found.ok_or_else(|| failed(self.name, &"its table is gone"))
    }
}

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.0)
}

fn failed(name: &str, cause: &dyn Display) -> TablesError {
    TablesError { file: name.to_owned(), doing: "writing", cause: cause.to_string() }
}
