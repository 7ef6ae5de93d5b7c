//! State of one transactional id: its producer and its open transaction. Pure: every step makes the
//! next state, which takes effect once the caller has journalled it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::broker::offsets::{CommitItem, PendingCommit};
use crate::broker::transactions::error::TransactionError;
use crate::model::{GroupId, TopicName, WallMs};

/// Default of Kafka's `transaction.max.timeout.ms`.
pub(super) const TIMEOUT_MS_MAX: u32 = 15 * 60 * 1000;
/// Limit on the partitions and offsets of one transaction together.
pub(super) const PARTS_MAX: usize = 10_000;
/// Estimated memory of one partition or offset besides its texts.
pub(super) const PART_BYTES: usize = 64;
/// Highest epoch of a producer; Kafka uses the last one for fencing.
const EPOCH_MAX: i16 = i16::MAX - 1;

/// A producer's id and epoch; every InitProducerId gives a new pair.
pub type Incarnation = (i64, i16);

/// The state of the last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionPhase {
    /// No transaction since the last InitProducerId.
    Empty,
    Ongoing,
    Committed,
    Aborted,
}

/// A partition in the transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransactionPartition {
    /// The journal stream: a new topic of the same name has another one.
    pub stream: u32,
    pub topic: TopicName,
    pub partition: i32,
}

/// An offset that takes effect when the transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingOffset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read; −1 = unknown.
    pub leader_epoch: i32,
    /// The client's metadata.
    pub metadata: String,
    /// Journal sequence of the entry that brought the offset; 0 = the entry that contains this
    /// state.
    pub order: u64,
}

pub(super) type PendingOffsets = BTreeMap<(TopicName, i32), PendingOffset>;

/// A transactional id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub producer_id: i64,
    pub epoch: i16,
    /// The producer before the last change. A client that missed the answer repeats its request
    /// with this id and epoch.
    pub previous: Option<Incarnation>,
    /// Limit on the time that a transaction is open, in milliseconds.
    pub timeout_ms: u32,
    pub phase: TransactionPhase,
    /// Time when the transaction was opened.
    pub since: WallMs,
    /// Time of the last change.
    pub updated: WallMs,
    pub parts: BTreeSet<TransactionPartition>,
    /// The groups with pending offsets.
    pub groups: BTreeMap<GroupId, PendingOffsets>,
}

/// The additions that a request makes to a transaction.
#[derive(Clone, Debug, Default)]
pub struct Joining {
    pub parts: Vec<TransactionPartition>,
    pub group: Option<GroupId>,
    /// Offsets of `group`.
    pub items: Vec<CommitItem>,
}

/// The outcome of an EndTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The transaction already ended this way.
    Already,
    /// The state after the end.
    Next(Box<Transaction>),
}

impl Transaction {
    /// A new transactional id.
    pub fn new(producer_id: i64, timeout_ms: u32, now: WallMs) -> Self {
        Self {
            producer_id,
            epoch: 0,
            previous: None,
            timeout_ms,
            phase: TransactionPhase::Empty,
            since: now,
            updated: now,
            parts: BTreeSet::new(),
            groups: BTreeMap::new(),
        }
    }

    /// The current producer id and epoch.
    pub fn incarnation(&self) -> Incarnation {
        (self.producer_id, self.epoch)
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.phase == TransactionPhase::Ongoing
    }

    /// The timeout of the open transaction.
    pub fn due(&self) -> Option<WallMs> {
        self.is_open().then(|| self.since.plus(u64::from(self.timeout_ms)))
    }

    /// Checks that the producer id and epoch are the current ones.
    pub fn check(&self, by: Incarnation) -> Result<(), TransactionError> {
        if by.0 != self.producer_id {
            return Err(TransactionError::UnknownProducer);
        }
        if by.1 == self.epoch { Ok(()) } else { Err(TransactionError::Fenced) }
    }

    /// Checks that the producer writes to a partition of its open transaction.
    pub fn check_part(
        &self,
        by: Incarnation,
        part: &TransactionPartition,
    ) -> Result<(), TransactionError> {
        self.check(by)?;
        if self.is_open() && self.parts.contains(part) {
            return Ok(());
        }
        Err(TransactionError::InvalidState)
    }

    /// The state after InitProducerId; an open transaction is aborted. `by` is the id and epoch
    /// that the producer sent (KIP-360). `None`: the request is a repetition and changes nothing.
    /// `fresh` makes a producer id.
    pub fn begun_anew(
        &self,
        by: Option<Incarnation>,
        timeout_ms: u32,
        now: WallMs,
        fresh: impl FnOnce() -> Option<i64>,
    ) -> Result<Option<Self>, TransactionError> {
        match by {
            Some(by) if by == self.incarnation() => {}
            Some(by) if self.previous == Some(by) && !self.is_open() => {
                return Ok(self.begun_again(timeout_ms, now));
            }
            Some(by) if self.previous != Some(by) => return Err(TransactionError::Fenced),
            Some(_) | None => {}
        }
        let mut next =
            self.over(if self.is_open() { TransactionPhase::Aborted } else { self.phase }, now);
        (next.phase, next.timeout_ms) = (TransactionPhase::Empty, timeout_ms);
        next.raise(fresh).ok_or(TransactionError::TooMany)?;
        // A request without id and epoch comes from another process, which fences the earlier one
        // (KIP-360).
        next.previous = by;
        Ok(Some(next))
    }

    /// The state after a repeated InitProducerId; `None` if nothing changes.
    fn begun_again(&self, timeout_ms: u32, now: WallMs) -> Option<Self> {
        let changes = self.phase != TransactionPhase::Empty || self.timeout_ms != timeout_ms;
        changes.then(|| Self { timeout_ms, ..self.over(TransactionPhase::Empty, now) })
    }

    /// Whether the producer may end the transaction this way; true if it already ended so. With
    /// KIP-890 the producer may repeat its last end with the epoch before it, also after a timeout.
    pub fn may_end(
        &self,
        by: Incarnation,
        commits: bool,
        raises: bool,
    ) -> Result<bool, TransactionError> {
        let to = if commits { TransactionPhase::Committed } else { TransactionPhase::Aborted };
        let is_ended =
            matches!(self.phase, TransactionPhase::Committed | TransactionPhase::Aborted);
        if raises && is_ended && self.previous == Some(by) {
            return if self.phase == to { Ok(true) } else { Err(TransactionError::InvalidState) };
        }
        self.check(by)?;
        match self.phase {
            TransactionPhase::Ongoing => Ok(false),
            _ if raises && !commits => Ok(false),
            phase if !raises && phase == to => Ok(true),
            TransactionPhase::Empty | TransactionPhase::Committed | TransactionPhase::Aborted => {
                Err(TransactionError::InvalidState)
            }
        }
    }

    /// The state after EndTxn. `raises` gives the producer the next epoch (KIP-890), and lets it
    /// abort a transaction that never began.
    pub fn ended(
        &self,
        by: Incarnation,
        commits: bool,
        raises: bool,
        now: WallMs,
        fresh: impl FnOnce() -> Option<i64>,
    ) -> Result<End, TransactionError> {
        if self.may_end(by, commits, raises)? {
            return Ok(End::Already);
        }
        let to = if commits { TransactionPhase::Committed } else { TransactionPhase::Aborted };
        let mut next = self.over(to, now);
        if raises {
            next.raise(fresh).ok_or(TransactionError::TooMany)?;
        }
        Ok(End::Next(Box::new(next)))
    }

    /// The state after a timeout: aborted, and the producer is fenced until InitProducerId.
    pub fn timed_out(&self, now: WallMs, fresh: impl FnOnce() -> Option<i64>) -> Option<Self> {
        let mut next = self.over(TransactionPhase::Aborted, now);
        next.raise(fresh)?;
        Some(next)
    }

    /// Producer id and epoch of the end marker; a batch of an earlier epoch is late.
    pub fn marker(&self, next: &Self) -> Incarnation {
        let same = self.producer_id == next.producer_id;
        (self.producer_id, if same { next.epoch } else { self.epoch })
    }

    /// The order of exactly this offset; `None` if the transaction does not have it.
    pub(super) fn order_of(&self, group: &GroupId, item: &CommitItem) -> Option<u64> {
        let pending = self.groups.get(group)?.get(&(item.topic.clone(), item.partition))?;
        let PendingOffset { offset, leader_epoch, metadata, order } = pending;
        let is_same = (*offset, *leader_epoch) == (item.offset, item.leader_epoch)
            && *metadata == item.metadata;
        is_same.then_some(*order)
    }

    /// Sets the order of the pending offsets that came with the entry `seq`.
    pub(super) fn set_order(&mut self, seq: u64) {
        let pending = self.groups.values_mut().flat_map(BTreeMap::values_mut);
        pending.filter(|pending| pending.order == 0).for_each(|pending| pending.order = seq);
    }

    /// The offsets that a commit of the transaction applies.
    pub fn items(&self) -> Vec<(GroupId, Vec<PendingCommit>)> {
        let item =
            |((topic, partition), pending): (&(TopicName, i32), &PendingOffset)| PendingCommit {
                item: CommitItem {
                    topic: topic.clone(),
                    partition: *partition,
                    offset: pending.offset,
                    leader_epoch: pending.leader_epoch,
                    metadata: pending.metadata.clone(),
                },
                order: pending.order,
            };
        let groups = self.groups.iter().filter(|(_, offsets)| !offsets.is_empty());
        groups.map(|(group, of)| (group.clone(), of.iter().map(item).collect())).collect()
    }

    /// Estimated memory in bytes.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.topic.as_str().len()).sum();
        let of = |((topic, _), pending): (&(TopicName, i32), &PendingOffset)| {
            topic.as_str().len() + pending.metadata.len()
        };
        let groups = self
            .groups
            .iter()
            .map(|(group, offsets)| group.as_str().len() + offsets.iter().map(of).sum::<usize>());
        parts + groups.sum::<usize>() + (1 + self.size()) * PART_BYTES
    }

    /// Number of partitions, groups and offsets.
    pub fn size(&self) -> usize {
        self.parts.len() + self.groups.values().map(|offsets| 1 + offsets.len()).sum::<usize>()
    }

    /// The state with nothing open.
    fn over(&self, phase: TransactionPhase, now: WallMs) -> Self {
        Self { phase, updated: now, parts: BTreeSet::new(), groups: BTreeMap::new(), ..*self }
    }

    /// Sets the next epoch, or a new producer id when the epochs are used up.
    fn raise(&mut self, fresh: impl FnOnce() -> Option<i64>) -> Option<()> {
        self.previous = Some(self.incarnation());
        if self.epoch < EPOCH_MAX {
            self.epoch += 1;
        } else {
            (self.producer_id, self.epoch) = (fresh()?, 0);
        }
        Some(())
    }
}
