//! What members have in hand of a cluster's partitions, in groups that keep keys in order: answers
//! as they left, until they are committed past. When a key fails, later records of it go behind it,
//! and the cluster is not asked for them again.
//!
//! Memory is bounded: of a group with more in hand the oldest answers are let go. What is fetched
//! before a restart is not known either.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use crate::model::TopicPartition;

/// Of one group.
const BYTES_MAX: usize = 16 << 20;

/// Records of one partition that left in one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::route) struct Lot {
    pub(in crate::route) partition: TopicPartition,
    /// Offsets from what was asked for to where the client goes on.
    pub(in crate::route) offsets: Range<i64>,
    /// Whole batches.
    pub(in crate::route) records: Bytes,
    /// Producer and first offset of each aborted transaction.
    pub(in crate::route) aborted: Vec<(i64, i64)>,
    /// As of [`Batches`](super::Batches).
    pub(in crate::route) undecided: bool,
}

/// Of one group.
#[derive(Debug, Default)]
pub(super) struct Carried {
    lots: BTreeMap<TopicPartition, VecDeque<Lot>>,
    bytes: usize,
    /// Something was let go, and that was told.
    told: bool,
}

impl Carried {
    /// These leave; whether something was let go for the first time. `open`: what a member has in
    /// hand of that partition.
    pub(super) fn add(&mut self, lot: Lot, open: &Range<i64>) -> bool {
        // Whoever goes back is given again what was behind.
        let from = lot.offsets.start;
        self.retain(&lot.partition, |known| known.end <= from && known.end > open.start);
        self.bytes = self.bytes.saturating_add(lot.records.len());
        self.lots.entry(lot.partition.clone()).or_default().push_back(lot);
        let mut has_gone = false;
        while self.bytes > BYTES_MAX && self.let_go() {
            has_gone = true;
        }
        has_gone && !std::mem::replace(&mut self.told, true)
    }

    /// What is known of a partition, as far as it is in hand.
    pub(super) fn of(&mut self, partition: &TopicPartition, open: &Range<i64>) -> Vec<Lot> {
        self.retain(partition, |known| known.end > open.start);
        self.lots.get(partition).map(|lots| lots.iter().cloned().collect()).unwrap_or_default()
    }

    /// What is committed past, of any partition, goes. `open`: what a member has in hand of one.
    pub(super) fn sweep(&mut self, open: impl Fn(&TopicPartition) -> Range<i64>) {
        let mut bytes = 0_usize;
        self.lots.retain(|partition, lots| {
            let open = open(partition);
            lots.retain(|lot| lot.offsets.end > open.start && !open.is_empty());
            let kept = lots.iter().map(|lot| lot.records.len());
            bytes = kept.fold(bytes, usize::saturating_add);
            !lots.is_empty()
        });
        self.bytes = bytes;
    }

    fn retain(&mut self, partition: &TopicPartition, stays: impl Fn(&Range<i64>) -> bool) {
        let Some(lots) = self.lots.get_mut(partition) else { return };
        let mut gone = 0_usize;
        lots.retain(|lot| {
            let stays = stays(&lot.offsets);
            gone = gone.saturating_add(if stays { 0 } else { lot.records.len() });
            stays
        });
        if lots.is_empty() {
            self.lots.remove(partition);
        }
        self.bytes = self.bytes.saturating_sub(gone);
    }

    /// The oldest answer of the partition with most of them, where each has one the largest; false:
    /// there is but one in all.
    fn let_go(&mut self) -> bool {
        let is_last = self.lots.len() == 1;
        let most = self.lots.iter_mut().max_by_key(|(_, lots)| {
            (lots.len(), lots.front().map_or(0, |oldest| oldest.records.len()))
        });
        let Some((of, lots)) = most.filter(|(_, lots)| lots.len() > 1 || !is_last) else {
            return false;
        };
        let gone = lots.pop_front().map_or(0, |lot| lot.records.len());
        if lots.is_empty() {
            let of = of.clone();
            self.lots.remove(&of);
        }
        self.bytes = self.bytes.saturating_sub(gone);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition { topic: "orders".into(), partition }
    }

    fn lot(partition: i32, offsets: Range<i64>, bytes: usize) -> Lot {
        let records = Bytes::from(vec![0; bytes]);
        let aborted = Vec::new();
        Lot { partition: at(partition), offsets, records, aborted, undecided: false }
    }

    fn starts(lots: &[Lot]) -> Vec<i64> {
        lots.iter().map(|lot| lot.offsets.start).collect()
    }

    #[test]
    fn an_answer_is_kept_until_it_is_committed_past_or_given_again() {
        let mut carried = Carried::default();
        for (offsets, open) in [(0..5, 0..5), (5..9, 0..9), (9..12, 0..12)] {
            carried.add(lot(0, offsets, 10), &open);
        }
        carried.add(lot(1, 0..3, 10), &(0..3));
        assert_eq!(starts(&carried.of(&at(0), &(0..12))), [0, 5, 9]);
        assert_eq!(starts(&carried.of(&at(0), &(6..12))), [5, 9], "6 is not committed");
        carried.add(lot(0, 9..14, 10), &(6..14));
        assert_eq!(starts(&carried.of(&at(0), &(6..14))), [5, 9], "it went back to 9");
        assert_eq!(carried.bytes, 30);
        assert_eq!(carried.of(&at(0), &(14..14)), []);
        assert_eq!((carried.bytes, carried.lots.len()), (10, 1));
    }

    #[test]
    fn of_too_much_the_oldest_is_let_go_and_that_is_told_once() {
        let mut carried = Carried::default();
        let half = BYTES_MAX / 2;
        assert!(!carried.add(lot(0, 0..1, half), &(0..1)));
        assert!(!carried.add(lot(0, 1..2, half), &(0..2)));
        assert!(carried.add(lot(0, 2..3, half), &(0..3)));
        assert!(!carried.add(lot(0, 3..4, half), &(0..4)), "told already");
        assert_eq!(starts(&carried.of(&at(0), &(0..4))), [2, 3]);
        let mut carried = Carried::default();
        assert!(!carried.add(lot(0, 0..1, BYTES_MAX * 2), &(0..1)), "a single one stays");
        assert_eq!(carried.of(&at(0), &(0..1)).len(), 1);
        for partition in 1..40 {
            carried.add(lot(partition, 0..1, half), &(0..1));
        }
        assert!(carried.bytes <= BYTES_MAX, "one of each of many partitions is too much");
        let kept: Vec<i32> = carried.lots.keys().map(|of| of.partition).collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
    }
}
