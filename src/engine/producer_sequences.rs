//! Idempotent producers on retry topics: a repeated nack batch is acknowledged, but counts once.
//!
//! The last five batches of each (group, producer id, partition) are journalled in one atomic group
//! with their facts: a crash keeps both or neither. Gaps are accepted: nacks need no order, and a
//! nack that is repeated later names a known failure.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::kind;
use crate::journal::{EncodedHead, JournalEntry, NewEntry};
use crate::model::{GroupId, WallMs};
use crate::wire::idempotence::{ProducerWindow, SeenBatch, SequenceCheck};

/// The version byte of stored producer sequences.
const VERSION: u8 = 2;

/// The partition of batches that clients produce to the dead-letter topic of the group.
pub const LETTERS: i32 = -1;

/// Producer id, epoch and sequence numbers of an idempotent producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerSequence {
    pub id: i64,
    /// The partition of the retry topic that the batch names; [`LETTERS`] for a batch of dead
    /// letters.
    pub partition: i32,
    pub epoch: i16,
    /// Sequence number of the batch's first record.
    pub first: i32,
    /// Sequence number of its last record.
    pub last: i32,
}

impl ProducerSequence {
    fn key(self, group: &GroupId) -> ProducerKey {
        (group.clone(), self.id, self.partition)
    }
}

/// Relation of a batch to its producer's earlier batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceVerdict {
    New,
    Repeated {
        /// The offset that the batch got; 0 for nacks.
        base: i64,
    },
    Fenced,
}

/// The group, the producer id and the partition.
type ProducerKey = (GroupId, i64, i32);

/// The last batches of one producer, and the time of the latest.
pub(super) type ProducerHistory = (ProducerWindow, WallMs);

#[derive(Debug)]
pub(super) struct ProducerSequences {
    windows: BTreeMap<ProducerKey, ProducerHistory>,
    expire_after_ms: u64,
}

impl ProducerSequences {
    /// No producers yet; a producer is forgotten after `expire_after_ms` of silence.
    pub(super) fn new(expire_after_ms: u64) -> Self {
        Self { windows: BTreeMap::new(), expire_after_ms }
    }

    /// Checks a batch against its producer's earlier batches.
    pub(super) fn check(&self, group: &GroupId, producer: ProducerSequence) -> SequenceVerdict {
        let Some((window, _)) = self.windows.get(&producer.key(group)) else {
            return SequenceVerdict::New;
        };
        match window.check(producer.epoch, producer.first, producer.last) {
            SequenceCheck::InOrder | SequenceCheck::OutOfOrder => SequenceVerdict::New,
            SequenceCheck::Duplicate { base_offset: base } => SequenceVerdict::Repeated { base },
            SequenceCheck::FencedEpoch => SequenceVerdict::Fenced,
        }
    }

    /// The state of a producer, for [`ProducerSequences::restore`].
    pub(super) fn of(
        &self,
        group: &GroupId,
        producer: ProducerSequence,
    ) -> Option<ProducerHistory> {
        self.windows.get(&producer.key(group)).cloned()
    }

    /// Restores a producer's state after a batch that is not in the log.
    pub(super) fn restore(
        &mut self,
        group: &GroupId,
        producer: ProducerSequence,
        before: Option<ProducerHistory>,
    ) {
        let of = producer.key(group);
        match before {
            Some(before) => drop(self.windows.insert(of, before)),
            None => drop(self.windows.remove(&of)),
        }
    }

    /// Records a batch; returns the entry to append with its facts.
    pub(super) fn record(
        &mut self,
        group: &GroupId,
        producer: ProducerSequence,
        (now, base_offset): (WallMs, i64),
    ) -> NewEntry {
        let (window, seen) = self.windows.entry(producer.key(group)).or_default();
        *seen = now;
        window.record(
            producer.epoch,
            SeenBatch { first_sequence: producer.first, last_sequence: producer.last, base_offset },
        );
        let mut head = vec![VERSION];
        head.extend(now.0.to_le_bytes());
        let head = EncodedHead::of(postcard::to_extend(window, head));
        NewEntry::keyed(kind::STAMP, stored_key(&producer.key(group)), head, Bytes::new())
    }

    /// Restores a producer from a stored entry.
    pub(super) fn replay(&mut self, entry: &JournalEntry) {
        let Some(of) = entry.key.as_deref().and_then(read_key) else { return };
        let stored = entry.head.split_first().filter(|(version, _)| **version == VERSION);
        let window =
            stored.and_then(|(_, rest)| rest.split_first_chunk::<8>()).and_then(|(seen, rest)| {
                let window: ProducerWindow = postcard::from_bytes(rest).ok()?;
                Some((window, WallMs(i64::from_le_bytes(*seen))))
            });
        match window {
            Some(window) => self.windows.insert(of, window),
            None => self.windows.remove(&of),
        };
    }

    /// Forgets producers that have been silent for too long; returns the tombstones to append.
    pub(super) fn expire(&mut self, now: WallMs) -> Vec<NewEntry> {
        let silent: Vec<_> = self
            .windows
            .iter()
            .filter(|(_, (_, seen))| self.expire_after_ms <= now.since(*seen))
            .map(|(key, _)| key.clone())
            .collect();
        silent
            .into_iter()
            .map(|of| {
                let tombstone = NewEntry::tombstone(kind::STAMP, stored_key(&of));
                self.windows.remove(&of);
                tombstone
            })
            .collect()
    }
}

fn stored_key((group, id, partition): &ProducerKey) -> Bytes {
    let mut key = id.to_be_bytes().to_vec();
    key.extend(partition.to_be_bytes());
    key.extend(group.as_str().as_bytes());
    key.into()
}

fn read_key(key: &[u8]) -> Option<ProducerKey> {
    let (id, rest) = key.split_first_chunk::<8>()?;
    let (partition, group) = rest.split_first_chunk::<4>()?;
    let group = GroupId::new(std::str::from_utf8(group).ok()?);
    Some((group, i64::from_be_bytes(*id), i32::from_be_bytes(*partition)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(entry: &NewEntry) -> JournalEntry {
        entry.clone().read_back()
    }

    #[test]
    fn a_repeated_batch_is_known_again_after_a_restart() {
        let group = GroupId::new("shop");
        let batch =
            |first| ProducerSequence { id: 7, partition: 2, epoch: 0, first, last: first + 1 };
        let mut stamps = ProducerSequences::new(1_000);
        stamps.record(&group, batch(0), (WallMs(5), 0));
        let entry = stamps.record(&group, batch(2), (WallMs(6), 0));
        let mut again = ProducerSequences::new(1_000);
        again.replay(&stored(&entry));
        assert_eq!(again.check(&group, batch(0)), SequenceVerdict::Repeated { base: 0 });
        assert_eq!(again.check(&group, batch(2)), SequenceVerdict::Repeated { base: 0 });
        assert_eq!(again.check(&group, batch(4)), SequenceVerdict::New);
        assert_eq!(again.check(&group, batch(6)), SequenceVerdict::New, "gaps are accepted");
        let elsewhere = ProducerSequence { partition: 1, ..batch(2) };
        assert_eq!(again.check(&group, elsewhere), SequenceVerdict::New);
        assert_eq!(again.check(&GroupId::new("other"), batch(2)), SequenceVerdict::New);
        assert!(again.expire(WallMs(1_005)).is_empty(), "it was there a second ago");
        let tombstones = again.expire(WallMs(1_006));
        assert_eq!(tombstones.len(), 1);
        again.replay(&stored(&entry));
        again.replay(&stored(&tombstones[0]));
        assert_eq!(again.check(&group, batch(2)), SequenceVerdict::New);
    }

    #[test]
    fn stored_sequences_keep_their_format() {
        let group = GroupId::new("g");
        let batch = ProducerSequence { id: 1, partition: 0, epoch: 2, first: 3, last: 4 };
        let stored_once: Vec<u8> = vec![2, 5, 0, 0, 0, 0, 0, 0, 0, 1, 4, 1, 6, 8, 0];
        let mut stamps = ProducerSequences::new(1_000);
        let mut entry = stored(&stamps.record(&group, batch, (WallMs(5), 0)));
        assert_eq!(entry.head, stored_once, "the format has changed: give it a new version");
        entry.head = stored_once.into();
        let mut again = ProducerSequences::new(1_000);
        again.replay(&entry);
        assert_eq!(again.check(&group, batch), SequenceVerdict::Repeated { base: 0 });
        assert_eq!(
            again.check(&group, ProducerSequence { first: 5, last: 5, ..batch }),
            SequenceVerdict::New
        );
    }
}
