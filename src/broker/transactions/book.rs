//! All transactional ids: found by name, bounded in number and size, forgotten when silent. Pure,
//! and changed by [`Book::apply`] alone, live and on recovery.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::transactions::error::TransactionError;
use crate::broker::transactions::state::Transaction;
use crate::model::{GroupId, TopicName, WallMs};

/// Transactional ids kept at most.
const IDS_MAX: usize = 10_000;
/// What all of them may take.
const BYTES_MAX: usize = 64 << 20;
/// Kafka's `transactional.id.expiration.ms`, 7 days.
const EXPIRES_AFTER_MS: u64 = 7 * 24 * 3_600_000;
/// When there are too many, one that is silent for so long goes first.
const SILENT_AFTER_MS: u64 = 3_600_000;

/// The transactional ids of this cluster.
#[derive(Debug, Default)]
pub(super) struct Book {
    ids: BTreeMap<String, Transaction>,
    /// Which of them hold offsets of a group.
    by_group: BTreeMap<GroupId, BTreeSet<String>>,
    /// When each open one is over.
    due: BTreeSet<(WallMs, String)>,
    bytes: usize,
}

impl Book {
    /// The one of that name.
    pub(super) fn get(&self, id: &str) -> Option<&Transaction> {
        self.ids.get(id)
    }

    /// The same for who must have been told a producer id.
    pub(super) fn known(&self, id: &str) -> Result<&Transaction, TransactionError> {
        self.ids.get(id).ok_or(TransactionError::UnknownProducer)
    }

    /// All of them.
    pub(super) fn list(&self) -> impl Iterator<Item = (&String, &Transaction)> {
        self.ids.iter()
    }

    /// Takes a new state; `None` forgets the name.
    pub(super) fn apply(&mut self, id: &str, next: Option<Transaction>) {
        if let Some(old) = self.ids.remove(id) {
            self.bytes = self.bytes.saturating_sub(id.len() + old.bytes());
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
        self.bytes += id.len() + next.bytes();
        for group in next.groups.keys() {
            self.by_group.entry(group.clone()).or_default().insert(id.to_owned());
        }
        self.due.extend(next.due().map(|due| (due, id.to_owned())));
        self.ids.insert(id.to_owned(), next);
    }

    /// Whether `next` has room; which other name has to be forgotten for it.
    pub(super) fn room(
        &self,
        id: &str,
        next: &Transaction,
        now: WallMs,
    ) -> Result<Option<String>, TransactionError> {
        let old = self.ids.get(id);
        let more = next.bytes().saturating_sub(old.map_or(0, Transaction::bytes));
        if BYTES_MAX < self.bytes + more && more > 0 {
            return Err(TransactionError::TooMany);
        }
        if old.is_some() || self.ids.len() < IDS_MAX {
            return Ok(None);
        }
        let idle = self.ids.iter().filter(|(_, known)| !known.is_open());
        let oldest = idle.min_by_key(|(_, known)| known.updated);
        match oldest {
            Some((oldest, known)) if SILENT_AFTER_MS < now.since(known.updated) => {
                Ok(Some(oldest.clone()))
            }
            _ => Err(TransactionError::TooMany),
        }
    }

    /// Whether an open transaction holds an offset of that partition.
    pub(super) fn is_pending(&self, group: &GroupId, topic: &TopicName, partition: i32) -> bool {
        let Some(ids) = self.by_group.get(group) else { return false };
        let place = (topic.clone(), partition);
        ids.iter().filter_map(|id| self.ids.get(id)).any(|known| {
            known.is_open() && known.groups.get(group).is_some_and(|of| of.contains_key(&place))
        })
    }

    /// When the next open one is over.
    pub(super) fn next_due(&self) -> Option<WallMs> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Those whose time is over.
    pub(super) fn overdue(&self, now: WallMs) -> Vec<String> {
        let over = self.due.iter().take_while(|(due, _)| *due <= now);
        over.map(|(_, id)| id.clone()).collect()
    }

    /// Those nobody has used for so long that they are forgotten.
    pub(super) fn expired(&self, now: WallMs) -> Vec<String> {
        let silent = |known: &Transaction| EXPIRES_AFTER_MS <= now.since(known.updated);
        let expired = self.ids.iter().filter(|(_, known)| !known.is_open() && silent(known));
        expired.map(|(id, _)| id.clone()).collect()
    }
}
