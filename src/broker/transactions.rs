//! Transaction coordinator of this cluster (KIP-98, KIP-890): checks which producer may write in a
//! transaction, and how the transaction ends.
//!
//! A transaction ends in one atomic group of the journal. The group has the markers of its
//! partitions, the offsets it commits and its new state. A crash therefore leaves no transaction
//! half ended.

mod ending;
mod error;
mod partition;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod transaction_book;
mod transaction_record;
mod transactional_ids;

use std::sync::PoisonError;

use bytes::Bytes;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kind;
use crate::broker::log::ProducedPosition;
use crate::broker::offsets::CommitItem;
use crate::broker::producers::BatchDecision;
use crate::broker::topic::{Partition, Topic};
use crate::journal::NewEntry;
use crate::model::{GroupId, TopicName};
use crate::wire::batch::Batch;

pub use ending::EndResult;
pub use error::TransactionError;
pub use partition::{AbortedRange, PartitionTransactions};
use state::TIMEOUT_MS_MAX;
pub use state::{Incarnation, Joining, Transaction, TransactionPartition, TransactionPhase};
use step::{AdditionOutcome, TransactionStep};
use transaction_book::TransactionBook;
pub use transactional_ids::Transactions;

/// The result of InitProducerId.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerResult {
    /// The producer's new id and epoch.
    pub producer: Incarnation,
    /// Whether the previous transaction was committed; otherwise it is aborted.
    pub committed: bool,
    /// Whether this call aborted an open transaction.
    pub aborted: bool,
    /// The entry to wait for; 0 = none.
    pub seq: u64,
}

impl Broker {
    /// InitProducerId with a transactional id: gives the next producer epoch and aborts an open
    /// transaction. `by` is the id and epoch that the producer sent.
    pub fn begin_producer(
        &self,
        id: &str,
        by: Option<Incarnation>,
        timeout_ms: i32,
    ) -> Result<InitProducerResult, BrokerError> {
        if id.is_empty() || id.len() > usize::from(u16::MAX / 2) {
            return Err(TransactionError::InvalidId.into());
        }
        let timeout_ms = u32::try_from(timeout_ms).ok();
        let timeout_ms = timeout_ms.filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms));
        let timeout_ms = timeout_ms.ok_or(TransactionError::InvalidTimeout)?;
        let now = self.clock.now().wall;
        let mut book = self.transactions.lock();
        let fresh = || self.ids.take().ok().map(|(producer_id, _)| producer_id);
        let Some(old) = book.get(id).cloned() else {
            let (producer_id, _) = self.ids.take()?;
            let next = Transaction::new(producer_id, timeout_ms, now);
            let producer = next.incarnation();
            let seq = self.keep_transaction(&mut book, id, next)?;
            return Ok(InitProducerResult { producer, committed: false, aborted: false, seq });
        };
        let committed = old.phase == TransactionPhase::Committed;
        let Some(next) = old.begun_anew(by, timeout_ms, now, fresh)? else {
            let seq = self.journal.appended_seq();
            return Ok(InitProducerResult {
                producer: old.incarnation(),
                committed,
                aborted: false,
                seq,
            });
        };
        let producer = next.incarnation();
        let seq = if old.is_open() {
            self.end(&mut book, id, &old, (next, false))?.seq
        } else {
            self.keep_transaction(&mut book, id, next)?
        };
        Ok(InitProducerResult { producer, committed, aborted: old.is_open(), seq })
    }

    /// Adds partitions or a group to a transaction. Returns the entry to wait for.
    pub fn join_transaction(
        &self,
        id: &str,
        by: Incarnation,
        joining: Joining,
    ) -> Result<u64, BrokerError> {
        self.join(&mut self.transactions.lock(), id, by, joining)
    }

    /// Adds offsets of a group to a transaction. Returns the entry to wait for. `implied` adds the
    /// group too (KIP-890).
    pub fn commit_in_transaction(
        &self,
        id: &str,
        by: Incarnation,
        joining: Joining,
        implied: bool,
    ) -> Result<u64, BrokerError> {
        let mut book = self.transactions.lock();
        let known = book.known(id)?;
        known.check(by)?;
        let has_group = joining.group.iter().all(|group| known.groups.contains_key(group));
        if !(implied || known.is_open() && has_group) {
            return Err(TransactionError::InvalidState.into());
        }
        let mut joining = joining;
        if let Some(group) = &joining.group {
            joining.items.retain(|item| !self.is_repeated(&book, id, group, item));
        }
        self.join(&mut book, id, by, joining)
    }

    /// Whether the transaction has this offset already, and no later commit of the partition
    /// exists.
    fn is_repeated(
        &self,
        book: &TransactionBook,
        id: &str,
        group: &GroupId,
        item: &CommitItem,
    ) -> bool {
        let Some(order) = book.get(id).and_then(|known| known.order_of(group, item)) else {
            return false;
        };
        let (topic, partition) = (&item.topic, item.partition);
        let is_newest = self.offsets.newest_order(group, topic, partition) < Some(order);
        is_newest && book.pending(group, topic, partition) == 1
    }

    fn join(
        &self,
        book: &mut TransactionBook,
        id: &str,
        by: Incarnation,
        joining: Joining,
    ) -> Result<u64, BrokerError> {
        let now = self.clock.now().wall;
        match book.known(id)?.joining(by, joining, now)? {
            Some(AdditionOutcome::Opened(next)) => self.keep_transaction(book, id, *next),
            Some(AdditionOutcome::Step(step)) => self.keep_step(book, id, step),
            None => Ok(self.journal.appended_seq()),
        }
    }

    /// [`Broker::produce`] inside a transaction. With `implied`, the first batch of a partition
    /// adds the partition to the transaction (KIP-890).
    pub fn produce_transactional(
        &self,
        id: &str,
        implied: bool,
        (topic, partition): (&Topic, &Partition),
        batch: &Batch,
    ) -> Result<ProducedPosition, BrokerError> {
        Self::check_size(topic, batch)?;
        let header = &batch.header;
        let by = (header.producer_id, header.producer_epoch);
        let bounds = self.bounds(partition);
        let log_start = bounds.start;
        let now = self.clock.now().wall;
        // The lock is held until the batch is appended, so no marker comes in between.
        let mut book = self.transactions.lock();
        let known = book.known(id)?;
        known.check(by)?;
        let part = part(topic, partition);
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        producers.forget_passed(bounds);
        let judged = producers.judge(header)?;
        // A KIP-890 producer raises its epoch with every transaction and restarts at sequence 0. A
        // higher first sequence of an unknown producer means a lost batch.
        if implied && header.base_sequence != 0 && !producers.knows(header.producer_id) {
            return Err(BrokerError::OutOfOrderSequence);
        }
        if let BatchDecision::Repeated { base_offset, seq } = judged {
            return Ok(ProducedPosition { base_offset, seq, log_start });
        }
        if let Err(error) = known.check_part(by, &part) {
            if !implied {
                return Err(error.into());
            }
            let joining = Joining { parts: vec![part], ..Joining::default() };
            self.join(&mut book, id, by, joining)?;
        }
        let (base_offset, seq, _) =
            self.append(partition.stream, batch, &mut || Some(Vec::new()))?;
        producers.record(header, base_offset, seq, now);
        Ok(ProducedPosition { base_offset, seq, log_start })
    }

    /// Whether a transaction may be about to change the offset (KIP-447).
    pub fn is_unstable(&self, group: &GroupId, topic: &TopicName, partition: i32) -> bool {
        self.transactions.is_pending(group, topic, partition)
            || self.offsets.is_settling(group, topic, partition)
    }

    /// Journals a new state and applies it.
    fn keep_transaction(
        &self,
        book: &mut TransactionBook,
        id: &str,
        mut next: Transaction,
    ) -> Result<u64, BrokerError> {
        let now = self.clock.now().wall;
        let mut entries = Vec::new();
        let goes = book.room(id, &next, now)?;
        entries.extend(goes.as_deref().map(|id| NewEntry::tombstone(kind::TRANSACTION, key(id))));
        entries.extend(whole(book, id, &next));
        let seq = self.journal.append(entries)?.seq();
        if let Some(goes) = goes {
            book.apply(&goes, None);
        }
        let opens = next.is_open();
        next.set_order(seq);
        book.apply(id, Some(next));
        if opens {
            self.transactions.opened.notify_one();
        }
        Ok(seq)
    }

    /// Journals a step of an open transaction, and applies it.
    fn keep_step(
        &self,
        book: &mut TransactionBook,
        id: &str,
        step: TransactionStep,
    ) -> Result<u64, BrokerError> {
        book.room_for(step.bytes())?;
        let known = book.known(id)?;
        if book.is_whole_due(id) {
            let mut next = known.clone();
            next.take(step);
            let seq = self.journal.append(whole(book, id, &next).collect())?.seq();
            next.set_order(seq);
            book.apply(id, Some(next));
            return Ok(seq);
        }
        let number = book.steps(id);
        let entry = step::entry(known.producer_id, number, &step);
        let seq = self.journal.append(vec![entry])?.seq();
        book.step(id, number, step.ordered(seq));
        Ok(seq)
    }

    /// Forgets transactional ids that were silent too long.
    pub(super) fn expire_transactions(&self) -> Result<(), BrokerError> {
        let mut book = self.transactions.lock();
        let expired = book.expired(self.clock.now().wall, self.expiration.transactional_id_ms);
        if expired.is_empty() {
            return Ok(());
        }
        let gone = expired.iter().map(|id| NewEntry::tombstone(kind::TRANSACTION, key(id)));
        self.journal.append_reserved(gone.collect())?;
        for id in expired {
            book.apply(&id, None);
        }
        Ok(())
    }
}

/// The identity of a partition inside a transaction.
pub fn part(topic: &Topic, partition: &Partition) -> TransactionPartition {
    let (topic, stream) = (topic.name.clone(), partition.stream.0);
    TransactionPartition { stream, topic, partition: partition.index }
}

fn key(id: &str) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

/// The entries of a whole new state: tombstones of its earlier steps, then the state.
fn whole(book: &TransactionBook, id: &str, next: &Transaction) -> impl Iterator<Item = NewEntry> {
    let old = book.get(id).map_or(next.producer_id, |old| old.producer_id);
    let fact =
        NewEntry::keyed(kind::TRANSACTION, key(id), transaction_record::write(next), Bytes::new());
    step::ends(old, book.steps(id)).chain([fact])
}
