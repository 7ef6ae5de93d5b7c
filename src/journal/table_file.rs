//! The file below tables.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{DiskFile, Turn};

/// Of the disk. What a checkpoint has to wait for, the log waits for as well, because a disk tells
/// that everything is durable, not whose: less than a millisecond at a time.
const UNSYNCED_BYTES_MAX: usize = 1 << 20;

/// What redb reads and writes.
#[derive(Debug)]
pub(super) struct Backend {
    file: Arc<dyn DiskFile>,
    /// Nothing is written any more.
    frozen: Arc<AtomicBool>,
    /// A commit writes thousands of pages without a pause.
    turn: Arc<Turn>,
    unsynced_bytes: AtomicUsize,
}

impl Backend {
    pub(super) fn new(file: Arc<dyn DiskFile>, frozen: Arc<AtomicBool>, turn: Arc<Turn>) -> Self {
        Self { file, frozen, turn, unsynced_bytes: AtomicUsize::new(0) }
    }

    fn check(&self) -> io::Result<()> {
        if self.frozen.load(Ordering::Acquire) {
            return Err(io::Error::other("closed"));
        }
        Ok(())
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.turn.give_way();
        self.file.write_at(offset, data)?;
        let before = self.unsynced_bytes.fetch_add(data.len(), Ordering::Relaxed);
        if before.saturating_add(data.len()) < UNSYNCED_BYTES_MAX {
            return Ok(());
        }
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redb::StorageBackend;

    use super::*;

    /// Counts what lies in a file that is not durable yet.
    #[derive(Debug, Default)]
    struct Counting {
        unsynced: AtomicUsize,
        most: AtomicUsize,
    }

    impl DiskFile for Counting {
        fn write_at(&self, _: u64, data: &[u8]) -> io::Result<()> {
            let before = self.unsynced.fetch_add(data.len(), Ordering::Relaxed);
            self.most.fetch_max(before + data.len(), Ordering::Relaxed);
            Ok(())
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            self.unsynced.store(0, Ordering::Relaxed);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_checkpoint_never_waits_for_more_than_a_piece_and_a_closed_file_stays_as_it_is() {
        let (file, frozen) = (Arc::new(Counting::default()), Arc::new(AtomicBool::new(false)));
        let disk: Arc<dyn DiskFile> = Arc::<Counting>::clone(&file);
        let turn = Arc::new(Turn::of(Duration::ZERO));
        let backend = Backend::new(disk, Arc::clone(&frozen), turn);
        for page in 0..2000 {
            backend.write(page << 12, &[0; 4096]).unwrap();
        }
        let most = file.most.load(Ordering::Relaxed);
        assert!((UNSYNCED_BYTES_MAX / 2..=UNSYNCED_BYTES_MAX).contains(&most), "{most}");
        let unsynced = file.unsynced.load(Ordering::Relaxed);
        assert!(0 < unsynced && unsynced < UNSYNCED_BYTES_MAX, "{unsynced}");
        backend.sync_data().unwrap();
        assert_eq!(file.unsynced.load(Ordering::Relaxed), 0);
        frozen.store(true, Ordering::Release);
        backend.write(0, &[0; 4096]).unwrap_err();
        backend.sync_data().unwrap_err();
        assert_eq!(file.unsynced.load(Ordering::Relaxed), 0);
    }
}
