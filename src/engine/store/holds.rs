//! References of slots into the log: together they give the sequence at which each slot continues.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::store::key::{self, GroupNumber, RowKey};
use crate::engine::store::log::StoredRef;
use crate::engine::store::value;
use crate::model::RetryPartition;

/// The references of one slot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    /// The latest fact of the slot.
    pub(super) slot: Option<StoredRef>,
    /// The latest delivery after that fact.
    pub(super) handout: Option<DeliveryFact>,
}

/// The fact of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveryFact {
    /// The delivered entry.
    pub(super) id: u64,
    /// The delivery's sequence in its slot.
    pub(super) sequence: u64,
    pub(super) at: StoredRef,
}

/// The references of all slots. Every delivery changes them, so the next flush writes their rows.
#[derive(Debug, Default)]
pub(super) struct Holds {
    known: BTreeMap<(GroupNumber, RetryPartition), Hold>,
    stale: BTreeSet<(GroupNumber, RetryPartition)>,
}

impl Holds {
    /// Loads a slot's references from their row; false for an invalid row.
    pub(super) fn load(&mut self, key: &[u8], row: &[u8]) -> bool {
        let of = key::read_group(key).zip(key::read_slot(key));
        let (Some(of), Some(hold)) = (of, value::decode(row)) else { return false };
        self.known.insert(of, hold);
        true
    }

    pub(super) fn get(&self, group: GroupNumber, slot: RetryPartition) -> Hold {
        self.known.get(&(group, slot)).copied().unwrap_or_default()
    }

    pub(super) fn put(&mut self, group: GroupNumber, slot: RetryPartition, hold: Hold) {
        self.known.insert((group, slot), hold);
        self.stale.insert((group, slot));
    }

    /// Takes the rows that are out of date.
    pub(super) fn take_stale(&mut self) -> Vec<(RowKey, Hold)> {
        let stale = std::mem::take(&mut self.stale);
        let row = |(group, slot)| {
            let key = RowKey::of_group(key::HOLD, group).slot(slot);
            (key, self.get(group, slot))
        };
        stale.into_iter().map(row).collect()
    }
}
