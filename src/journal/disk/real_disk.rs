//! A directory of the operating system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::journal::segment::LOCK_NAME;
use crate::journal::{Disk, DiskFile, OpenError};

/// A data directory, locked by this process.
#[derive(Debug)]
pub struct RealDisk {
    dir: PathBuf,
    /// The lock; released when the disk is dropped.
    _lock: File,
}

#[derive(Debug)]
struct RealFile(File);

impl RealDisk {
    /// Opens the directory, creates it if missing, and locks it against a second process.
    pub fn open(dir: &Path) -> Result<Arc<dyn Disk>, OpenError> {
        let name = || dir.display().to_string();
        fs::create_dir_all(dir).map_err(|source| OpenError::Missing { dir: name(), source })?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join(LOCK_NAME))
            .map_err(|source| open_error(name(), "opening its lock file", source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Arc::new(Self { dir: dir.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: name() }),
            Err(TryLockError::Error(source)) => Err(open_error(name(), "locking it", source)),
        }
    }
}

/// Maps an I/O error while opening to the error that tells the user what to do.
pub(in crate::journal) fn open_error(
    dir: String,
    doing: &'static str,
    source: io::Error,
) -> OpenError {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { dir, source }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { dir },
        _ => OpenError::Io { dir, doing, source },
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.dir.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn fresh_epoch(&self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().0
    }

    fn describe(&self) -> String {
        self.dir.display().to_string()
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_durable_at(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let parts = [io::IoSlice::new(data)];
            let written = match pwritev2(&self.0, &parts, offset, ReadWriteFlags::DSYNC) {
                Err(Errno::INTR) => continue,
                // not every file system supports the flag
                Err(Errno::OPNOTSUPP) => {
                    self.write_at(offset, data)?;
                    return self.sync_data();
                }
                Err(error) => return Err(error.into()),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
            };
            data = data.get(written..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}
