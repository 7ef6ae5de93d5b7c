//! The store's interface to the log: to release entries, and to check whether they exist.

use crate::journal::{EntryRef, Journal};

/// A stored [`EntryRef`]: sequence number, length.
pub(super) type StoredRef = (u64, u32);

/// The log, as far as references to it are concerned.
pub(in crate::engine) trait EntryLog {
    /// Marks an entry as no longer needed.
    fn release(&self, entry: EntryRef);
    /// True while a replay may find the entry: its bytes are there, released or not.
    fn holds(&self, entry: EntryRef) -> bool;
}

impl EntryLog for Journal {
    fn release(&self, entry: EntryRef) {
        Self::release(self, entry);
    }

    fn holds(&self, entry: EntryRef) -> bool {
        Self::holds(self, entry)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::journal::{EntryKind, EntryReadError, JournalOptions, MemDisk, NewEntry};

    const RECORD_BYTES: usize = 1000;

    #[test]
    fn the_existence_of_an_entry_is_known_without_its_bytes() {
        let disk = MemDisk::new(1);
        let config = JournalOptions { segment_bytes: 4096, ..JournalOptions::default() };
        let (journal, mut writer, _) = Journal::open(disk.disk(), config).unwrap();
        let mut all = Vec::new();
        for at in 0..40 {
            let body = format!("{at}/{}", "r".repeat(RECORD_BYTES));
            let entry = NewEntry::bare(EntryKind(64), Bytes::from(body));
            all.push(journal.append(vec![entry]).unwrap().refs[0]);
            writer.step();
        }
        for released in all.iter().filter(|entry| entry.seq % 3 > 0) {
            journal.release(*released);
        }
        journal.checkpoint().unwrap();
        let mut keeper = journal.housekeeper();
        while keeper.step().unwrap().more {
            writer.step();
        }
        let unwritten = NewEntry::bare(EntryKind(64), Bytes::from_static(b"queued"));
        all.push(journal.append_reserved(vec![unwritten]).unwrap().refs[0]);
        let there =
            |entry: &EntryRef| !matches!(journal.read(*entry), Err(EntryReadError::Gone { .. }));
        let there: Vec<bool> = all.iter().map(there).collect();
        // A damaged entry still counts as there.
        let logs = disk.disk().list().unwrap();
        assert!(logs.iter().any(|log| disk.damage(log, b"20/r")));
        let before = disk.read_bytes();
        let held: Vec<bool> = all.iter().map(|entry| EntryLog::holds(&journal, *entry)).collect();
        let took = disk.read_bytes() - before;
        assert!(took < 100 * 40, "{took}");
        assert_eq!(held, there);
        assert!(held.contains(&true) && held.contains(&false), "the case this test is about");
    }
}
