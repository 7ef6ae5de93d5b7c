//! Logs when the disk has no room for new records, and when there is room again.

use std::sync::Arc;
use std::time::Duration;

use crate::journal::{Journal, Shortage};
use crate::model::MonoMs;
use crate::route::Router;

/// Time between two checks. A check costs a lock, and a statvfs only on a nearly full disk.
const LOOK: Duration = Duration::from_millis(500);
/// Time with room after which the shortage is over: clients soon fill the room that compaction
/// frees.
const ROOM_MS: u64 = 5_000;

/// The state of the disk as it was last logged.
#[derive(Debug, Default)]
struct DiskRoom {
    full_since: Option<MonoMs>,
    room_since: Option<MonoMs>,
}

/// A change that is logged.
#[derive(Debug, PartialEq, Eq)]
enum RoomChange {
    Full(Shortage),
    /// Room again, after so many milliseconds.
    Room(u64),
}

impl DiskRoom {
    fn look(&mut self, now: MonoMs, shortage: Option<Shortage>) -> Option<RoomChange> {
        if let Some(shortage) = shortage {
            self.room_since = None;
            let is_new = self.full_since.is_none();
            self.full_since.get_or_insert(now);
            return is_new.then_some(RoomChange::Full(shortage));
        }
        let since = self.full_since?;
        let room_since = *self.room_since.get_or_insert(now);
        if now.since(room_since) < ROOM_MS {
            return None;
        }
        *self = Self::default();
        Some(RoomChange::Room(room_since.since(since)))
    }
}

/// Runs for as long as the server does, apart from all tasks that may wait for the disk.
pub(super) async fn run(journal: Journal, router: Arc<Router>, data_dir: String) {
    let mut room = DiskRoom::default();
    while journal.poisoned().is_none() {
        let shortage = journal.shortage();
        router.metrics.set_degraded("disk_full", shortage.is_some());
        if let Some(change) = room.look(router.clock.now().mono, shortage) {
            tell(&change, &data_dir);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn tell(change: &RoomChange, data_dir: &str) {
    match *change {
        RoomChange::Full(Shortage { needed_bytes, free_bytes }) if free_bytes < needed_bytes => {
            tracing::error!(
                data_dir,
                needed_bytes,
                free_bytes,
                "R0501 disk full: Produce and nacks are refused with KAFKA_STORAGE_ERROR, commits \
                 with COORDINATOR_NOT_AVAILABLE; clients try again and nothing is lost. Make room \
                 on the disk of data_dir: reprise goes on by itself"
            );
        }
        RoomChange::Full(Shortage { needed_bytes, free_bytes }) => tracing::error!(
            data_dir,
            needed_bytes,
            free_bytes,
            "R0502 the disk takes no more though it has room: Produce and nacks are refused with \
             KAFKA_STORAGE_ERROR, commits with COORDINATOR_NOT_AVAILABLE; clients try again and \
             nothing is lost. Raise the quota, or the limit of open files"
        ),
        RoomChange::Room(full_ms) => tracing::info!(
            data_dir,
            full_ms,
            "the disk has room again: Produce, nacks and commits are taken"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk};

    const SHORT: Shortage = Shortage { needed_bytes: 9, free_bytes: 1 };

    #[test]
    fn a_full_disk_and_its_end_are_reported_once() {
        let mut room = DiskRoom::default();
        let mut told = Vec::new();
        for second in 0..60 {
            // Full from second 10 on, with room for a moment at 15 and 22, and for good from 30 on.
            let is_full = (10..30).contains(&second) && second != 15 && second != 22;
            let change = room.look(MonoMs(second * 1_000), is_full.then_some(SHORT));
            told.extend(change.map(|change| (second, change)));
        }
        assert_eq!(told, [(10, RoomChange::Full(SHORT)), (35, RoomChange::Room(20_000))]);
    }

    #[test]
    fn the_required_room_is_reserve_plus_one_largest_batch() {
        let disk = MemDisk::new(1);
        let config = JournalOptions { segment_bytes: 64 << 10, ..JournalOptions::default() };
        let (journal, _writer, _) = Journal::open(disk.disk(), config).unwrap();
        assert_eq!(journal.shortage(), None);
        disk.set_capacity(Some(disk.used_bytes() + 1_000));
        let needed_bytes = (64 << 10) + (1 << 20);
        journal.housekeeper().step().unwrap();
        let short = journal.shortage().unwrap();
        assert_eq!(short.needed_bytes, needed_bytes);
        assert!(short.free_bytes <= 1_000, "{short:?}");
        disk.set_capacity(None);
        journal.housekeeper().step().unwrap();
        assert_eq!(journal.shortage(), None);
    }
}
