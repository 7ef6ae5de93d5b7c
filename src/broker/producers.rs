//! What is known of the idempotent producers of one partition (KIP-98).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::broker::error::BrokerError;
use crate::model::WallMs;
use crate::wire::batch::BatchHeader;
use crate::wire::idempotence::{EXPIRES_AFTER_MS, ProducerWindow, SeenBatch, Sequenced};

/// The version byte of a stored snapshot.
const VERSION: u8 = 1;

/// The producers of one partition.
#[derive(Debug, Default)]
pub struct Producers {
    known: BTreeMap<i64, Known>,
    changed: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    window: ProducerWindow,
    /// Sequence of its last batch in the journal; what a repeat must wait for.
    seq: u64,
    seen_ms: i64,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Append it.
    Append,
    /// It is there: answer its offset, once `seq` is durable.
    Repeated {
        /// Of its first record.
        base_offset: i64,
        /// In the journal.
        seq: u64,
    },
}

impl Producers {
    /// Judges a batch by its producer's past; a batch without a producer id is always appended.
    pub fn judge(&self, header: &BatchHeader) -> Result<Judged, BrokerError> {
        let Some(known) = self.known.get(&header.producer_id).filter(|_| idempotent(header)) else {
            return Ok(Judged::Append);
        };
        let (first, last) = (header.base_sequence, header.last_sequence());
        match known.window.check(header.producer_epoch, first, last) {
            Sequenced::InOrder => Ok(Judged::Append),
            Sequenced::Duplicate { base_offset } => {
                Ok(Judged::Repeated { base_offset, seq: known.seq })
            }
            Sequenced::DuplicateTooOld => Err(BrokerError::DuplicateSequence),
            Sequenced::OutOfOrder => Err(BrokerError::OutOfOrderSequence),
            Sequenced::FencedEpoch => Err(BrokerError::InvalidProducerEpoch),
        }
    }

    /// Remembers a batch that was appended.
    pub fn record(&mut self, header: &BatchHeader, base_offset: i64, seq: u64, now: WallMs) {
        if !idempotent(header) {
            return;
        }
        let known = self.known.entry(header.producer_id).or_default();
        if seq <= known.seq {
            return;
        }
        known.window.record(
            header.producer_epoch,
            SeenBatch {
                first_sequence: header.base_sequence,
                last_sequence: header.last_sequence(),
                base_offset,
            },
        );
        known.seq = seq;
        known.seen_ms = now.0;
        self.changed = true;
    }

    /// The bytes to keep, if anything changed since the last call; forgets silent producers.
    pub fn snapshot(&mut self, now: WallMs) -> Option<Vec<u8>> {
        let before = self.known.len();
        self.known.retain(|_, known| now.since(WallMs(known.seen_ms)) <= EXPIRES_AFTER_MS);
        if !std::mem::take(&mut self.changed) && before == self.known.len() {
            return None;
        }
        if self.known.is_empty() {
            return Some(Vec::new());
        }
        let mut out = vec![VERSION];
        out.extend(postcard::to_stdvec(&self.known).unwrap_or_default());
        Some(out)
    }

    /// Takes a snapshot back; what is newer here stays.
    pub fn restore(&mut self, bytes: &[u8]) {
        let Some((&VERSION, rest)) = bytes.split_first() else { return };
        let Ok(stored) = postcard::from_bytes::<BTreeMap<i64, Known>>(rest) else { return };
        for (id, stored) in stored {
            let known = self.known.entry(id).or_default();
            if stored.seq >= known.seq {
                *known = stored;
            }
        }
    }

    /// Producers remembered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

fn idempotent(header: &BatchHeader) -> bool {
    header.producer_id >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(first: i32, count: i32) -> BatchHeader {
        let mut header =
            BatchHeader::parse(&crate::wire::batch::empty_batch(0, count - 1)).unwrap();
        header.producer_id = 9;
        header.producer_epoch = 0;
        header.base_sequence = first;
        header.count = count;
        header
    }

    #[test]
    fn a_repeat_is_known_after_snapshot_and_restore() {
        let mut producers = Producers::default();
        producers.record(&header(0, 2), 100, 7, WallMs(1));
        producers.record(&header(2, 1), 102, 8, WallMs(2));
        let bytes = producers.snapshot(WallMs(3)).unwrap();
        assert_eq!(producers.snapshot(WallMs(3)), None);
        let mut again = Producers::default();
        again.restore(&bytes);
        let repeated = Judged::Repeated { base_offset: 100, seq: 8 };
        assert_eq!(again.judge(&header(0, 2)).unwrap(), repeated);
        assert_eq!(again.judge(&header(3, 1)).unwrap(), Judged::Append);
        assert!(matches!(again.judge(&header(5, 1)), Err(BrokerError::OutOfOrderSequence)));
        assert_eq!(again.snapshot(WallMs(4).plus(EXPIRES_AFTER_MS)), Some(Vec::new()));
    }

    #[test]
    fn a_snapshot_written_by_the_first_version_is_read_for_ever() {
        let mut producers = Producers::default();
        producers.record(&header(0, 2), 100, 7, WallMs(1));
        let bytes = producers.snapshot(WallMs(3)).unwrap();
        let first: &[u8] = &[1, 1, 18, 1, 0, 1, 0, 2, 200, 1, 7, 2];
        assert_eq!(bytes, first, "the format has changed: give it a new version");
        let mut again = Producers::default();
        again.restore(first);
        let repeated = Judged::Repeated { base_offset: 100, seq: 7 };
        assert_eq!(again.judge(&header(0, 2)).unwrap(), repeated);
    }

    #[test]
    fn replaying_a_batch_the_snapshot_holds_changes_nothing() {
        let mut producers = Producers::default();
        producers.record(&header(0, 1), 0, 5, WallMs(1));
        producers.record(&header(0, 1), 0, 5, WallMs(1));
        let next = producers.judge(&header(1, 1)).unwrap();
        assert_eq!(next, Judged::Append);
    }
}
