//! State of an idempotent producer on a partition: its epoch and its last five batches.
//!
//! The rules are those of Kafka's `ProducerStateManager` (KIP-98, KIP-360). Sequences increase by
//! one per record and wrap from `i32::MAX` to 0. A repeated batch is acknowledged again with its
//! first offset. An unknown producer may begin anywhere; a new epoch begins at 0.

use serde::{Deserialize, Serialize};

/// Batches kept per producer: the most that a client may have in flight (KIP-98).
pub const BATCHES_KEPT: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenBatch {
    /// Sequence of the first record.
    pub first_sequence: i32,
    /// Sequence of the last record.
    pub last_sequence: i32,
    /// Offset of the first record.
    pub base_offset: i64,
}

/// Relation of a batch to the producer's earlier batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// The next batch in sequence: append it, then `record` it.
    InOrder,
    /// A repetition of one of the last five batches: acknowledge it again, append nothing.
    Duplicate {
        /// Offset of the batch when it was appended.
        base_offset: i64,
    },
    /// An earlier batch is missing, or the batch is older than the last five:
    /// `OUT_OF_ORDER_SEQUENCE_NUMBER`. An older batch may never have been stored, because a
    /// producer may begin anywhere. If the first of two batches was refused, the second one began
    /// the state.
    OutOfOrder,
    /// The batch has an older epoch: `INVALID_PRODUCER_EPOCH`.
    FencedEpoch,
}

/// The state of one producer id on one partition.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProducerWindow {
    /// `None` until a batch was recorded.
    epoch: Option<i16>,
    /// Oldest first, at most [`BATCHES_KEPT`], all of `epoch`.
    batches: Vec<SeenBatch>,
}

impl ProducerWindow {
    /// Classifies a batch without changing the state.
    pub fn check(&self, epoch: i16, first_sequence: i32, last_sequence: i32) -> SequenceCheck {
        let Some(known) = self.epoch else { return SequenceCheck::InOrder };
        if epoch < known {
            return SequenceCheck::FencedEpoch;
        }
        if epoch > known {
            let begins = first_sequence == 0;
            return if begins { SequenceCheck::InOrder } else { SequenceCheck::OutOfOrder };
        }
        let Some(newest) = self.batches.last() else {
            // `fence` set this epoch, and no batch of it was recorded yet.
            let begins = first_sequence == 0;
            return if begins { SequenceCheck::InOrder } else { SequenceCheck::OutOfOrder };
        };
        let same = |seen: &&SeenBatch| {
            seen.first_sequence == first_sequence && seen.last_sequence == last_sequence
        };
        if let Some(seen) = self.batches.iter().find(same) {
            return SequenceCheck::Duplicate { base_offset: seen.base_offset };
        }
        let follows = first_sequence == after(newest.last_sequence);
        if follows { SequenceCheck::InOrder } else { SequenceCheck::OutOfOrder }
    }

    /// Records a batch that was appended.
    pub fn record(&mut self, epoch: i16, batch: SeenBatch) {
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.batches.clear();
        }
        if self.batches.len() >= BATCHES_KEPT {
            self.batches.remove(0);
        }
        self.batches.push(batch);
    }

    /// Ends all earlier epochs, after a transaction ended in this one.
    pub fn fence(&mut self, epoch: i16) {
        if self.epoch.is_none_or(|known| known < epoch) {
            self.epoch = Some(epoch);
            self.batches.clear();
        }
    }

    /// The epoch of the last recorded batch, or of a later `fence`.
    pub fn epoch(&self) -> Option<i16> {
        self.epoch
    }

    /// The sequence of the last recorded record.
    pub fn last_sequence(&self) -> Option<i32> {
        self.batches.last().map(|seen| seen.last_sequence)
    }
}

/// Wraps from `i32::MAX` to 0.
fn after(sequence: i32) -> i32 {
    sequence.checked_add(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(batches: &[(i32, i32)]) -> ProducerWindow {
        let mut window = ProducerWindow::default();
        for (index, &(first_sequence, last_sequence)) in (0..).zip(batches) {
            let base_offset = 100 + index;
            window.record(3, SeenBatch { first_sequence, last_sequence, base_offset });
        }
        window
    }

    #[test]
    fn the_next_sequence_is_in_order_unlike_a_gap() {
        let w = window(&[(0, 9), (10, 10)]);
        assert_eq!(w.check(3, 11, 12), SequenceCheck::InOrder);
        assert_eq!(w.check(3, 12, 12), SequenceCheck::OutOfOrder);
        assert_eq!(w.check(3, 10, 11), SequenceCheck::OutOfOrder, "overlaps");
    }

    #[test]
    fn only_the_last_five_batches_are_recognised_as_duplicates() {
        let w = window(&[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]);
        for sequence in 2..=6 {
            let base_offset = 100 + i64::from(sequence);
            assert_eq!(w.check(3, sequence, sequence), SequenceCheck::Duplicate { base_offset });
        }
        assert_eq!(w.check(3, 1, 1), SequenceCheck::OutOfOrder);
        assert_eq!(w.check(3, 0, 0), SequenceCheck::OutOfOrder);
    }

    #[test]
    fn sequences_wrap_from_the_largest_to_zero() {
        let w = window(&[(i32::MAX - 1, i32::MAX)]);
        assert_eq!(w.check(3, 0, 4), SequenceCheck::InOrder);
        let across = window(&[(i32::MAX - 1, 1), (2, 2)]);
        assert_eq!(across.check(3, 3, 3), SequenceCheck::InOrder);
        let base_offset = 100;
        assert_eq!(across.check(3, i32::MAX - 1, 1), SequenceCheck::Duplicate { base_offset });
        assert_eq!(across.check(3, i32::MAX - 3, i32::MAX - 2), SequenceCheck::OutOfOrder);
    }

    #[test]
    fn a_new_epoch_begins_at_zero_and_fences_the_old() {
        let mut w = window(&[(0, 9)]);
        assert_eq!(w.check(4, 0, 0), SequenceCheck::InOrder);
        assert_eq!(w.check(4, 10, 10), SequenceCheck::OutOfOrder);
        assert_eq!(w.check(2, 10, 10), SequenceCheck::FencedEpoch);
        w.record(4, SeenBatch { first_sequence: 0, last_sequence: 0, base_offset: 7 });
        assert_eq!(w.check(3, 10, 10), SequenceCheck::FencedEpoch);
        assert_eq!(
            w.check(4, 0, 9),
            SequenceCheck::OutOfOrder,
            "the old epoch's batch is forgotten"
        );
    }

    #[test]
    fn a_fenced_epoch_is_refused_before_the_next_ones_records() {
        let mut w = window(&[(0, 9)]);
        w.fence(3);
        assert_eq!(w.check(3, 10, 10), SequenceCheck::InOrder, "its own epoch goes on");
        w.fence(4);
        assert_eq!(w.check(3, 10, 10), SequenceCheck::FencedEpoch);
        assert_eq!(w.check(4, 0, 0), SequenceCheck::InOrder);
        assert_eq!(w.check(4, 1, 1), SequenceCheck::OutOfOrder, "an epoch begins at 0");
        let mut unknown = ProducerWindow::default();
        unknown.fence(2);
        assert_eq!(unknown.check(1, 0, 0), SequenceCheck::FencedEpoch);
    }

    #[test]
    fn an_unknown_producer_may_begin_at_any_sequence() {
        assert_eq!(ProducerWindow::default().check(0, 812, 900), SequenceCheck::InOrder);
        assert_eq!(window(&[(812, 900)]).check(3, 800, 811), SequenceCheck::OutOfOrder);
    }

    #[test]
    fn the_window_survives_storage() {
        let w = window(&[(0, 9), (10, 10)]);
        let bytes = postcard::to_allocvec(&w).unwrap();
        assert_eq!(postcard::from_bytes::<ProducerWindow>(&bytes).unwrap(), w);
    }
}
