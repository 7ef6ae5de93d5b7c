//! What each slot needs of the log: together they say from which sequence it goes on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::store::key::{self, GroupNumber, Key};
use crate::engine::store::log::At;
use crate::engine::store::value;
use crate::model::Slot;

/// The references of one slot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    /// The latest fact of the slot.
    pub(super) slot: Option<At>,
    /// The latest hand-out after that.
    pub(super) handout: Option<Handout>,
}

/// The fact of a hand-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handout {
    /// The entry handed out.
    pub(super) id: u64,
    /// The hand-out's number in its slot.
    pub(super) sequence: u64,
    /// The fact.
    pub(super) at: At,
}

/// Those of all slots, which change with every hand-out: rows are written with the next flush.
#[derive(Debug, Default)]
pub(super) struct Holds {
    known: BTreeMap<(GroupNumber, Slot), Hold>,
    stale: BTreeSet<(GroupNumber, Slot)>,
}

impl Holds {
    /// Puts one down as its row tells it; false when that is no row of one.
    pub(super) fn load(&mut self, key: &[u8], row: &[u8]) -> bool {
        let of = key::read_group(key).zip(key::read_slot(key));
        let (Some(of), Some(hold)) = (of, value::decode(row)) else { return false };
        self.known.insert(of, hold);
        true
    }

    pub(super) fn get(&self, group: GroupNumber, slot: Slot) -> Hold {
        self.known.get(&(group, slot)).copied().unwrap_or_default()
    }

    pub(super) fn put(&mut self, group: GroupNumber, slot: Slot, hold: Hold) {
        self.known.insert((group, slot), hold);
        self.stale.insert((group, slot));
    }

    /// Rows that are out of date.
    pub(super) fn take_stale(&mut self) -> Vec<(Key, Hold)> {
        let stale = std::mem::take(&mut self.stale);
        let row = |(group, slot)| {
            let key = Key::of_group(key::HOLD, group).slot(slot);
            (key, self.get(group, slot))
        };
        stale.into_iter().map(row).collect()
    }
}
