//! Seek backs that are counted and change nothing (`on_seek_back: observe`).

use std::collections::BTreeMap;

/// Records of one partition whose seek backs are counted.
const RECORDS_MAX: usize = 64;
/// Returns to one record after which the log names it.
pub(in crate::retry) const TOLD_AT: u32 = 3;

/// Records of one partition that its member went back to, since it was assigned.
#[derive(Clone, Debug, Default)]
pub(in crate::retry) struct SeekBacks(BTreeMap<i64, u32>);

impl SeekBacks {
    /// Counts one return to a record. Returns the number so far.
    pub(in crate::retry) fn count(&mut self, offset: i64) -> u32 {
        if self.0.len() >= RECORDS_MAX && !self.0.contains_key(&offset) {
            self.0.pop_first();
        }
        let times = self.0.entry(offset).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// Forgets the records that a commit passes.
    pub(in crate::retry) fn forget_below(&mut self, committed: i64) {
        self.0 = self.0.split_off(&committed);
    }

    /// Each record and its returns, by offset.
    pub(in crate::retry) fn iter(&self) -> impl Iterator<Item = (i64, u32)> {
        self.0.iter().map(|(offset, times)| (*offset, *times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_counted_are_bounded_and_forgotten_with_a_commit() {
        let mut seek_backs = SeekBacks::default();
        for offset in 0..1_000 {
            assert_eq!(seek_backs.count(offset), 1);
        }
        assert_eq!(seek_backs.iter().count(), RECORDS_MAX);
        assert_eq!(seek_backs.count(999), 2);
        seek_backs.forget_below(999);
        assert_eq!(seek_backs.iter().collect::<Vec<_>>(), [(999, 2)]);
    }
}
