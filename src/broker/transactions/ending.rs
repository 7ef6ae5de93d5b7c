//! Ends of transactions: by EndTxn, by the next InitProducerId, or by timeout; and deletions that
//! open transactions must follow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::groups::Occupancy;
use crate::broker::kind;
use crate::broker::offsets::CommitItem;
use crate::broker::producers::Producers;
use crate::broker::transactions::state::{End, Incarnation, Transaction, TransactionPartition};
use crate::broker::transactions::step::entry;
use crate::broker::transactions::transaction_book::TransactionBook;
use crate::broker::transactions::{TransactionError, whole};
use crate::journal::{AppendError, NewEntry, StreamAppend, StreamId};
use crate::model::{GroupId, TopicName, WallMs};
use crate::wire::batch::marker_batch;

/// Committed offsets by topic and partition.
type TransactionOffsets = Vec<(TopicName, i32, i64)>;

/// The atomic group that ended a transaction.
#[derive(Debug)]
pub(super) struct EndReceipt {
    /// The entry to wait for.
    pub(super) seq: u64,
    /// The offsets that took effect.
    committed: Vec<(GroupId, TransactionOffsets)>,
}

/// The result of an EndTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndResult {
    /// The producer's id and epoch after the end.
    pub producer: Incarnation,
    /// The offsets that this end committed.
    pub committed: Vec<(GroupId, TransactionOffsets)>,
    /// Whether the transaction was open until now; false for a repeated EndTxn.
    pub is_news: bool,
    /// The entry to wait for.
    pub seq: u64,
}

impl Broker {
    /// Commits or aborts the open transaction. `raises` gives the producer the next epoch
    /// (KIP-890).
    pub fn end_transaction(
        &self,
        id: &str,
        by: Incarnation,
        commits: bool,
        raises: bool,
    ) -> Result<EndResult, BrokerError> {
        let now = self.clock.now().wall;
        let mut book = self.transactions.lock();
        let old = book.known(id)?.clone();
        let fresh = || self.ids.take().ok().map(|(producer_id, _)| producer_id);
        let next = match old.ended(by, commits, raises, now, fresh)? {
            End::Next(next) => *next,
            End::Already => {
                // The appended sequence lies behind the end that the answer repeats.
                let seq = self.journal.appended_seq();
                let producer = old.incarnation();
                return Ok(EndResult { producer, committed: Vec::new(), is_news: false, seq });
            }
        };
        let producer = next.incarnation();
        let EndReceipt { seq, committed } = self.end(&mut book, id, &old, (next, commits))?;
        Ok(EndResult { producer, committed, is_news: old.is_open(), seq })
    }

    /// Aborts the next transaction whose timeout has passed. Returns its id, its producer and the
    /// entry to wait for.
    pub fn abort_overdue(&self) -> Result<Option<(String, Incarnation, u64)>, BrokerError> {
        let now = self.clock.now().wall;
        let mut book = self.transactions.lock();
        let Some(id) = book.overdue(now) else { return Ok(None) };
        let Some(old) = book.get(&id).cloned() else { return Ok(None) };
        let fresh = || self.ids.take().ok().map(|(producer_id, _)| producer_id);
        let next = old.timed_out(now, fresh).ok_or(TransactionError::TooMany)?;
        let seq = self.end(&mut book, &id, &old, (next, false))?.seq;
        tracing::info!(transactional_id = %id, "a transaction timed out and was aborted");
        Ok(Some((id, old.incarnation(), seq)))
    }

    /// Deletes a topic in one atomic group with its committed and pending offsets, so a new topic
    /// of the same name starts without offsets. The deletion is complete once the returned sequence
    /// is durable.
    pub fn delete_topic(&self, name: &TopicName) -> Result<u64, BrokerError> {
        let now = self.clock.now().wall;
        // The lock keeps transactions from ending in between.
        let mut book = self.transactions.lock();
        let losing = book.losing(|open| open.losing(name, now));
        let steps =
            losing.iter().map(|(_, producer, number, step)| entry(*producer, *number, step));
        let seq = self.topics.delete(name, |topic| {
            self.offsets.delete_topic(name, |offsets| {
                let group = std::iter::once(topic).chain(steps).chain(offsets).collect();
                // Deletions free room, so they may use the disk reserve.
                Ok::<_, BrokerError>(self.journal.append_reserved(group)?.seq())
            })
        })?;
        for (id, _, number, step) in losing {
            book.step(&id, number, step);
        }
        Ok(seq)
    }

    /// Deletes offsets of a group in one atomic group with the pending offsets of the same
    /// partitions. The end of a transaction therefore restores none of them. Complete once the
    /// returned sequence is durable; 0 = there were none.
    pub fn delete_offsets(
        &self,
        group: &GroupId,
        goes: impl Fn(&TopicName, i32) -> bool,
    ) -> Result<u64, BrokerError> {
        let now = self.clock.now().wall;
        // The lock keeps transactions from ending in between.
        let mut book = self.transactions.lock();
        let losing = book.losing(|open| open.losing_offsets(group, &goes, now));
        let steps =
            losing.iter().map(|(_, producer, number, step)| entry(*producer, *number, step));
        let seq = self.offsets.delete(group, &goes, |offsets| {
            self.offsets.append_gone(steps.chain(offsets).collect())
        })?;
        for (id, _, number, step) in losing {
            book.step(&id, number, step);
        }
        Ok(seq)
    }

    /// Deletes offsets older than their retention. As in Kafka, an offset stays while a transaction
    /// has a pending offset of the same partition.
    pub fn expire_offsets(
        &self,
        now: WallMs,
        occupancy: impl Fn(&GroupId) -> Occupancy,
    ) -> Result<u64, BrokerError> {
        // Lock order: transactions before offsets.
        let book = self.transactions.lock();
        let is_pending = |group: &GroupId, topic: &TopicName, partition| {
            book.is_pending(group, topic, partition)
        };
        Ok(self.offsets.expire(now, occupancy, is_pending)?)
    }

    /// Restores the simple groups after a restart: groups with committed or pending offsets.
    pub fn keep_simple_groups(&self) {
        let pending = self.transactions.lock().groups_with_offsets();
        for group in self.offsets.groups().iter().chain(&pending) {
            self.groups.keep_simple(group);
        }
    }

    /// Whether the group has committed or pending offsets.
    pub fn has_offsets(&self, group: &GroupId) -> bool {
        self.offsets.has(group) || self.transactions.lock().has_offsets(group)
    }

    /// Appends markers, offsets and the new state in one atomic group.
    pub(super) fn end(
        &self,
        book: &mut TransactionBook,
        id: &str,
        old: &Transaction,
        (next, commits): (Transaction, bool),
    ) -> Result<EndReceipt, BrokerError> {
        let now = self.clock.now().wall;
        let marker = old.marker(&next);
        let bytes = marker_batch(marker.0, marker.1, commits, now.0);
        let items = if commits { old.items() } else { Vec::new() };
        let mut parts: Vec<&TransactionPartition> = old.parts.iter().collect();
        let closed = loop {
            parts.retain(|part| self.journal.stream_bounds(StreamId(part.stream)).is_some());
            let producers: Vec<_> =
                parts.iter().map(|part| self.topics.producers(StreamId(part.stream))).collect();
            // The locks are taken in stream order and held until the ends are recorded. A reader
            // that a marker wakes must see the transaction as ended.
            let mut locked: Vec<_> = producers.iter().map(|one| locked(one)).collect();
            let markers = parts.iter().map(|part| marker_entry(part, &bytes, now));
            let entries: Vec<_> = markers.chain(whole(book, id, &next)).collect();
            let mut placed = Vec::new();
            let appended = self.offsets.commit_pending(now, &items, |offsets| {
                let group = entries.into_iter().chain(offsets).collect();
                // An abort frees what waits for it, so it may use the disk reserve.
                let appended = if commits {
                    self.journal.append(group)?
                } else {
                    self.journal.append_reserved(group)?
                };
                placed.clone_from(&appended.base_offsets);
                Ok::<_, AppendError>(appended.seq())
            });
            match appended {
                // A topic was deleted meanwhile.
                Err(AppendError::UnknownStream { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok((seq, effective)) => {
                    for (producers, offset) in locked.iter_mut().zip(placed) {
                        producers.ended(marker, commits, (offset, seq), now);
                    }
                    break EndReceipt { seq, committed: by_group(effective) };
                }
            }
        };
        book.apply(id, Some(next));
        Ok(closed)
    }
}

fn by_group(items: Vec<(GroupId, CommitItem)>) -> Vec<(GroupId, TransactionOffsets)> {
    let mut groups: Vec<(GroupId, TransactionOffsets)> = Vec::new();
    for (group, item) in items {
        let offset = (item.topic, item.partition, item.offset);
        match groups.last_mut() {
            Some((last, offsets)) if *last == group => offsets.push(offset),
            _ => groups.push((group, vec![offset])),
        }
    }
    groups
}

fn locked(producers: &Mutex<Producers>) -> MutexGuard<'_, Producers> {
    producers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn marker_entry(part: &TransactionPartition, bytes: &Bytes, now: WallMs) -> NewEntry {
    let append =
        StreamAppend { stream: StreamId(part.stream), records: 1, max_timestamp_ms: now.0 };
    NewEntry::bare_batch(kind::BATCH, append, bytes.clone())
}
