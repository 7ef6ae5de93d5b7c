//! The file under the tables, as a storage backend of redb.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::journal::{DiskFile, TimeSlice};

/// Bytes of the file that one sync makes durable. Large syncs would delay the log: a disk flushes
/// everything written to it. Dirty pages are scattered, and a disk needs as long for one page as
/// for sixteen in a row.
const PIECE_BYTES: u64 = 64 << 10;
/// Time limit for syncing piece by piece. A slower disk syncs the rest at once, because changes in
/// memory wait for the checkpoint.
const PIECES_MAX: Duration = Duration::from_millis(500);

/// The storage backend of a redb database.
#[derive(Debug)]
pub(super) struct Backend {
    file: Arc<dyn DiskFile>,
    /// Refuses all further writes.
    frozen: Arc<AtomicBool>,
    /// Limits how long a commit, which writes thousands of pages, runs without yielding.
    turn: Arc<TimeSlice>,
    clock: Clock,
    pieces: Mutex<PieceNumbers>,
    laid_down: Condvar,
}

/// Numbers of pieces. Any thread may write at any time, even while the file grows: a reader whose
/// cache is full evicts dirty pages to the file.
#[derive(Debug, Default)]
struct PieceNumbers {
    /// Pieces written since they were last made durable.
    unsynced: BTreeSet<u64>,
    /// The piece being read and written back: a write to it in between would be undone.
    in_hand: Option<u64>,
    /// Number of threads that wait for that write-back.
    waiting: usize,
}

impl Backend {
    pub(in crate::journal) fn new(
        file: Arc<dyn DiskFile>,
        frozen: Arc<AtomicBool>,
        turn: Arc<TimeSlice>,
    ) -> Self {
        let clock = Clock::start();
        let (pieces, laid_down) = (Mutex::default(), Condvar::new());
        Self { file, frozen, turn, clock, pieces, laid_down }
    }

    fn check(&self) -> io::Result<()> {
        if self.frozen.load(Ordering::Acquire) {
            return Err(io::Error::other("closed"));
        }
        Ok(())
    }

    fn pieces(&self) -> MutexGuard<'_, PieceNumbers> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no piece of `wanted` is being written back. None starts while the guard is held.
    fn untouched(&self, wanted: Range<u64>) -> MutexGuard<'_, PieceNumbers> {
        let mut pieces = self.pieces();
        while pieces.in_hand.is_some_and(|piece| wanted.contains(&piece)) {
            pieces.waiting += 1;
            pieces = self.laid_down.wait(pieces).unwrap_or_else(PoisonError::into_inner);
            pieces.waiting -= 1;
        }
        pieces
    }

    /// Makes a piece durable. Writes to other pieces do not wait for it.
    fn sync_piece(&self, piece: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.untouched(0..u64::MAX).in_hand = Some(piece);
        let synced = self.write_back(piece, buffer);
        let mut pieces = self.pieces();
        pieces.in_hand = None;
        if pieces.waiting > 0 {
            self.laid_down.notify_all();
        }
        synced
    }

    /// Reads a piece and writes it again durably.
    fn write_back(&self, piece: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = piece.saturating_mul(PIECE_BYTES);
        let size = self.file.len()?.saturating_sub(from).min(PIECE_BYTES);
        let bytes = buffer.get_mut(..usize::try_from(size).unwrap_or(0)).unwrap_or_default();
        self.file.read_at(from, bytes)?;
        self.file.write_durable_at(from, bytes)
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
        // a piece being written back may lie in the part that is cut off
        let _pieces = self.untouched(0..u64::MAX);
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        let mut pieces = std::mem::take(&mut self.pieces().unsynced);
        // the final sync covers the last piece with the rest of the file
        pieces.pop_last();
        let mut buffer = vec![0; usize::try_from(PIECE_BYTES).unwrap_or(0)];
        let most = self.clock.elapsed().saturating_add(PIECES_MAX);
        for piece in pieces {
            if self.clock.elapsed() > most {
                break;
            }
            self.sync_piece(piece, &mut buffer)?;
            self.turn.give_way();
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.turn.give_way();
        let end = offset.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        let touched = offset / PIECE_BYTES..end.div_ceil(PIECE_BYTES);
        let mut pieces = self.untouched(touched.clone());
        self.file.write_at(offset, data)?;
        pieces.unsynced.extend(touched);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, OnceLock, Weak};
    use std::thread;

    use redb::StorageBackend;

    use super::*;
    use crate::clock::Hand;
    use crate::model::WallMs;

    const PAGE_BYTES: usize = 4096;

    /// Milliseconds that a slow disk needs for a piece.
    const SLOW_MS: u64 = 10;

    /// A file that counts syncs; a slow one advances the clock.
    #[derive(Debug, Default)]
    struct Counting(Mutex<Pages>, Option<Hand>);

    #[derive(Debug, Default)]
    struct Pages {
        unsynced: BTreeSet<u64>,
        /// Most pages made durable at once.
        most: usize,
        /// Pages of the file.
        count: u64,
    }

    impl Counting {
        fn pages(offset: u64, data: &[u8]) -> std::ops::Range<u64> {
            let first = offset / 4096;
            first..first + u64::try_from(data.len().div_ceil(PAGE_BYTES)).unwrap()
        }

        fn sync(&self, pages: std::ops::Range<u64>) {
            let mut known = self.0.lock().unwrap();
            let before = known.unsynced.len();
            known.unsynced.retain(|page| !pages.contains(page));
            known.most = known.most.max(before - known.unsynced.len());
        }

        fn unsynced(&self) -> usize {
            self.0.lock().unwrap().unsynced.len()
        }
    }

    impl DiskFile for Counting {
        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let mut known = self.0.lock().unwrap();
            let pages = Self::pages(offset, data);
            known.count = known.count.max(pages.end);
            known.unsynced.extend(pages);
            Ok(())
        }

        fn write_durable_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            if let Some(hand) = self.1 {
                hand.advance(SLOW_MS);
            }
            self.sync(Self::pages(offset, data));
            Ok(())
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let within = Self::pages(offset, out).end <= self.0.lock().unwrap().count;
            if within { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        }

        fn sync_data(&self) -> io::Result<()> {
            self.sync(0..u64::MAX);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().count * 4096)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock().unwrap().count = len / 4096;
            Ok(())
        }
    }

    /// The clock stands still: on a busy machine every disk would be slow.
    fn backend() -> (Arc<Counting>, Backend) {
        over(Counting::default(), Clock::told(WallMs(0)).0)
    }

    fn over(file: Counting, clock: Clock) -> (Arc<Counting>, Backend) {
        let file = Arc::new(file);
        let disk: Arc<dyn DiskFile> = Arc::<Counting>::clone(&file);
        let turn = Arc::new(TimeSlice::of(Duration::ZERO));
        (file, Backend { clock, ..Backend::new(disk, Arc::default(), turn) })
    }

    #[test]
    fn a_checkpoint_syncs_bounded_pieces_and_finally_everything() {
        let (file, backend) = backend();
        for n in 0..2000 {
            backend.write((n * 7919 % 10_007) << 12, &[0; PAGE_BYTES]).unwrap();
        }
        // across the border of two pieces, and in a piece that is cut off
        backend.write((20_000 << 12) + PIECE_BYTES - 4096, &[0; 2 * PAGE_BYTES]).unwrap();
        assert_eq!(file.unsynced(), 2002);
        backend.sync_data().unwrap();
        let most = file.0.lock().unwrap().most;
        assert!((2..=16).contains(&most), "{most}");
        assert_eq!(file.unsynced(), 0);
        for page in [0, 16, 32] {
            backend.write(page << 12, &[0; PAGE_BYTES]).unwrap();
        }
        backend.set_len(17 << 12).unwrap();
        backend.sync_data().unwrap();
        assert_eq!(file.unsynced(), 0);
    }

    #[test]
    fn a_slow_disk_makes_the_rest_durable_at_once() {
        let (clock, hand) = Clock::told(WallMs(0));
        let (file, backend) = over(Counting(Mutex::default(), Some(hand)), clock);
        for piece in 0..400 {
            backend.write(piece * PIECE_BYTES, &[0; PAGE_BYTES]).unwrap();
        }
        backend.sync_data().unwrap();
        let took = u128::from(SLOW_MS)..=PIECES_MAX.as_millis() + u128::from(SLOW_MS);
        assert!(took.contains(&clock.elapsed().as_millis()), "{:?}", clock.elapsed());
        assert!(file.0.lock().unwrap().most > 300);
        assert_eq!(file.unsynced(), 0);
    }

    /// A file that a second thread writes to when a piece of it has been read.
    #[derive(Debug)]
    struct Overtaken {
        bytes: Mutex<Vec<u8>>,
        wrote: AtomicBool,
        read: Barrier,
        backend: OnceLock<Weak<Backend>>,
    }

    impl Overtaken {
        fn waited_for(&self) -> bool {
            let backend = self.backend.get().and_then(Weak::upgrade).unwrap();
            backend.pieces().waiting > 0
        }
    }

    impl DiskFile for Overtaken {
        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let at = usize::try_from(offset).unwrap();
            self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
            self.wrote.store(true, Ordering::Release);
            Ok(())
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let at = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.bytes.lock().unwrap()[at..at + out.len()]);
            self.wrote.store(false, Ordering::Release);
            self.read.wait();
            while !self.wrote.load(Ordering::Acquire) && !self.waited_for() {
                thread::yield_now();
            }
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(2 * PIECE_BYTES)
        }

        fn set_len(&self, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn concurrent_writes_to_a_syncing_piece_are_kept() {
        let file = Arc::new(Overtaken {
            bytes: Mutex::new(vec![0; 2 * usize::try_from(PIECE_BYTES).unwrap()]),
            wrote: AtomicBool::new(false),
            read: Barrier::new(2),
            backend: OnceLock::new(),
        });
        let disk: Arc<dyn DiskFile> = Arc::<Overtaken>::clone(&file);
        let turn = Arc::new(TimeSlice::of(Duration::ZERO));
        let backend = Arc::new(Backend::new(disk, Arc::default(), turn));
        file.backend.set(Arc::downgrade(&backend)).unwrap();
        backend.write(0, &[1; PAGE_BYTES]).unwrap();
        backend.write(PIECE_BYTES, &[1; PAGE_BYTES]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                file.read.wait();
                backend.write(4096, &[2; PAGE_BYTES]).unwrap();
            });
            backend.sync_data().unwrap();
        });
        let bytes = file.bytes.lock().unwrap();
        assert_eq!((bytes[0], bytes[PAGE_BYTES]), (1, 2));
    }

    #[test]
    fn a_closed_file_stays_as_it_is() {
        let (file, backend) = backend();
        backend.write(0, &[0; PAGE_BYTES]).unwrap();
        backend.frozen.store(true, Ordering::Release);
        backend.write(4096, &[0; PAGE_BYTES]).unwrap_err();
        backend.sync_data().unwrap_err();
        assert_eq!(file.unsynced(), 1);
    }
}
