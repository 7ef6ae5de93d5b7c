//! The transactional ids of this cluster, and the questions that they answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::broker::fact_encoding::FactError;
use crate::broker::transactions::error::TransactionError;
use crate::broker::transactions::state::{Incarnation, Transaction};
use crate::broker::transactions::transaction_book::TransactionBook;
use crate::broker::transactions::{step, transaction_record};
use crate::journal::JournalEntry;
use crate::model::{GroupId, TopicName, WallMs};

/// The transactional ids of this cluster.
#[derive(Debug, Default)]
pub struct Transactions {
    book: Mutex<TransactionBook>,
    /// Notified when a transaction was opened.
    pub(super) opened: Notify,
}

impl Transactions {
    pub(super) fn lock(&self) -> MutexGuard<'_, TransactionBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores one stored transactional id.
    pub(in crate::broker) fn replay(&self, entry: &JournalEntry) -> Result<(), FactError> {
        let unreadable = FactError::Unreadable { what: transaction_record::WHAT };
        let id = entry.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        let id = id.ok_or(unreadable)?;
        let mut next =
            if entry.is_tombstone() { None } else { Some(transaction_record::read(&entry.head)?) };
        if let Some(next) = &mut next {
            next.set_order(entry.seq);
        }
        self.lock().apply(id, next);
        Ok(())
    }

    /// Restores one step; a step of an ended transaction is ignored.
    pub(in crate::broker) fn replay_step(&self, entry: &JournalEntry) -> Result<(), FactError> {
        if let Some((producer_id, number, step)) = step::read(entry)? {
            let mut book = self.lock();
            if let Some(id) = book.of_producer(producer_id).cloned() {
                book.step(&id, number, step.ordered(entry.seq));
            }
        }
        Ok(())
    }

    /// Whether an open transaction has a pending offset of the partition.
    pub fn is_pending(&self, group: &GroupId, topic: &TopicName, partition: i32) -> bool {
        self.lock().is_pending(group, topic, partition)
    }

    /// The groups with offsets in the transaction.
    pub fn groups(&self, id: &str) -> Vec<GroupId> {
        self.lock().get(id).map(|known| known.groups.keys().cloned().collect()).unwrap_or_default()
    }

    /// Every transactional id, by name.
    pub fn list(&self) -> Vec<(String, Transaction)> {
        self.lock().list().map(|(id, known)| (id.clone(), known.clone())).collect()
    }

    pub fn find(&self, id: &str) -> Option<Transaction> {
        self.lock().get(id).cloned()
    }

    /// Whether the transaction of this producer epoch is open.
    pub fn is_open(&self, id: &str, by: Incarnation) -> bool {
        self.lock().get(id).is_some_and(|known| known.is_open() && known.check(by).is_ok())
    }

    /// Checks that the producer id and epoch are the current ones of the transactional id.
    pub fn speaks(&self, id: &str, by: Incarnation) -> Result<(), TransactionError> {
        self.lock().known(id)?.check(by)
    }

    /// Whether this producer epoch may end its transaction this way; true if it already ended so.
    pub fn may_end(
        &self,
        id: &str,
        by: Incarnation,
        commits: bool,
        raises: bool,
    ) -> Result<(), TransactionError> {
        self.lock().known(id)?.may_end(by, commits, raises).map(drop)
    }

    /// Number of open transactions.
    pub fn open(&self) -> usize {
        self.lock().open()
    }

    /// The earliest timeout of an open transaction.
    pub fn next_due(&self) -> Option<WallMs> {
        self.lock().next_due()
    }

    /// Returns when a transaction was opened since the last call.
    pub async fn opened(&self) {
        self.opened.notified().await;
    }
}
