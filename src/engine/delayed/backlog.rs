//! Bytes of delayed records in the log. Records of this process are counted as they come and go.
//! Earlier ones are counted in pieces after the start, so that the start does not wait for them.

use crate::model::EntryId;

/// A running count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backlog {
    bytes: u64,
    /// First entry id of this process.
    born: EntryId,
    /// Earlier entries below this id are counted.
    counted: EntryId,
}

impl Backlog {
    /// A count of zero, with all entries below `next` uncounted; `next` is the next new entry id.
    pub(super) fn before(next: EntryId) -> Self {
        Self { bytes: 0, born: next, counted: EntryId(0) }
    }

    /// A lower bound while the count goes on, exact afterwards.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn begins(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Subtracts a record, unless it is not counted yet.
    pub(super) fn ends(&mut self, id: EntryId, bytes: u64) {
        if id < self.counted || self.born <= id {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// True while entries of earlier processes are uncounted.
    pub(super) fn is_counting(&self) -> bool {
        self.counted < self.born
    }

    /// The entry after which the count continues; `None` for the first.
    pub(super) fn counts_after(&self) -> Option<EntryId> {
        self.counted.0.checked_sub(1).map(EntryId)
    }

    /// Counts the next entries, by id. Fewer than `limit` means that they are the last.
    pub(super) fn count(&mut self, next: &[(EntryId, u64)], limit: usize) {
        let earlier = next.iter().filter(|(id, _)| *id < self.born);
        self.bytes = earlier.fold(self.bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let last = next.last().map(|(id, _)| EntryId(id.0.saturating_add(1)));
        self.counted = last.filter(|_| next.len() >= limit).unwrap_or(self.born).min(self.born);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_during_the_count_are_counted_once() {
        let mut backlog = Backlog::before(EntryId(10));
        let earlier = [(2, 1), (4, 10), (7, 100), (9, 1_000)].map(|(id, n)| (EntryId(id), n));
        backlog.begins(10_000);
        backlog.count(&earlier[..2], 2);
        assert_eq!((backlog.bytes(), backlog.counts_after()), (10_011, Some(EntryId(4))));
        backlog.ends(EntryId(4), 10);
        backlog.ends(EntryId(7), 100);
        assert_eq!(backlog.bytes(), 10_001, "what is not counted takes nothing off");
        backlog.begins(100_000);
        backlog.count(&[earlier[3], (EntryId(10), 10_000)], 2);
        assert!(!backlog.is_counting());
        assert_eq!(backlog.bytes(), 111_001, "what began in this life is not counted again");
        for (id, bytes) in [(2, 1), (9, 1_000), (10, 10_000), (11, 100_000)] {
            backlog.ends(EntryId(id), bytes);
        }
        assert_eq!(backlog.bytes(), 0);
    }

    #[test]
    fn the_count_is_over_with_the_last_of_them() {
        let mut backlog = Backlog::before(EntryId(0));
        assert!(!backlog.is_counting(), "there were none");
        backlog = Backlog::before(EntryId(3));
        assert_eq!((backlog.is_counting(), backlog.counts_after()), (true, None));
        backlog.count(&[(EntryId(1), 5)], 2);
        assert_eq!((backlog.is_counting(), backlog.bytes()), (false, 5));
    }
}
