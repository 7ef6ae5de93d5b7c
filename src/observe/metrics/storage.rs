//! The journal: how long it takes, how much it holds, what went wrong.

use super::{Metrics, float, names};

impl Metrics {
    /// Entries were written `seconds` after they were handed over.
    pub fn journal_append(&self, seconds: f64) {
        self.observe(&names::JOURNAL_APPEND, &[], seconds);
    }

    /// One fdatasync took `seconds`.
    pub fn journal_fsync(&self, seconds: f64) {
        self.observe(&names::JOURNAL_FSYNC, &[], seconds);
    }

    /// Size of all segments, their number, and the free space of the file system.
    pub fn set_journal_size(&self, bytes: u64, segments: u64, disk_free_bytes: u64) {
        self.set(&names::JOURNAL_BYTES, &[], float(bytes));
        self.set(&names::JOURNAL_SEGMENTS, &[], float(segments));
        self.set(&names::JOURNAL_DISK_FREE, &[], float(disk_free_bytes));
    }

    /// A write or fdatasync failed.
    pub fn journal_write_error(&self) {
        self.add(&names::JOURNAL_WRITE_ERRORS, &[], 1);
    }

    /// A long-lived thread or task ended by a panic.
    pub fn panicked(&self, thread: &str) {
        self.add(&names::PANICS, &[thread], 1);
    }

    /// What the recovery at start found: its duration and the bytes of a torn end that were cut.
    pub fn journal_recovered(&self, seconds: f64, truncated_bytes: u64) {
        self.set(&names::JOURNAL_RECOVERY, &[], seconds);
        self.add(&names::JOURNAL_TRUNCATED, &[], truncated_bytes);
    }
}
