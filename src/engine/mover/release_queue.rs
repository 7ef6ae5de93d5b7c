//! Batches of due retries and of dead letters for topics of the cluster behind.
//!
//! ```text
//! slice ──▶ queue ──▶ the server's writer ──▶ topic ──▶ noted in the log (`noting.rs`)
//! ```
//! **Invariant:** a partition has one batch on its way, so the offsets of its retries are known and
//! in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{EntryId, GroupId, RetryPair, RetryPartition, TopicName};
use crate::wire::batch::RawRecord;

/// Batches that wait for the writer; a batch has at most 1 MiB or one record.
const BATCHES_MAX: usize = 16;

/// The destination of a batch.
#[derive(Clone, Debug)]
pub enum ReleaseTarget {
    /// A partition of the pair's retry topic.
    Retries(RetryPair, RetryPartition),
    /// The dead-letter topic of the group.
    Letters(GroupId),
}

/// Records for one partition of a topic.
#[derive(Debug)]
pub struct ReleaseBatch {
    pub target: ReleaseTarget,
    pub topic: TopicName,
    /// The records with the sidecar's headers.
    pub records: Vec<RawRecord>,
    pub(in crate::engine) ids: Vec<EntryId>,
    pub(in crate::engine) bytes: u64,
}

impl ReleaseBatch {
    pub fn group(&self) -> &GroupId {
        match &self.target {
            ReleaseTarget::Retries(pair, _) => &pair.group,
            ReleaseTarget::Letters(group) => group,
        }
    }

    pub fn partition(&self) -> i32 {
        match &self.target {
            ReleaseTarget::Retries(_, partition) => i32::from(partition.index),
            // A dead-letter topic has one partition.
            ReleaseTarget::Letters(_) => 0,
        }
    }
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
    letters: Notify,
    /// Batches of dead letters that have ended.
    letters_ended: AtomicU64,
    troubles: Mutex<BTreeMap<GroupId, String>>,
}

impl ReleaseQueue {
    /// A dead-letter topic is to be read now.
    pub(in crate::engine) fn ask_for_letters(&self) {
        self.letters.notify_one();
    }

    /// A batch of dead letters has ended. Returns their number so far.
    pub(in crate::engine) fn end_letters(&self) -> u64 {
        self.ask_for_letters();
        self.letters_ended.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The number of batches of dead letters that have ended.
    pub(in crate::engine) fn count_ended(&self) -> u64 {
        self.letters_ended.load(Ordering::SeqCst)
    }

    pub(in crate::engine) async fn wait_for_letters(&self) {
        self.letters.notified().await;
    }

    /// The reasons why dead letters do not reach their topic, by group.
    pub(in crate::engine) fn troubles(&self) -> MutexGuard<'_, BTreeMap<GroupId, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::engine) fn is_full(&self) -> bool {
        self.lock().len() >= BATCHES_MAX
    }

    pub(in crate::engine) fn put(&self, batch: ReleaseBatch) {
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
