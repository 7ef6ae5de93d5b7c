//! A disk in memory that loses power, fails and fills up on demand, deterministically by seed.
//!
//! The unit tests of the library include this file too: the module above has the traits.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(unreachable_pub, reason = "the same file is a module of several test binaries")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// Unit of a torn write: whole sectors survive.
const SECTOR_BYTES: usize = 512;

/// A simulated disk; clones share it.
#[derive(Clone, Debug)]
pub struct MemDisk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    files: BTreeMap<u64, FileState>,
    next_file: u64,
    /// Boot in which the handle was opened; handles of an earlier boot are dead.
    boot: u64,
    random: u64,
    epochs: u64,
    operations: u64,
    syncs: u64,
    read_bytes: u64,
    fail_at: Option<u64>,
    cut_at: Option<u64>,
    fail_sync_at: Option<u64>,
    capacity: Option<u64>,
    /// File whose reads fail.
    unreadable: Option<u64>,
}

#[derive(Debug, Default)]
struct FileState {
    data: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<FileChange>,
}

#[derive(Debug)]
enum FileChange {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Debug)]
enum NameChange {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug)]
struct MemMount {
    disk: MemDisk,
    boot: u64,
}

#[derive(Debug)]
struct MemFile {
    disk: MemDisk,
    boot: u64,
    file: u64,
}

impl MemDisk {
    /// An empty disk; `seed` decides which unsynced writes a power cut keeps.
    pub fn new(seed: u64) -> Self {
        let random = seed ^ 0x9e37_79b9_7f4a_7c15;
        Self(Arc::new(Mutex::new(Platter { random, ..Platter::default() })))
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        let boot = self.platter().boot;
        Arc::new(MemMount { disk: self.clone(), boot })
    }

    /// Drops what was not synced: each unsynced write is kept, lost or torn. Open handles die.
    pub fn power_cut(&self) {
        self.platter().power_cut();
    }

    /// Ends the process while the machine stays up: written bytes stay, open handles die.
    pub fn process_crash(&self) {
        self.platter().boot += 1;
    }

    /// Fails the n-th next operation that changes the disk (1 = the very next) with an I/O error.
    pub fn fail_nth(&self, n: u64) {
        let mut platter = self.platter();
        platter.fail_at = Some(platter.operations + n);
    }

    /// Cuts the power in the middle of the n-th next operation that changes the disk.
    pub fn power_cut_at(&self, n: u64) {
        let mut platter = self.platter();
        platter.cut_at = Some(platter.operations + n);
    }

    /// Fails the n-th next fdatasync. Its data can be read, and the next fdatasync does not write
    /// it again, as on Linux.
    pub fn fail_nth_sync(&self, n: u64) {
        let mut platter = self.platter();
        platter.fail_sync_at = Some(platter.syncs + n);
    }

    /// Fails every read of this file, as on a bad sector; `None` ends that.
    pub fn fail_reads(&self, name: Option<&str>) {
        let mut platter = self.platter();
        platter.unreadable = name.and_then(|name| platter.names.get(name).copied());
    }

    /// Sets the capacity in bytes; `None` = no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.platter().capacity = bytes;
    }

    /// Number of operations that have changed the disk.
    pub fn operations(&self) -> u64 {
        self.platter().operations
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.platter().read_bytes
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.platter().used()
    }

    /// Contents of a file; `None` when there is no such file.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let platter = self.platter();
        let file = platter.names.get(name)?;
        platter.files.get(file).map(|state| state.data.clone())
    }

    /// Writes a whole file, durably.
    pub fn plant(&self, name: &str, data: &[u8]) {
        let mut platter = self.platter();
        let id = platter.new_file(name);
        let state = FileState { data: data.to_vec(), durable: data.to_vec(), unsynced: Vec::new() };
        platter.files.insert(id, state);
        platter.durable_names.insert(name.to_owned(), id);
    }

    /// Flips a bit where a file has this text, visible to open handles too; returns whether the
    /// text was found.
    pub fn damage(&self, name: &str, text: &[u8]) -> bool {
        let mut platter = self.platter();
        let Some(id) = platter.names.get(name).copied() else { return false };
        let Some(file) = platter.files.get_mut(&id) else { return false };
        let at = file.data.windows(text.len()).position(|part| part == text);
        let byte = at.and_then(|at| file.data.get_mut(at));
        byte.map(|byte| *byte ^= 1).is_some()
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mounted(&self, boot: u64) -> io::Result<MutexGuard<'_, Platter>> {
        let platter = self.platter();
        if platter.boot == boot { Ok(platter) } else { Err(io::Error::other("the power was cut")) }
    }
}

impl Platter {
    fn used(&self) -> u64 {
        let named = self.names.values().filter_map(|id| self.files.get(id));
        named.map(|file| u64::try_from(file.data.len()).unwrap_or(0)).sum()
    }

    fn new_file(&mut self, name: &str) -> u64 {
        self.next_file += 1;
        self.names.insert(name.to_owned(), self.next_file);
        self.files.insert(self.next_file, FileState::default());
        self.next_file
    }

    /// Random number below `bound` (xorshift64*).
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).unwrap_or(0) % bound.max(1)
    }

    /// Counts a changing operation; fails it when it is the chosen one.
    fn count(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.fail_at == Some(self.operations) {
            return Err(io::Error::other("simulated failure"));
        }
        Ok(())
    }

    /// Cuts the power after an operation when it is the chosen one.
    fn after(&mut self) -> io::Result<()> {
        if self.cut_at == Some(self.operations) {
            self.power_cut();
            return Err(io::Error::other("the power was cut"));
        }
        Ok(())
    }

    fn power_cut(&mut self) {
        self.boot += 1;
        let changes = mem::take(&mut self.name_changes);
        let kept = self.below(changes.len() + 1);
        for change in changes.into_iter().take(kept) {
            apply_name(&mut self.durable_names, change);
        }
        self.names = self.durable_names.clone();
        let ids: Vec<u64> = self.files.keys().copied().collect();
        for id in ids {
            let Some(mut state) = self.files.remove(&id) else { continue };
            if !self.names.values().any(|named| *named == id) {
                continue;
            }
            for change in mem::take(&mut state.unsynced) {
                let fate = self.below(3);
                match change {
                    _ if fate == 0 => {}
                    FileChange::Write(at, mut bytes) => {
                        if fate == 1 {
                            let sectors = bytes.len() / SECTOR_BYTES + 1;
                            let keep = self.below(sectors + 1) * SECTOR_BYTES;
                            let torn = if sectors > 1 { keep } else { self.below(bytes.len()) };
                            bytes.truncate(torn);
                        }
                        write_into(&mut state.durable, at, &bytes);
                    }
                    FileChange::SetLen(len) => set_len(&mut state.durable, len),
                }
            }
            state.data.clone_from(&state.durable);
            self.files.insert(id, state);
        }
    }
}

fn apply_name(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Create(name, file) => {
            names.insert(name, file);
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

/// Extends with zeros. `Vec::resize` is slow in unoptimized builds, and simulations grow files all
/// the time.
fn set_len(data: &mut Vec<u8>, len: usize) {
    match len.checked_sub(data.len()) {
        Some(more) => data.append(&mut vec![0; more]),
        None => data.truncate(len),
    }
}

fn write_into(data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = at + bytes.len();
    if data.len() < end {
        set_len(data, end);
    }
    if let Some(slot) = data.get_mut(at..end) {
        slot.copy_from_slice(bytes);
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("no file {name}"))
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Disk for MemMount {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        if let Some(old) = platter.names.remove(name) {
            // emptied in place, as O_TRUNC does
            if let Some(state) = platter.files.get_mut(&old) {
                state.data.clear();
                state.unsynced.push(FileChange::SetLen(0));
            }
            platter.names.insert(name.to_owned(), old);
            platter.after()?;
            return Ok(Arc::new(MemFile { disk: self.disk.clone(), boot: self.boot, file: old }));
        }
        let file = platter.new_file(name);
        platter.name_changes.push(NameChange::Create(name.to_owned(), file));
        platter.after()?;
        Ok(Arc::new(MemFile { disk: self.disk.clone(), boot: self.boot, file }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let platter = self.disk.mounted(self.boot)?;
        let file = *platter.names.get(name).ok_or_else(|| not_found(name))?;
        Ok(Arc::new(MemFile { disk: self.disk.clone(), boot: self.boot, file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let platter = self.disk.mounted(self.boot)?;
        Ok(platter.names.keys().filter(|name| !name.contains('/')).cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        let file = platter.names.remove(from).ok_or_else(|| not_found(from))?;
        platter.names.insert(to.to_owned(), file);
        platter.name_changes.push(NameChange::Rename(from.to_owned(), to.to_owned()));
        platter.after()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        platter.names.remove(name).ok_or_else(|| not_found(name))?;
        platter.name_changes.push(NameChange::Remove(name.to_owned()));
        platter.after()
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        for change in mem::take(&mut platter.name_changes) {
            apply_name(&mut platter.durable_names, change);
        }
        let named: BTreeSet<u64> = platter.names.values().copied().collect();
        platter.files.retain(|id, _| named.contains(id));
        platter.after()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let platter = self.disk.mounted(self.boot)?;
        Ok(platter.capacity.map_or(u64::MAX / 2, |most| most.saturating_sub(platter.used())))
    }

    fn fresh_epoch(&self) -> u64 {
        let mut platter = self.disk.platter();
        platter.epochs += 1;
        platter.epochs.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl MemFile {
    /// Makes writes to a range durable; all writes when a length changed, because that orders the
    /// writes around it.
    fn sync(&self, bytes: Range<usize>) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        platter.syncs += 1;
        let fails = platter.fail_sync_at == Some(platter.syncs);
        let state = platter.files.get_mut(&self.file).ok_or_else(|| not_found("open"))?;
        let is_len = |change: &FileChange| matches!(change, FileChange::SetLen(_));
        let whole = state.unsynced.iter().any(is_len);
        let (synced, unsynced) = mem::take(&mut state.unsynced).into_iter().partition::<Vec<_>, _>(
            |change| match change {
                FileChange::Write(at, data) if !whole => {
                    *at < bytes.end && bytes.start < at.saturating_add(data.len())
                }
                _ => true,
            },
        );
        state.unsynced = unsynced;
        if fails {
            // the file system keeps a new length by itself
            state.unsynced.extend(synced.into_iter().filter(is_len));
            return Err(io::Error::other("simulated fdatasync failure"));
        }
        for change in synced {
            match change {
                FileChange::Write(at, bytes) => write_into(&mut state.durable, at, &bytes),
                FileChange::SetLen(len) => set_len(&mut state.durable, len),
            }
        }
        platter.after()
    }
}

impl DiskFile for MemFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        let free = platter.capacity.map(|most| place(most.saturating_sub(platter.used())));
        let state = platter.files.get_mut(&self.file).ok_or_else(|| not_found("open"))?;
        let at = place(offset);
        let growth = (at + data.len()).saturating_sub(state.data.len());
        let lacking = free.map_or(0, |free| growth.saturating_sub(free)).min(data.len());
        let fits = data.get(..data.len() - lacking).unwrap_or_default();
        write_into(&mut state.data, at, fits);
        state.unsynced.push(FileChange::Write(at, fits.to_vec()));
        platter.after()?;
        if lacking > 0 {
            return Err(io::Error::new(ErrorKind::StorageFull, "simulated full disk"));
        }
        Ok(())
    }

    fn write_durable_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)?;
        let from = place(offset);
        self.sync(from..from.saturating_add(data.len()))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        if platter.unreadable == Some(self.file) {
            return Err(io::Error::other("simulated bad sector"));
        }
        let state = platter.files.get(&self.file).ok_or_else(|| not_found("open"))?;
        let from = place(offset);
        let end = from.saturating_add(out.len());
        let bytes = state.data.get(from..end).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        platter.read_bytes += u64::try_from(out.len()).unwrap_or(0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(0..usize::MAX)
    }

    fn len(&self) -> io::Result<u64> {
        let platter = self.disk.mounted(self.boot)?;
        let state = platter.files.get(&self.file).ok_or_else(|| not_found("open"))?;
        Ok(u64::try_from(state.data.len()).unwrap_or(u64::MAX))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut platter = self.disk.mounted(self.boot)?;
        platter.count()?;
        let used = platter.used();
        let capacity = platter.capacity;
        let state = platter.files.get_mut(&self.file).ok_or_else(|| not_found("open"))?;
        let growth = len.saturating_sub(u64::try_from(state.data.len()).unwrap_or(0));
        if capacity.is_some_and(|most| growth > most.saturating_sub(used)) {
            return Err(io::Error::new(ErrorKind::StorageFull, "simulated full disk"));
        }
        set_len(&mut state.data, place(len));
        state.unsynced.push(FileChange::SetLen(place(len)));
        platter.after()
    }
}
