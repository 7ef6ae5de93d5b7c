//! The room that new records lack on the disk.

use crate::journal::{AppendError, Journal};

/// Whether new records are refused because the disk is full.
pub(super) fn is_full(journal: &Journal) -> bool {
    shortage(journal).is_some()
}

/// The free space that new records lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) needed_bytes: u64,
    /// Not below the need when a quota or the limit of open files is the cause.
    pub(super) free_bytes: u64,
}

/// `None`: the disk has room, whether or not records are refused for another reason.
pub(super) fn shortage(journal: &Journal) -> Option<Shortage> {
    if let Err(AppendError::DiskFull { free_bytes, needed_bytes }) = journal.admits() {
        return Some(Shortage { needed_bytes, free_bytes });
    }
    let stats = journal.stats();
    let waiting = Shortage { needed_bytes: stats.queued_bytes, free_bytes: stats.disk_free };
    stats.disk_full.then_some(waiting)
}
