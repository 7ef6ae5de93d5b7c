//! The directory operations that the journal needs, so that tests can cut the power at any of them.

pub(super) mod data_directory;
#[cfg(test)]
#[path = "../../../tests/support/mem_disk.rs"]
pub(super) mod mem_disk;
mod mounts;
pub(super) mod real_disk;

use std::io;
use std::sync::Arc;

/// A flat directory of files. Names have at most one folder (`quarantine/x`). Creations, renames
/// and removals survive a power cut only after [`Disk::sync_dir`].
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Creates a file for reading and writing; an existing file of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing; `NotFound` when there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Names of the files in the directory itself, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Renames, replacing a file that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes; `NotFound` when there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all creations, renames and removals so far durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Bytes this process may still write to the file system.
    fn free_bytes(&self) -> io::Result<u64>;
    /// A number that no earlier segment of this directory has (random on a real disk).
    fn fresh_epoch(&self) -> u64;
    /// The path of the directory, for error messages.
    fn describe(&self) -> String;
}

/// Whether a removal leaves no file of that name.
pub(super) fn is_gone(removed: &io::Result<()>) -> bool {
    removed.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// An open file; used from several threads at once.
pub trait DiskFile: Send + Sync + std::fmt::Debug {
    /// Writes all of `data` at `offset`; the file grows as needed.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset` and makes these bytes durable; other bytes only where the
    /// system has no narrower sync.
    fn write_durable_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)?;
        self.sync_data()
    }
    /// Fills `out` from `offset`; `UnexpectedEof` when the file ends before.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Makes contents and length durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or lengthens it with zeros, to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
}
