//! Batches of due retries for topics of the cluster behind.
//!
//! ```text
//! slice ──▶ queue ──▶ the server's writer ──▶ retry topic ──▶ noted in the log (`noting.rs`)
//! ```
//! **Invariant:** a partition has one batch on its way, so the offsets of its retries are known and
//! in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{EntryId, RetryPair, RetryPartition, TopicName};
use crate::wire::batch::RawRecord;

/// Batches that wait for the writer; a batch has at most 1 MiB or one record.
const BATCHES_MAX: usize = 16;

/// Due retries for one partition of a retry topic.
#[derive(Debug)]
pub struct ReleaseBatch {
    pub pair: RetryPair,
    pub topic: TopicName,
    pub partition: RetryPartition,
    /// The records with the headers of their delivery.
    pub records: Vec<RawRecord>,
    pub(super) ids: Vec<EntryId>,
    pub(super) bytes: u64,
}

/// The end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The cluster has the records, the first one at this offset.
    Written { base: i64 },
    /// The cluster has none of them, and may take them later.
    Later,
    /// The topic takes no such records, for this reason.
    Refused(String),
    /// The sidecar has no right to write into the topic.
    Denied(String),
}

#[derive(Debug, Default)]
pub(in crate::engine) struct ReleaseQueue {
    batches: Mutex<VecDeque<ReleaseBatch>>,
    arrived: Notify,
}

impl ReleaseQueue {
    pub(super) fn is_full(&self) -> bool {
        self.lock().len() >= BATCHES_MAX
    }

    pub(super) fn put(&self, batch: ReleaseBatch) {
        self.lock().push_back(batch);
        self.arrived.notify_one();
    }

    /// Waits for a batch; several tasks may wait.
    pub(super) async fn take(&self) -> ReleaseBatch {
        loop {
            let next = {
                let mut batches = self.lock();
                let next = batches.pop_front();
                if !batches.is_empty() {
                    self.arrived.notify_one();
                }
                next
            };
            match next {
                Some(batch) => return batch,
                None => self.arrived.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ReleaseBatch>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
