//! What this store asks of the log: to let an entry go, and whether it is still there.

use crate::journal::{EntryRef, Journal};

/// An [`EntryRef`] as it is stored: sequence number, length.
pub(super) type At = (u64, u32);

/// The log, as far as references to it go.
pub(in crate::engine) trait Log {
    /// Nobody needs this entry any more.
    fn release(&self, entry: EntryRef);
    /// The entry may be found by a replay: released or not, its bytes are there.
    fn holds(&self, entry: EntryRef) -> bool;
}

impl Log for Journal {
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
    use crate::journal::{Config, Kind, MemDisk, NewEntry, ReadError};

    const RECORD_BYTES: usize = 1000;

    #[test]
    fn whether_an_entry_is_there_is_told_without_its_bytes() {
        let disk = MemDisk::new(1);
        let config = Config { segment_bytes: 4096, ..Config::default() };
        let (journal, mut writer, _) = Journal::open(disk.disk(), config).unwrap();
        let mut all = Vec::new();
        for at in 0..40 {
            let body = format!("{at}/{}", "r".repeat(RECORD_BYTES));
            let entry = NewEntry::bare(Kind(64), Bytes::from(body));
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
        let unwritten = NewEntry::bare(Kind(64), Bytes::from_static(b"queued"));
        all.push(journal.append_reserved(vec![unwritten]).unwrap().refs[0]);
        let there = |entry: &EntryRef| !matches!(journal.read(*entry), Err(ReadError::Gone { .. }));
        let there: Vec<bool> = all.iter().map(there).collect();
        // the bytes of one are damaged: it is there as well
        let logs = disk.disk().list().unwrap();
        assert!(logs.iter().any(|log| disk.damage(log, b"20/r")));
        let before = disk.read_bytes();
        let held: Vec<bool> = all.iter().map(|entry| Log::holds(&journal, *entry)).collect();
        let took = disk.read_bytes() - before;
        assert!(took < 100 * 40, "{took}");
        assert_eq!(held, there);
        assert!(held.contains(&true) && held.contains(&false), "the case this test is about");
    }
}
