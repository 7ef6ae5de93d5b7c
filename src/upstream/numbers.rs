//! Sequence numbers of the sidecar's own batches.
//!
//! A broker that has seen a sequence number answers a later batch with that number as a duplicate.
//! So a number that may already be in the log is reused only for the same batch.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::model::TopicName;

/// Sequences wrap to 0 here.
const SEQUENCES: i64 = 1 << 31;

pub(super) type WrittenPartition = (TopicName, i32);

/// Next sequence of each partition, for one producer id.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<WrittenPartition, NextSequence>);

#[derive(Debug, Default)]
struct NextSequence {
    sequence: i32,
    /// Digest of the batch that was sent with `sequence`, unless the broker refused it.
    sent: Option<[u8; 32]>,
}

/// A batch that was sent and has no answer yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentBatch {
    is_first: bool,
}

impl Numbers {
    /// The sequence of the next batch for a partition.
    pub(super) fn next(&self, place: &WrittenPartition) -> i32 {
        self.0.get(place).map_or(0, |next| next.sequence)
    }

    /// Records that a batch is sent. `None`: another batch may be in the log with that sequence.
    pub(super) fn send(&mut self, place: &WrittenPartition, batch: &[u8]) -> Option<SentBatch> {
        let digest = Sha256::digest(batch).into();
        let next = self.0.entry(place.clone()).or_default();
        let is_first = next.sent.is_none();
        (*next.sent.get_or_insert(digest) == digest).then_some(SentBatch { is_first })
    }

    /// The broker has written the batch.
    pub(super) fn record_written(&mut self, place: &WrittenPartition, records: usize) {
        let sequence = after(self.next(place), records);
        self.0.insert(place.clone(), NextSequence { sequence, sent: None });
    }

    /// The broker refused the batch. Only a first attempt frees the number: an earlier one may have
    /// been written.
    pub(super) fn record_refused(&mut self, place: &WrittenPartition, sent: SentBatch) {
        if let Some(next) = self.0.get_mut(place).filter(|_| sent.is_first) {
            next.sent = None;
        }
    }
}

fn after(sequence: i32, records: usize) -> i32 {
    let next = i64::from(sequence).saturating_add(i64::try_from(records).unwrap_or(0));
    i32::try_from(next % SEQUENCES).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_go_round_as_in_kafka() {
        assert_eq!(after(0, 3), 3);
        assert_eq!(after(i32::MAX, 1), 0);
        assert_eq!(after(i32::MAX - 1, 3), 1);
    }

    #[test]
    fn a_sequence_belongs_to_one_batch_until_its_outcome() {
        let place = ("failed".into(), 0);
        let mut numbers = Numbers::default();
        let first = numbers.send(&place, b"a").unwrap();
        assert!(numbers.send(&place, b"b").is_none());
        assert!(numbers.send(&("failed".into(), 1), b"b").is_some());
        let again = numbers.send(&place, b"a").unwrap();
        numbers.record_refused(&place, again);
        assert!(numbers.send(&place, b"b").is_none(), "the first attempt may have been taken");
        numbers.record_refused(&place, first);
        assert!(numbers.send(&place, b"b").is_some(), "nothing lies there");
        numbers.record_written(&place, 2);
        assert_eq!(numbers.next(&place), 2);
        assert!(numbers.send(&place, b"a").is_some());
    }
}
