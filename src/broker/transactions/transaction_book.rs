//! All transactional ids: looked up by name, limited in number and size, forgotten when silent.
//! Pure; [`TransactionBook::apply`] and [`TransactionBook::step`] change it, live and on recovery.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::transactions::error::TransactionError;
use crate::broker::transactions::state::Transaction;
use crate::broker::transactions::step::TransactionStep;
use crate::model::{GroupId, TopicName, WallMs};

/// Limit on transactional ids.
const IDS_MAX: usize = 10_000;
/// Limit on the memory of all transactional ids.
const BYTES_MAX: usize = 64 << 20;
/// Steps a transaction may have beyond its size before its state is journalled whole. Repeated
/// commits of the same offset add steps and no size.
const STEPS_MORE: usize = 64;
/// Idle time after which an id may be evicted when there are too many.
const SILENT_AFTER_MS: u64 = 3_600_000;

/// The transactional ids of this cluster.
#[derive(Debug, Default)]
pub(super) struct TransactionBook {
    ids: BTreeMap<String, TransactionEntry>,
    by_producer: BTreeMap<i64, String>,
    /// The transactional ids that have offsets of a group.
    by_group: BTreeMap<GroupId, BTreeSet<String>>,
    /// The timeouts of all open transactions.
    due: BTreeSet<(WallMs, String)>,
    bytes: usize,
}

#[derive(Debug)]
struct TransactionEntry {
    now: Transaction,
    /// Steps since the state was last journalled whole.
    steps: u32,
    /// An upper estimate of the memory.
    bytes: usize,
}

impl TransactionBook {
    pub(super) fn get(&self, id: &str) -> Option<&Transaction> {
        self.ids.get(id).map(|known| &known.now)
    }

    /// The transactional id of a producer.
    pub(super) fn of_producer(&self, producer_id: i64) -> Option<&String> {
        self.by_producer.get(&producer_id)
    }

    /// Steps since the state was last journalled whole.
    pub(super) fn steps(&self, id: &str) -> u32 {
        self.ids.get(id).map_or(0, |known| known.steps)
    }

    /// Whether the next step journals the whole state, because steps outnumber what the state
    /// holds.
    pub(super) fn is_whole_due(&self, id: &str) -> bool {
        self.ids.get(id).is_some_and(|known| {
            let steps = usize::try_from(known.steps).unwrap_or(usize::MAX);
            STEPS_MORE + known.now.size() <= steps
        })
    }

    /// [`TransactionBook::get`] for a request that names a producer id: an unknown transactional id
    /// is an error.
    pub(super) fn known(&self, id: &str) -> Result<&Transaction, TransactionError> {
        self.get(id).ok_or(TransactionError::UnknownProducer)
    }

    pub(super) fn list(&self) -> impl Iterator<Item = (&String, &Transaction)> {
        self.ids.iter().map(|(id, known)| (id, &known.now))
    }

    /// Sets a new state; `None` forgets the transactional id.
    pub(super) fn apply(&mut self, id: &str, next: Option<Transaction>) {
        if let Some(TransactionEntry { now: old, bytes, .. }) = self.ids.remove(id) {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.by_producer.remove(&old.producer_id);
            for group in old.groups.keys() {
                if let Some(ids) = self.by_group.get_mut(group) {
                    ids.remove(id);
                    if ids.is_empty() {
                        self.by_group.remove(group);
                    }
                }
            }
            if let Some(due) = old.due() {
                self.due.remove(&(due, id.to_owned()));
            }
        }
        let Some(next) = next else { return };
        let bytes = id.len() + next.bytes();
        self.bytes += bytes;
        self.by_producer.insert(next.producer_id, id.to_owned());
        for group in next.groups.keys() {
            self.by_group.entry(group.clone()).or_default().insert(id.to_owned());
        }
        self.due.extend(next.due().map(|due| (due, id.to_owned())));
        self.ids.insert(id.to_owned(), TransactionEntry { now: next, steps: 0, bytes });
    }

    /// Applies the next step to an open transaction; a step of any other is ignored.
    pub(super) fn step(&mut self, id: &str, number: u32, step: TransactionStep) {
        let Some(known) = self.ids.get_mut(id).filter(|known| known.now.is_open()) else { return };
        if let Some(group) = step.group() {
            self.by_group.entry(group.clone()).or_default().insert(id.to_owned());
        }
        let bytes = step.bytes();
        self.bytes += bytes;
        known.bytes += bytes;
        known.steps = number.saturating_add(1);
        known.now.take(step);
    }

    /// Whether `next` fits in the limits; returns another id that must be forgotten for it.
    pub(super) fn room(
        &self,
        id: &str,
        next: &Transaction,
        now: WallMs,
    ) -> Result<Option<String>, TransactionError> {
        let old = self.ids.get(id);
        let has = old.map_or(0, |old| old.bytes.saturating_sub(id.len()));
        self.room_for(next.bytes().saturating_sub(has))?;
        if old.is_some() || self.ids.len() < IDS_MAX {
            return Ok(None);
        }
        let idle = self.list().filter(|(_, known)| !known.is_open());
        let oldest = idle.min_by_key(|(_, known)| known.updated);
        match oldest {
            Some((oldest, known)) if SILENT_AFTER_MS < now.since(known.updated) => {
                Ok(Some(oldest.clone()))
            }
            _ => Err(TransactionError::TooMany),
        }
    }

    /// Checks that `more` bytes fit in the limit.
    pub(super) fn room_for(&self, more: usize) -> Result<(), TransactionError> {
        if BYTES_MAX < self.bytes + more && more > 0 {
            return Err(TransactionError::TooMany);
        }
        Ok(())
    }

    /// Whether an open transaction has a pending offset of the partition.
    pub(super) fn is_pending(&self, group: &GroupId, topic: &TopicName, partition: i32) -> bool {
        self.pending(group, topic, partition) > 0
    }

    /// Number of open transactions that have a pending offset of the partition.
    pub(super) fn pending(&self, group: &GroupId, topic: &TopicName, partition: i32) -> usize {
        let place = (topic.clone(), partition);
        let ids = self.by_group.get(group).into_iter().flatten();
        let has_it = |known: &&Transaction| {
            known.is_open() && known.groups.get(group).is_some_and(|of| of.contains_key(&place))
        };
        ids.filter_map(|id| self.get(id)).filter(has_it).count()
    }

    /// The groups with offsets in open transactions.
    pub(super) fn groups_with_offsets(&self) -> BTreeSet<GroupId> {
        let named = self.by_group.keys();
        named.filter(|group| self.has_offsets(group)).cloned().collect()
    }

    /// Whether an open transaction has an offset of the group.
    pub(super) fn has_offsets(&self, group: &GroupId) -> bool {
        let ids = self.by_group.get(group).into_iter().flatten();
        ids.filter_map(|id| self.get(id)?.groups.get(group)).any(|offsets| !offsets.is_empty())
    }

    /// The steps by which open transactions lose deleted topics or offsets; `step` says what one
    /// loses. Returns transactional id, producer id, step number and step.
    pub(super) fn losing(
        &self,
        step: impl Fn(&Transaction) -> Option<TransactionStep>,
    ) -> Vec<(String, i64, u32, TransactionStep)> {
        let open = self.due.iter().filter_map(|(_, id)| Some((id, self.ids.get(id)?)));
        let losing = open.filter_map(|(id, known)| {
            let step = step(&known.now)?;
            Some((id.clone(), known.now.producer_id, known.steps, step))
        });
        losing.collect()
    }

    /// The earliest timeout of an open transaction.
    pub(super) fn next_due(&self) -> Option<WallMs> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The first open transaction whose timeout has passed.
    pub(super) fn overdue(&self, now: WallMs) -> Option<String> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, id)| id.clone())
    }

    /// Number of open transactions.
    pub(super) fn open(&self) -> usize {
        self.due.len()
    }

    /// Transactional ids without an open transaction that were silent for `after_ms`.
    pub(super) fn expired(&self, now: WallMs, after_ms: u64) -> Vec<String> {
        let silent = |known: &Transaction| after_ms <= now.since(known.updated);
        let expired = self.list().filter(|(_, known)| !known.is_open() && silent(known));
        expired.map(|(id, _)| id.clone()).collect()
    }
}
