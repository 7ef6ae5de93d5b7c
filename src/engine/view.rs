//! What people and metrics see of the engine.

use crate::engine::store::Store;
use crate::model::{GroupId, WallMs};
use crate::retry::{Counts, Entries, Entry, SlotRecord};

/// One entry, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    /// All that is known of it but its bytes.
    pub entry: Entry,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        Self { entry }
    }
}

/// One group, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its id.
    pub group: GroupId,
    /// Entries by state and level.
    pub counts: Counts,
    /// Waiting entries whose time has come.
    pub due: u64,
    /// The first due time of all that wait.
    pub first_due: Option<WallMs>,
    /// When the oldest hand-out that is not settled left.
    pub oldest_out: Option<WallMs>,
    /// Lane slots, held or not.
    pub slots: Vec<SlotRecord>,
}

impl GroupView {
    /// The group as the store has it.
    pub(super) fn of(store: &Store, group: &GroupId, now: WallMs) -> Self {
        Self {
            group: group.clone(),
            counts: store.counts(group),
            due: store.count_due(group, now),
            first_due: store.next_due(group, None),
            oldest_out: store.oldest_out(group),
            slots: store.slots(group),
        }
    }

    /// Whether a member holds a slot; in front of a cluster it may be silent.
    pub fn has_slot_holder(&self) -> bool {
        self.slots.iter().any(|slot| slot.member.is_some())
    }
}
