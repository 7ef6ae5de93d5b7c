//! One step of an open transaction: an addition or a loss. Only the step is journalled, so a large
//! transaction costs the log its content once. The whole state is journalled when a transaction
//! begins and ends, which makes the earlier steps obsolete.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::broker::fact_encoding::{self, FactError};
use crate::broker::kind;
use crate::broker::offsets::CommitItem;
use crate::broker::transactions::error::TransactionError;
use crate::broker::transactions::state::{
    Incarnation, Joining, PART_BYTES, PARTS_MAX, PendingOffset, PendingOffsets, Transaction,
    TransactionPartition, TransactionPhase,
};
use crate::journal::{JournalEntry, NewEntry};
use crate::model::{GroupId, TopicName, WallMs};

const WHAT: &str = "step of a transaction";
const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionStep {
    at: WallMs,
    change: TransactionChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TransactionChange {
    /// Adds partitions, a group or offsets.
    Joins {
        parts: Vec<TransactionPartition>,
        /// The group of the offsets.
        group: Option<GroupId>,
        offsets: Vec<((TopicName, i32), PendingOffset)>,
    },
    /// Removes a deleted topic, so that a new topic of the same name is not part of the
    /// transaction.
    Loses(TopicName),
    /// Removes deleted offsets of a group, so that a commit does not restore them.
    LosesOffsets { group: GroupId, places: BTreeSet<(TopicName, i32)> },
}

/// The outcome of an addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdditionOutcome {
    /// The transaction was opened.
    Opened(Box<Transaction>),
    /// The transaction was already open.
    Step(TransactionStep),
}

impl Transaction {
    /// Adds to a transaction, and opens it if necessary; `None` if it has everything already.
    pub fn joining(
        &self,
        by: Incarnation,
        joining: Joining,
        now: WallMs,
    ) -> Result<Option<AdditionOutcome>, TransactionError> {
        self.check(by)?;
        let Joining { mut parts, group, items } = joining;
        parts.retain(|part| !self.parts.contains(part));
        let known = group.as_ref().and_then(|group| self.groups.get(group));
        let offsets: Vec<_> = items.into_iter().map(pending).collect();
        let group = group.filter(|_| known.is_none() || !offsets.is_empty());
        if self.is_open() && parts.is_empty() && group.is_none() {
            return Ok(None);
        }
        let is_new = |(place, _): &&((TopicName, i32), PendingOffset)| {
            known.is_none_or(|of| !of.contains_key(place))
        };
        let more = parts.len()
            + usize::from(group.is_some() && known.is_none())
            + offsets.iter().filter(is_new).count();
        if PARTS_MAX < self.size() + more {
            return Err(TransactionError::TooMany);
        }
        let step =
            TransactionStep { at: now, change: TransactionChange::Joins { parts, group, offsets } };
        if self.is_open() {
            return Ok(Some(AdditionOutcome::Step(step)));
        }
        let mut next = Self { phase: TransactionPhase::Ongoing, since: now, ..self.clone() };
        next.take(step);
        Ok(Some(AdditionOutcome::Opened(Box::new(next))))
    }

    /// The step by which the transaction loses a deleted topic, if it has anything of it.
    pub fn losing(&self, topic: &TopicName, now: WallMs) -> Option<TransactionStep> {
        let has_offset = |offsets: &PendingOffsets| offsets.keys().any(|(of, _)| of == topic);
        let has_part = self.parts.iter().any(|part| part.topic == *topic);
        let has = has_part || self.groups.values().any(has_offset);
        has.then(|| TransactionStep { at: now, change: TransactionChange::Loses(topic.clone()) })
    }

    /// The step by which the transaction loses deleted offsets of a group, if it has any of them.
    pub fn losing_offsets(
        &self,
        group: &GroupId,
        goes: impl Fn(&TopicName, i32) -> bool,
        now: WallMs,
    ) -> Option<TransactionStep> {
        let held = self.groups.get(group)?.keys();
        let lost = held.filter(|(topic, partition)| goes(topic, *partition));
        let places: BTreeSet<_> = lost.cloned().collect();
        let has = !places.is_empty();
        let group = group.clone();
        has.then_some(TransactionStep {
            at: now,
            change: TransactionChange::LosesOffsets { group, places },
        })
    }

    /// Applies a journalled step.
    pub fn take(&mut self, step: TransactionStep) {
        self.updated = step.at;
        match step.change {
            TransactionChange::Joins { parts, group, offsets } => {
                self.parts.extend(parts);
                if let Some(group) = group {
                    self.groups.entry(group).or_default().extend(offsets);
                }
            }
            TransactionChange::Loses(topic) => {
                self.parts.retain(|part| part.topic != topic);
                for offsets in self.groups.values_mut() {
                    offsets.retain(|(of, _), _| *of != topic);
                }
            }
            TransactionChange::LosesOffsets { group, places } => {
                if let Some(offsets) = self.groups.get_mut(&group) {
                    offsets.retain(|place, _| !places.contains(place));
                }
            }
        }
    }
}

impl TransactionStep {
    /// Sets the order of the offsets to `seq`, the sequence of the step's entry.
    pub(super) fn ordered(mut self, seq: u64) -> Self {
        if let TransactionChange::Joins { offsets, .. } = &mut self.change {
            for (_, pending) in offsets {
                pending.order = seq;
            }
        }
        self
    }

    /// The group of the step's offsets.
    pub fn group(&self) -> Option<&GroupId> {
        match &self.change {
            TransactionChange::Joins { group, .. } => group.as_ref(),
            TransactionChange::Loses(_) | TransactionChange::LosesOffsets { .. } => None,
        }
    }

    /// Estimated memory, in the measure of [`Transaction::bytes`].
    pub fn bytes(&self) -> usize {
        match &self.change {
            TransactionChange::Joins { parts, group, offsets } => {
                let each = parts.iter().map(|part| part.topic.as_str().len());
                let offset = |((topic, _), pending): &((TopicName, i32), PendingOffset)| {
                    topic.as_str().len() + pending.metadata.len()
                };
                let group_bytes = group.iter().map(|group| group.as_str().len() + PART_BYTES);
                let texts = each.chain(offsets.iter().map(offset)).map(|text| text + PART_BYTES);
                texts.chain(group_bytes).sum()
            }
            TransactionChange::Loses(_) | TransactionChange::LosesOffsets { .. } => 0,
        }
    }
}

/// The entry of a step; `number` counts the steps since the state was journalled whole.
pub(super) fn entry(producer_id: i64, number: u32, step: &TransactionStep) -> NewEntry {
    let head = fact_encoding::write(VERSION, step);
    NewEntry::keyed(kind::TRANSACTION_STEP, key(producer_id, number), head, Bytes::new())
}

/// Tombstones of the first `steps` steps.
pub(super) fn ends(producer_id: i64, steps: u32) -> impl Iterator<Item = NewEntry> {
    let end = move |number| NewEntry::tombstone(kind::TRANSACTION_STEP, key(producer_id, number));
    (0..steps).map(end)
}

/// Producer id, number and step of an entry; `None` for a tombstone.
pub(super) fn read(entry: &JournalEntry) -> Result<Option<(i64, u32, TransactionStep)>, FactError> {
    let unreadable = FactError::Unreadable { what: WHAT };
    let key = entry.key.as_deref().ok_or(unreadable)?;
    let (producer_id, number) = key.split_first_chunk::<8>().ok_or(unreadable)?;
    let number = <[u8; 4]>::try_from(number).map_err(|_| unreadable)?;
    if entry.is_tombstone() {
        return Ok(None);
    }
    let step = fact_encoding::read(WHAT, VERSION, &entry.head)?;
    Ok(Some((i64::from_be_bytes(*producer_id), u32::from_be_bytes(number), step)))
}

/// The producer id has 8 bytes; the transactional id may be long.
fn key(producer_id: i64, number: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(12);
    key.put_i64(producer_id);
    key.put_u32(number);
    key.freeze()
}

fn pending(item: CommitItem) -> ((TopicName, i32), PendingOffset) {
    let CommitItem { topic, partition, offset, leader_epoch, metadata } = item;
    ((topic, partition), PendingOffset { offset, leader_epoch, metadata, order: 0 })
}
