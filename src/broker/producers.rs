//! State of the idempotent and transactional producers of one partition (KIP-98).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::broker::error::BrokerError;
use crate::broker::fact_encoding;
use crate::broker::transactions::{PartitionTransactions, TransactionError};
use crate::journal::{Bounds, EncodedHead};
use crate::model::WallMs;
use crate::wire::batch::BatchHeader;
use crate::wire::idempotence::{ProducerWindow, SeenBatch, SequenceCheck};

/// The version byte of a stored snapshot: the producers, then the transactions.
const VERSION: u8 = 3;

/// Limit on remembered producers of one partition; above it, the longest silent ones are forgotten.
pub const PRODUCERS_MAX: usize = 20_000;
/// Producers forgotten in one pass: a pass sorts all of them, so it should be rare.
const FORGOTTEN_AT_ONCE: usize = PRODUCERS_MAX / 20;
const DAY_MS: u64 = 24 * 3_600_000;

/// Idle times after which producers are forgotten, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// For the producers of a partition (Kafka: `producer.id.expiration.ms`).
    pub producer_id_ms: u64,
    /// For transactional ids (Kafka: `transactional.id.expiration.ms`).
    pub transactional_id_ms: u64,
}

impl Default for Expiration {
    fn default() -> Self {
        Self { producer_id_ms: DAY_MS, transactional_id_ms: 7 * DAY_MS }
    }
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub struct Producers {
    known: BTreeMap<i64, ProducerEntry>,
    written: PartitionTransactions,
    changed: bool,
}

/// A producer, as `DescribeProducers` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerView {
    pub id: i64,
    pub epoch: i16,
    /// Sequence number of the last record; −1: none.
    pub last_sequence: i32,
    /// Time of the last write.
    pub seen: WallMs,
    /// First offset of the open transaction.
    pub open_since: Option<i64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ProducerEntry {
    window: ProducerWindow,
    /// Journal sequence of the last batch; a repeated batch is answered once this entry is durable.
    seq: u64,
    seen_ms: i64,
}

/// The decision on a produced batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchDecision {
    Append,
    /// The log has the batch already: the broker answers its offset once `seq` is durable.
    Repeated {
        /// Offset of the first record.
        base_offset: i64,
        /// Journal sequence of the producer's last batch.
        seq: u64,
    },
}

impl Producers {
    /// Checks a batch against its producer's state; a batch without a producer id is always
    /// appended.
    pub fn judge(&self, header: &BatchHeader) -> Result<BatchDecision, BrokerError> {
        let is_open = self.written.open_since(header.producer_id).is_some();
        if header.is_transactional() {
            if !is_open && !self.written.has_room() {
                return Err(TransactionError::TooMany.into());
            }
        } else if is_open {
            return Err(TransactionError::InvalidState.into());
        }
        let Some(known) = self.known.get(&header.producer_id).filter(|_| idempotent(header)) else {
            return Ok(BatchDecision::Append);
        };
        let (first, last) = (header.base_sequence, header.last_sequence());
        match known.window.check(header.producer_epoch, first, last) {
            SequenceCheck::InOrder => Ok(BatchDecision::Append),
            SequenceCheck::Duplicate { base_offset } => {
                Ok(BatchDecision::Repeated { base_offset, seq: known.seq })
            }
            SequenceCheck::OutOfOrder => Err(BrokerError::OutOfOrderSequence),
            SequenceCheck::FencedEpoch => Err(BrokerError::InvalidProducerEpoch),
        }
    }

    /// Remembers a batch that was appended.
    pub fn record(&mut self, header: &BatchHeader, base_offset: i64, seq: u64, now: WallMs) {
        if !idempotent(header) {
            return;
        }
        self.make_room(header.producer_id);
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
        if header.is_transactional() {
            self.written.wrote(header.producer_id, base_offset);
        }
        self.changed = true;
    }

    /// Remembers a transaction marker that was appended.
    pub fn ended(&mut self, (id, epoch): (i64, i16), commits: bool, at: (i64, u64), now: WallMs) {
        let (offset, seq) = at;
        self.make_room(id);
        let known = self.known.entry(id).or_default();
        if seq <= known.seq {
            return;
        }
        known.window.fence(epoch);
        (known.seq, known.seen_ms) = (seq, now.0);
        self.written.ended(id, offset, commits);
        self.changed = true;
    }

    /// Whether the producer is remembered.
    pub fn knows(&self, producer_id: i64) -> bool {
        self.known.contains_key(&producer_id)
    }

    /// Makes room for one producer; a producer with an open transaction is never forgotten.
    fn make_room(&mut self, producer_id: i64) {
        if self.known.len() < PRODUCERS_MAX || self.knows(producer_id) {
            return;
        }
        let idle = self.known.iter().filter(|(id, _)| self.written.open_since(**id).is_none());
        let mut idle: Vec<(i64, i64)> = idle.map(|(id, known)| (known.seen_ms, *id)).collect();
        idle.sort_unstable();
        for (_, id) in idle.into_iter().take(FORGOTTEN_AT_ONCE) {
            self.known.remove(&id);
        }
    }

    /// Forgets finished transactions that no reader needs, also in a partition that no client
    /// reads.
    pub fn forget_passed(&mut self, bounds: Bounds) {
        self.changed |= self.written.forget(bounds.start, bounds.visible_end);
    }

    /// Open and aborted transactions of the partition.
    pub fn written(&mut self) -> &mut PartitionTransactions {
        &mut self.written
    }

    pub fn shown(&self) -> Vec<ProducerView> {
        let shown = |(id, known): (&i64, &ProducerEntry)| ProducerView {
            id: *id,
            epoch: known.window.epoch().unwrap_or(-1),
            last_sequence: known.window.last_sequence().unwrap_or(-1),
            seen: WallMs(known.seen_ms),
            open_since: self.written.open_since(*id),
        };
        self.known.iter().map(shown).collect()
    }

    /// The snapshot to journal: `None` if nothing changed since [`kept`](Self::kept), `Some(None)`
    /// if no producer is left. Forgets producers that were silent for `expire_after_ms`.
    pub fn snapshot(&mut self, now: WallMs, expire_after_ms: u64) -> Option<Option<EncodedHead>> {
        let before = self.known.len();
        let written = &self.written;
        self.known.retain(|id, known| {
            let silent = expire_after_ms <= now.since(WallMs(known.seen_ms));
            !silent || written.open_since(*id).is_some()
        });
        self.changed |= self.known.len() < before;
        if !self.changed {
            return None;
        }
        let has_any = !self.written.is_empty() || !self.known.is_empty();
        Some(has_any.then(|| fact_encoding::write(VERSION, &(&self.known, &self.written))))
    }

    /// Marks the snapshot as journalled.
    pub fn kept(&mut self) {
        self.changed = false;
    }

    /// Restores a snapshot; a producer with a newer batch stays as it is.
    pub fn restore(&mut self, bytes: &[u8]) {
        let read = fact_encoding::read("snapshot of producers", VERSION, bytes);
        let Ok((stored, written)) = read else { return };
        let stored: BTreeMap<i64, ProducerEntry> = stored;
        // A snapshot holds all transactions, and the replay reads snapshots in order.
        self.written = written;
        for (id, stored) in stored {
            let known = self.known.entry(id).or_default();
            if stored.seq >= known.seq {
                *known = stored;
            }
        }
    }

    /// Number of remembered producers.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no producer is remembered.
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
        let bytes = producers.snapshot(WallMs(3), 9).unwrap();
        assert_eq!(producers.snapshot(WallMs(3), 9).unwrap(), bytes, "it could not be kept");
        producers.kept();
        assert_eq!(producers.snapshot(WallMs(3), 9), None);
        let mut again = Producers::default();
        again.restore(&bytes.unwrap());
        let repeated = BatchDecision::Repeated { base_offset: 100, seq: 8 };
        assert_eq!(again.judge(&header(0, 2)).unwrap(), repeated);
        assert_eq!(again.judge(&header(3, 1)).unwrap(), BatchDecision::Append);
        assert!(matches!(again.judge(&header(5, 1)), Err(BrokerError::OutOfOrderSequence)));
        assert_eq!(again.snapshot(WallMs(2).plus(8), 9), None);
        assert_eq!(again.snapshot(WallMs(2).plus(9), 9), Some(None));
    }

    #[test]
    fn the_layout_of_a_snapshot_is_fixed() {
        let mut producers = Producers::default();
        producers.record(&header(0, 2), 100, 7, WallMs(1));
        let bytes = producers.snapshot(WallMs(3), 9).unwrap();
        let first: &[u8] = &[3, 1, 18, 1, 0, 1, 0, 2, 200, 1, 7, 2, 0, 0];
        assert_eq!(&bytes.unwrap()[..], first, "the format has changed: give it a new version");
        let mut again = Producers::default();
        again.restore(first);
        let repeated = BatchDecision::Repeated { base_offset: 100, seq: 7 };
        assert_eq!(again.judge(&header(0, 2)).unwrap(), repeated);
    }

    #[test]
    fn the_layout_of_a_snapshot_with_transactions_is_fixed() {
        let mut producers = Producers::default();
        let transactional = |first| BatchHeader { attributes: 1 << 4, ..header(first, 1) };
        producers.record(&transactional(0), 100, 7, WallMs(1));
        producers.ended((9, 0), false, (101, 8), WallMs(1));
        producers.record(&transactional(1), 102, 9, WallMs(1));
        let bytes = producers.snapshot(WallMs(3), 9).unwrap();
        let first: &[u8] = &[
            3, 1, 18, 1, 0, 2, 0, 0, 200, 1, 2, 2, 204, 1, 9, 2, 1, 18, 204, 1, 1, 18, 200, 1, 202,
            1,
        ];
        assert_eq!(&bytes.unwrap()[..], first, "the format has changed: give it a new version");
        let mut again = Producers::default();
        again.restore(first);
        assert_eq!(again.written().open_since(9), Some(102));
        assert_eq!(again.written().aborted(0, 103), producers.written().aborted(0, 103));
        assert_eq!(again.written().stable_end(0, 103), 102);
    }

    #[test]
    fn an_epoch_is_fenced_after_a_transaction_of_the_next() {
        let mut producers = Producers::default();
        producers.record(&BatchHeader { attributes: 1 << 4, ..header(0, 1) }, 0, 1, WallMs(1));
        producers.ended((9, 1), false, (1, 2), WallMs(1));
        let late = producers.judge(&BatchHeader { attributes: 1 << 4, ..header(1, 1) });
        assert!(matches!(late, Err(BrokerError::InvalidProducerEpoch)));
    }

    #[test]
    fn replaying_a_batch_the_snapshot_holds_changes_nothing() {
        let mut producers = Producers::default();
        producers.record(&header(0, 1), 0, 5, WallMs(1));
        producers.record(&header(0, 1), 0, 5, WallMs(1));
        let next = producers.judge(&header(1, 1)).unwrap();
        assert_eq!(next, BatchDecision::Append);
    }

    #[test]
    fn the_longest_silent_producers_are_forgotten_unless_in_transactions() {
        let mut producers = Producers::default();
        let mut write = |id: usize, attributes| {
            let producer_id = i64::try_from(id).unwrap();
            let header = BatchHeader { attributes, producer_id, ..header(0, 1) };
            let seq = u64::try_from(id).unwrap() + 1;
            producers.record(&header, producer_id, seq, WallMs(producer_id));
            producers.len()
        };
        write(0, 1 << 4);
        let most = (1..PRODUCERS_MAX + 2 * FORGOTTEN_AT_ONCE).map(|id| write(id, 0)).max();
        assert_eq!(most, Some(PRODUCERS_MAX));
        let last = i64::try_from(PRODUCERS_MAX + 2 * FORGOTTEN_AT_ONCE).unwrap() - 1;
        assert!(producers.knows(0) && producers.knows(last) && !producers.knows(1));
        let kept = producers.shown().len();
        assert!(kept > PRODUCERS_MAX - 2 * FORGOTTEN_AT_ONCE, "{kept}");
    }
}
