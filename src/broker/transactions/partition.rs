//! Open and aborted transactions of one partition. Pure.
//!
//! **Invariant:** with `read_committed`, a reader gets no record at or above the first record of an
//! open transaction. A transaction counts as open until its marker is readable, which means
//! durable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limit on the remembered aborted transactions of one partition. At the limit no new transaction
/// may begin until retention has passed some.
pub(super) const ABORTED_MAX: usize = 100_000;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedRange {
    pub producer_id: i64,
    /// Offset of the first record.
    pub first: i64,
    /// Offset of the marker.
    pub last: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionTransactions {
    /// First offset of each open transaction, by producer id.
    open: BTreeMap<i64, i64>,
    /// Ordered by marker.
    aborted: Vec<AbortedRange>,
    /// First offset and marker of ended transactions whose marker was not readable at the last
    /// check. Not persisted, because a restored marker is durable.
    #[serde(skip)]
    ending: Vec<(i64, i64)>,
}

impl PartitionTransactions {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.aborted.is_empty() && self.ending.is_empty()
    }

    /// Whether another transaction may begin here.
    pub fn has_room(&self) -> bool {
        self.aborted.len() < ABORTED_MAX
    }

    /// First offset of the producer's open transaction.
    pub fn open_since(&self, producer_id: i64) -> Option<i64> {
        self.open.get(&producer_id).copied()
    }

    /// Records a batch of a transaction that was appended.
    pub fn wrote(&mut self, producer_id: i64, offset: i64) {
        self.open.entry(producer_id).or_insert(offset);
    }

    /// Records a transaction marker that was appended.
    pub fn ended(&mut self, producer_id: i64, marker: i64, commits: bool) {
        let Some(first) = self.open.remove(&producer_id) else { return };
        self.ending.push((first, marker));
        if !commits {
            self.aborted.push(AbortedRange { producer_id, first, last: marker });
        }
    }

    /// Forgets the transactions that no reader needs within these bounds. Returns whether the
    /// persisted state became smaller.
    pub fn forget(&mut self, start: i64, visible_end: i64) -> bool {
        self.ending.retain(|(_, marker)| visible_end <= *marker);
        let gone = self.aborted.iter().take_while(|aborted| aborted.last < start).count();
        self.aborted.drain(..gone);
        0 < gone
    }

    /// Kafka's last stable offset within these bounds.
    pub fn stable_end(&mut self, start: i64, visible_end: i64) -> i64 {
        self.forget(start, visible_end);
        let ending = self.ending.iter().map(|(first, _)| *first);
        let first = self.open.values().copied().chain(ending).min();
        first.unwrap_or(visible_end).clamp(start.min(visible_end), visible_end)
    }

    /// The aborted transactions with records in `from..to`.
    pub fn aborted(&self, from: i64, to: i64) -> Vec<AbortedRange> {
        let behind = self.aborted.partition_point(|aborted| aborted.last < from);
        let rest = self.aborted.get(behind..).unwrap_or_default();
        rest.iter().filter(|aborted| aborted.first < to).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_records_end_before_the_first_open_transaction() {
        let mut written = PartitionTransactions::default();
        assert_eq!(written.stable_end(0, 9), 9);
        written.wrote(1, 4);
        written.wrote(2, 6);
        written.wrote(1, 7);
        assert_eq!(written.stable_end(0, 9), 4);
        assert_eq!(written.stable_end(0, 3), 3, "nothing of it can be read yet");
        written.ended(1, 9, true);
        assert_eq!(written.stable_end(0, 10), 6);
        written.ended(2, 10, true);
        assert_eq!(written.stable_end(0, 11), 11);
        assert_eq!(written.aborted(0, 11), []);
        assert!(written.is_empty());
    }

    #[test]
    fn a_transaction_end_counts_once_it_is_readable() {
        let mut written = PartitionTransactions::default();
        written.wrote(1, 4);
        written.ended(1, 9, true);
        for visible in [4, 7, 9] {
            assert_eq!(written.stable_end(0, visible), 4, "{visible}");
        }
        assert_eq!(written.stable_end(0, 10), 10);
    }

    #[test]
    fn aborted_transactions_are_listed_where_they_have_records() {
        let mut written = PartitionTransactions::default();
        for (producer, first, last) in [(1, 0, 3), (2, 1, 5), (3, 6, 7)] {
            written.wrote(producer, first);
            written.ended(producer, last, false);
        }
        let whose = |from, to| {
            let told = written.aborted(from, to);
            told.iter().map(|aborted| aborted.producer_id).collect::<Vec<_>>()
        };
        assert_eq!(whose(0, 9), [1, 2, 3]);
        assert_eq!(whose(0, 1), [1]);
        assert_eq!(whose(4, 6), [2]);
        assert_eq!(whose(5, 7), [2, 3]);
        assert!(whose(8, 9).is_empty());
    }

    #[test]
    fn transactions_before_the_log_start_are_forgotten() {
        let mut written = PartitionTransactions::default();
        written.wrote(1, 0);
        written.ended(1, 3, false);
        written.wrote(2, 4);
        assert_eq!(written.stable_end(6, 9), 6, "the first record it wrote has gone");
        assert_eq!(written.aborted(0, 9), []);
        assert_eq!(written.open_since(2), Some(4));
    }
}
