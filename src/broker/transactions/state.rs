//! One transactional id: who produces under it, and the transaction that is open. Pure: every step
//! makes the next state, which takes effect when it has been written down.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::broker::offsets::{CommitItem, PendingCommit};
use crate::broker::transactions::error::TransactionError;
use crate::model::{GroupId, TopicName, WallMs};

/// Kafka's `transaction.max.timeout.ms`.
pub(super) const TIMEOUT_MS_MAX: u32 = 15 * 60 * 1000;
/// Partitions and offsets of one transaction, together.
pub(super) const PARTS_MAX: usize = 10_000;
/// Batches of one transaction that belong to no log: they are read back together.
pub(super) const HELD_BYTES_MAX: u64 = 16 << 20;
/// Room one part is taken to need besides its texts.
pub(super) const PART_BYTES: usize = 64;
/// Epochs up to here are given; Kafka keeps the last one for fencing.
const EPOCH_MAX: i16 = i16::MAX - 1;

/// A producer's id and epoch: whoever begins anew has another.
pub type Incarnation = (i64, i16);

/// What was asked last for a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing has been written yet.
    Empty,
    /// Open.
    Ongoing,
    /// Ended so.
    Committed,
    /// Ended so.
    Aborted,
}

/// A partition that takes part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// Its stream: a topic made anew under the same name has another.
    pub stream: u32,
    /// Its topic.
    pub topic: TopicName,
    /// Its number.
    pub partition: i32,
}

/// A batch for a topic without a log, which counts when the transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Where its bytes are.
    pub number: u32,
    /// Of its first record: who sends it again is known by it.
    pub first_sequence: i32,
    /// Whose.
    pub topic: TopicName,
    /// How many bytes it has.
    pub bytes: u32,
}

/// An offset that counts when the transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The next offset to read.
    pub offset: i64,
    /// Of the last record read.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: String,
    /// The sequence number of the entry that brought it; 0 = the entry in which it lies.
    #[serde(skip)]
    pub order: u64,
}

/// Offsets of one group.
pub(super) type PendingOffsets = BTreeMap<(TopicName, i32), Pending>;

/// A transactional id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Of its producer.
    pub producer_id: i64,
    /// Of its producer.
    pub epoch: i16,
    /// What it was before the last step that changed it: an answer may have been lost.
    pub previous: Option<Incarnation>,
    /// How long one may be open.
    pub timeout_ms: u32,
    /// Where it is.
    pub phase: Phase,
    /// When it was opened.
    pub since: WallMs,
    /// When it was last heard of.
    pub updated: WallMs,
    /// Partitions written to.
    pub parts: BTreeSet<Part>,
    /// Groups whose offsets are in it.
    pub groups: BTreeMap<GroupId, PendingOffsets>,
    /// Batches for topics without a log, in the order they came.
    pub held: Vec<Held>,
}

/// What a request asks to be made part of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Joining {
    /// Partitions.
    pub parts: Vec<Part>,
    /// A group.
    pub group: Option<GroupId>,
    /// Offsets of that group.
    pub items: Vec<CommitItem>,
}

/// What asks a transaction to end leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is ended so already.
    Already,
    /// To this.
    Next(Box<Transaction>),
}

impl Transaction {
    /// A transactional id nobody had.
    pub fn new(producer_id: i64, timeout_ms: u32, now: WallMs) -> Self {
        Self {
            producer_id,
            epoch: 0,
            previous: None,
            timeout_ms,
            phase: Phase::Empty,
            since: now,
            updated: now,
            parts: BTreeSet::new(),
            groups: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// Its producer.
    pub fn incarnation(&self) -> Incarnation {
        (self.producer_id, self.epoch)
    }

    /// Whether one is open.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Ongoing
    }

    /// When an open one has to be over.
    pub fn due(&self) -> Option<WallMs> {
        self.is_open().then(|| self.since.plus(u64::from(self.timeout_ms)))
    }

    /// Whether this incarnation speaks for it.
    pub fn check(&self, by: Incarnation) -> Result<(), TransactionError> {
        if by.0 != self.producer_id {
            return Err(TransactionError::UnknownProducer);
        }
        if by.1 == self.epoch { Ok(()) } else { Err(TransactionError::Fenced) }
    }

    /// Whether this incarnation writes to that partition in a transaction that is open.
    pub fn check_part(&self, by: Incarnation, part: &Part) -> Result<(), TransactionError> {
        self.check(by)?;
        if self.is_open() && self.parts.contains(part) {
            return Ok(());
        }
        Err(TransactionError::InvalidState)
    }

    /// The next incarnation. What is open is aborted. `by`: who it says it is (KIP-360). `None`:
    /// it is that already, its answer was lost. `fresh` makes a producer id.
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
        let mut next = self.over(if self.is_open() { Phase::Aborted } else { self.phase }, now);
        (next.phase, next.timeout_ms) = (Phase::Empty, timeout_ms);
        next.raise(fresh).ok_or(TransactionError::TooMany)?;
        // Who does not say who it was is another one: whoever was it before is fenced (KIP-360).
        next.previous = by;
        Ok(Some(next))
    }

    /// Answers a repeated InitProducerId with this incarnation; `None`: nothing changes.
    fn begun_again(&self, timeout_ms: u32, now: WallMs) -> Option<Self> {
        let changes = self.phase != Phase::Empty || self.timeout_ms != timeout_ms;
        changes.then(|| Self { timeout_ms, ..self.over(Phase::Empty, now) })
    }

    /// Whether this incarnation may end it so; true: it is ended so already. With KIP-890 the one
    /// before the last end repeats that end, also where its time ended it.
    pub fn may_end(
        &self,
        by: Incarnation,
        commits: bool,
        raises: bool,
    ) -> Result<bool, TransactionError> {
        let to = if commits { Phase::Committed } else { Phase::Aborted };
        let is_ended = matches!(self.phase, Phase::Committed | Phase::Aborted);
        if raises && is_ended && self.previous == Some(by) {
            return if self.phase == to { Ok(true) } else { Err(TransactionError::InvalidState) };
        }
        self.check(by)?;
        match self.phase {
            Phase::Ongoing => Ok(false),
            _ if raises && !commits => Ok(false),
            phase if !raises && phase == to => Ok(true),
            Phase::Empty | Phase::Committed | Phase::Aborted => Err(TransactionError::InvalidState),
        }
    }

    /// Ends it. `raises`: the producer goes on in the next epoch (KIP-890), and may abort what
    /// has never begun to get there.
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
        let to = if commits { Phase::Committed } else { Phase::Aborted };
        let mut next = self.over(to, now);
        if raises {
            next.raise(fresh).ok_or(TransactionError::TooMany)?;
        }
        Ok(End::Next(Box::new(next)))
    }

    /// Aborts it after its timeout; the producer is fenced until it aborts or begins anew.
    pub fn timed_out(&self, now: WallMs, fresh: impl FnOnce() -> Option<i64>) -> Option<Self> {
        let mut next = self.over(Phase::Aborted, now);
        next.raise(fresh)?;
        Some(next)
    }

    /// The epoch its end is marked with: what comes in an earlier one is late.
    pub fn marker(&self, next: &Self) -> Incarnation {
        let same = self.producer_id == next.producer_id;
        (self.producer_id, if same { next.epoch } else { self.epoch })
    }

    /// Every pending offset.
    pub(super) fn pending_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.groups.values_mut().flat_map(BTreeMap::values_mut)
    }

    /// The order of this very offset; `None`: the transaction does not have it.
    pub(super) fn order_of(&self, group: &GroupId, item: &CommitItem) -> Option<u64> {
        let pending = self.groups.get(group)?.get(&(item.topic.clone(), item.partition))?;
        let Pending { offset, leader_epoch, metadata, order } = pending;
        let is_same = (*offset, *leader_epoch) == (item.offset, item.leader_epoch)
            && *metadata == item.metadata;
        is_same.then_some(*order)
    }

    /// Gives the pending offsets of the entry `seq` their order.
    pub(super) fn set_order(&mut self, seq: u64) {
        self.pending_mut()
            .filter(|pending| pending.order == 0)
            .for_each(|pending| pending.order = seq);
    }

    /// The offsets it commits.
    pub fn items(&self) -> Vec<(GroupId, Vec<PendingCommit>)> {
        let item = |((topic, partition), pending): (&(TopicName, i32), &Pending)| PendingCommit {
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

    /// About the memory it takes.
    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.topic.as_str().len()).sum();
        let of = |((topic, _), pending): (&(TopicName, i32), &Pending)| {
            topic.as_str().len() + pending.metadata.len()
        };
        let held: usize = self.held.iter().map(|held| held.topic.as_str().len()).sum();
        let groups = self
            .groups
            .iter()
            .map(|(group, offsets)| group.as_str().len() + offsets.iter().map(of).sum::<usize>());
        parts + held + groups.sum::<usize>() + (1 + self.size()) * PART_BYTES
    }

    /// Partitions, batches, groups and offsets.
    pub fn size(&self) -> usize {
        self.parts.len()
            + self.held.len()
            + self.groups.values().map(|offsets| 1 + offsets.len()).sum::<usize>()
    }

    /// The same without what was open.
    fn over(&self, phase: Phase, now: WallMs) -> Self {
        Self {
            phase,
            updated: now,
            parts: BTreeSet::new(),
            groups: BTreeMap::new(),
            held: Vec::new(),
            ..*self
        }
    }

    /// The next epoch, or another producer id when there are no more.
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
