//! Sequence numbers of the sidecar's own batches.
//!
//! A broker that has seen a sequence number answers a later batch with that number as a duplicate.
//! Only the same records, with the time of their first attempt, reuse a number that may already be
//! in the log.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::model::{TopicName, WallMs};
use crate::wire::batch::RawRecord;

/// Sequences wrap to 0 here.
const SEQUENCES: i64 = 1 << 31;
/// Most age of the time of a batch, because retention counts from it. Older ones may be duplicated.
const SENT_MS_MAX: u64 = 3_600_000;

pub(super) type WrittenPartition = (TopicName, i32);

/// Next sequence of each partition, for one producer id.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<WrittenPartition, NextSequence>);

#[derive(Debug, Default)]
struct NextSequence {
    sequence: i32,
    /// Digest and time of the records that were sent with `sequence`, unless the broker refused
    /// them.
    sent: Option<([u8; 32], WallMs)>,
}

/// A batch that was sent and has no answer yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentBatch {
    pub(super) is_first: bool,
    /// The time of its records.
    pub(super) at: WallMs,
}

impl Numbers {
    /// The sequence of the next batch for a partition.
    pub(super) fn next(&self, place: &WrittenPartition) -> i32 {
        self.0.get(place).map_or(0, |next| next.sequence)
    }

    /// Records that a batch is sent. `None`: another batch may be in the log with that sequence.
    pub(super) fn send(
        &mut self,
        place: &WrittenPartition,
        records: &[RawRecord],
        now: WallMs,
    ) -> Option<SentBatch> {
        let digest =
            records.iter().fold(Sha256::new(), |sum, one| sum.chain_update(one.to_bytes()));
        let digest = digest.finalize().into();
        let next = self.0.entry(place.clone()).or_default();
        let is_first = next.sent.is_none();
        let (sent, at) = *next.sent.get_or_insert((digest, now));
        let is_same = sent == digest && now.since(at) < SENT_MS_MAX;
        is_same.then_some(SentBatch { is_first, at })
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
    use crate::wire::batch::{Headers, TimestampType};

    #[test]
    fn sequence_numbers_go_round_as_in_kafka() {
        assert_eq!(after(0, 3), 3);
        assert_eq!(after(i32::MAX, 1), 0);
        assert_eq!(after(i32::MAX - 1, 3), 1);
    }

    fn records(value: &'static str) -> [RawRecord; 1] {
        [RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(value.into()),
            headers: Headers::default(),
        }]
    }

    #[test]
    fn a_sequence_belongs_to_one_batch_until_its_outcome() {
        let place = ("failed".into(), 0);
        let mut numbers = Numbers::default();
        let send = |numbers: &mut Numbers, partition, value| {
            numbers.send(&("failed".into(), partition), &records(value), WallMs(5))
        };
        let first = send(&mut numbers, 0, "a").unwrap();
        assert!(send(&mut numbers, 0, "b").is_none());
        assert!(send(&mut numbers, 1, "b").is_some());
        let again = send(&mut numbers, 0, "a").unwrap();
        numbers.record_refused(&place, again);
        assert!(send(&mut numbers, 0, "b").is_none(), "the first attempt may have been taken");
        numbers.record_refused(&place, first);
        assert!(send(&mut numbers, 0, "b").is_some(), "nothing lies there");
        numbers.record_written(&place, 2);
        assert_eq!(numbers.next(&place), 2);
        assert!(send(&mut numbers, 0, "a").is_some());
    }

    #[test]
    fn a_repeated_batch_keeps_its_time_for_an_hour() {
        let (place, mut numbers) = (("failed".into(), 0), Numbers::default());
        let mut sent = |at| Some(numbers.send(&place, &records("a"), WallMs(at))?.at);
        assert_eq!(sent(5), Some(WallMs(5)));
        assert_eq!(sent(3_600_004), Some(WallMs(5)));
        assert_eq!(sent(3_600_005), None);
    }
}
