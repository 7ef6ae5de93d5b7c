//! Partitions that keep keys in order. A Fetch checks them before it asks the engine.
//!
//! A gate counts entries by 16 bits of their key, which bounds its memory. A Fetch that gets
//! "perhaps" asks the engine. The engine's thread changes the gate together with the entries,
//! before it answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::model::{GroupId, OrderKey, TopicPartition};
use crate::retry::{Entry, Rank};

/// All gates; a partition without a gate keeps no key in order.
#[derive(Debug, Default)]
pub(super) struct Gates {
    all: RwLock<BTreeMap<GroupId, BTreeMap<TopicPartition, Arc<Gate>>>>,
    /// Incremented for every entry that begins to block its key.
    epoch: AtomicU64,
}

/// The gate of one partition of one group.
#[derive(Debug, Default)]
pub struct Gate(Mutex<StopCounts>);

#[derive(Debug, Default)]
struct StopCounts {
    keys: HashMap<u16, u64>,
    all: u64,
    behind: u64,
    epoch: u64,
}

/// The place of an entry in the queue of its key.
type Line = (GroupId, TopicPartition, OrderKey, Rank);

impl Gates {
    /// The gate of a partition; `None` when it keeps no key in order.
    pub(super) fn of(&self, group: &GroupId, of: &TopicPartition) -> Option<Arc<Gate>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(group)?.get(of).cloned()
    }

    /// Epoch of the last block of a key in a partition, unique among blocks; 0 for none.
    pub(super) fn epoch(&self, group: &GroupId, of: &TopicPartition) -> u64 {
        self.of(group, of).map_or(0, |gate| gate.lock().epoch)
    }

    /// Takes the gates of `other`; all its keys count as blocked just now.
    pub(super) fn replace(&self, other: &Self) {
        let all = std::mem::take(&mut *other.all.write().unwrap_or_else(PoisonError::into_inner));
        for gate in all.values().flat_map(BTreeMap::values) {
            gate.lock().epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        }
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Updates the gates for a changed entry.
    pub(super) fn change(&self, before: Option<&Entry>, after: Option<&Entry>) {
        let line = |entry: Option<&Entry>| {
            let (origin, key, rank) = entry?.lined()?;
            let (topic, partition) = (origin.topic.clone(), origin.partition);
            Some((entry?.group.clone(), TopicPartition { topic, partition }, key, rank))
        };
        let (before, after) = (line(before), line(after));
        if before != after {
            self.moves(before, after);
        }
    }

    fn moves(&self, before: Option<Line>, after: Option<Line>) {
        let stopped = before.as_ref().is_some_and(|(.., rank)| *rank != Rank::Past);
        // Add before remove, so that the gate does not vanish in between.
        if let Some((group, of, key, rank)) = after {
            self.add(&group, &of, (key, rank), rank == Rank::Ahead && !stopped);
        }
        if let Some((group, of, key, rank)) = before {
            self.take(&group, &of, key, rank);
        }
    }

    /// Adds an entry; `stops` says that its key was not blocked before.
    fn add(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        (key, rank): (OrderKey, Rank),
        stops: bool,
    ) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let partitions = all.entry(group.clone()).or_default();
        let gate = partitions.entry(of.clone()).or_default();
        let mut counts = gate.lock();
        *counts.keys.entry(bucket(key)).or_default() += 1;
        counts.all += 1;
        if rank == Rank::Behind {
            counts.behind += 1;
        }
        if stops {
            counts.epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        }
    }

    fn take(&self, group: &GroupId, of: &TopicPartition, key: OrderKey, rank: Rank) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let Some(partitions) = all.get_mut(group) else { return };
        let Some(gate) = partitions.get(of) else { return };
        let is_empty = {
            let mut counts = gate.lock();
            if let Some(count) = counts.keys.get_mut(&bucket(key)) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.keys.remove(&bucket(key));
                }
            }
            counts.all = counts.all.saturating_sub(1);
            if rank == Rank::Behind {
                counts.behind = counts.behind.saturating_sub(1);
            }
            counts.all == 0
        };
        if is_empty {
            partitions.remove(of);
            if partitions.is_empty() {
                all.remove(group);
            }
        }
    }
}

impl Gate {
    /// Says whether any record of this key may have an entry.
    pub fn may_stop(&self, key: OrderKey) -> bool {
        self.lock().keys.contains_key(&bucket(key))
    }

    /// Number of records that wait behind others.
    pub fn behind(&self) -> u64 {
        self.lock().behind
    }

    fn lock(&self) -> MutexGuard<'_, StopCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bucket(OrderKey([high, low, ..]): OrderKey) -> u16 {
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_exists_while_keys_are_ordered_and_counts_stops() {
        let (gates, group) = (Gates::default(), GroupId::new("shop"));
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let (key, other) = (OrderKey([7; 16]), OrderKey([8; 16]));
        assert!(gates.of(&group, &of).is_none());
        assert_eq!(gates.epoch(&group, &of), 0);
        let line = |key, rank| Some((group.clone(), of.clone(), key, rank));
        gates.moves(None, line(key, Rank::Ahead));
        let first = gates.epoch(&group, &of);
        gates.moves(None, line(key, Rank::Behind));
        let gate = gates.of(&group, &of).unwrap();
        assert_eq!((gate.may_stop(key), gate.may_stop(other), gate.behind()), (true, false, 1));
        assert_eq!(gates.epoch(&group, &of), first, "behind another one it stops nothing new");
        gates.moves(line(key, Rank::Ahead), line(key, Rank::Past));
        gates.moves(line(key, Rank::Behind), line(key, Rank::Ahead));
        assert_eq!(gates.epoch(&group, &of), first, "nor when it is let go: its key was stopped");
        gates.moves(line(key, Rank::Ahead), None);
        assert!(gates.of(&group, &of).unwrap().may_stop(key), "the commit has not passed it");
        gates.moves(line(key, Rank::Past), line(key, Rank::Ahead));
        assert!(gates.epoch(&group, &of) > first, "but when the group goes back to it");
        let second = gates.epoch(&group, &of);
        gates.moves(line(key, Rank::Ahead), None);
        assert!(gates.of(&group, &of).is_none());
        gates.moves(None, line(key, Rank::Ahead));
        assert!(gates.epoch(&group, &of) > second);
    }
}
