//! What this store asks of the log: to let an entry go, and whether it is still there.

use crate::journal::{EntryRef, Journal, ReadError};

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
        !matches!(self.read(entry), Err(ReadError::Gone { .. }))
    }
}
