//! What each slot needs of the log: together they say from which sequence it goes on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::store::key::{self, GroupNumber, Key};
use crate::engine::store::log::At;
use crate::engine::store::short::Short;
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
    known: BTreeMap<(u32, u16), Hold>,
    stale: BTreeSet<(u32, u16)>,
}

impl Holds {
    /// Puts one down as its row tells it; false when that is no row of one.
    pub(super) fn load(&mut self, key: &[u8], row: &[u8]) -> bool {
        let read = key.split_last_chunk::<2>().and_then(|(before, slot)| {
            let group = before.last_chunk::<4>()?;
            Some((u32::from_be_bytes(*group), u16::from_be_bytes(*slot)))
        });
        let (Some(of), Some(hold)) = (read, value::decode(row)) else { return false };
        self.known.insert(of, hold);
        true
    }

    pub(super) fn get(&self, group: GroupNumber, slot: Slot) -> Hold {
        self.known.get(&(group.0, slot.0)).copied().unwrap_or_default()
    }

    pub(super) fn put(&mut self, group: GroupNumber, slot: Slot, hold: Hold) {
        self.known.insert((group.0, slot.0), hold);
        self.stale.insert((group.0, slot.0));
    }

    /// Rows that are out of date.
    pub(super) fn take_stale(&mut self) -> Vec<(Key, Short)> {
        let stale = std::mem::take(&mut self.stale);
        let row = |(group, slot): (u32, u16)| {
            let (group, slot) = (GroupNumber(group), Slot(slot));
            let key = Key::of_group(key::HOLD, group).slot(slot);
            (key, value::encode(&self.get(group, slot)))
        };
        stale.into_iter().map(row).collect()
    }
}
