//! What memory holds of a group: its number, counts and slots.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::store::Store;
use crate::engine::store::key::{self, GroupNumber, Key};
use crate::engine::store::value::{self, GroupRow, SlotRow};
use crate::model::{EntryId, GroupId, Slot, WallMs};
use crate::retry::{Counts, Entry, SlotRecord, State};

/// One group with an entry, a slot or a reference into the log.
#[derive(Debug)]
pub(super) struct Group {
    /// What it is called in keys.
    pub(super) number: GroupNumber,
    pub(super) counts: Counts,
    pub(super) slots: BTreeMap<Slot, SlotRecord>,
    /// Sequences of the hand-outs each slot has open, 500 at most; none is no key.
    pub(super) open: BTreeMap<Slot, BTreeSet<u64>>,
    /// Nothing waits before this due time and id. The disk has the rows of what went from there
    /// until the next flush, and every Fetch would pass over them.
    front: Cell<(WallMs, EntryId)>,
}

impl Group {
    fn new(number: GroupNumber) -> Self {
        let (counts, slots, open) = (Counts::default(), BTreeMap::new(), BTreeMap::new());
        let front = Cell::new((WallMs(i64::MIN), EntryId(0)));
        Self { number, counts, slots, open, front }
    }

    pub(super) fn of_row(row: GroupRow) -> Self {
        let mut group = Self::new(GroupNumber(row.0));
        group.counts = value::read_counts(row);
        group
    }

    /// Puts down a slot as its row tells it; false when that is no slot's row.
    pub(super) fn load_slot(&mut self, key: &[u8], row: Option<SlotRow>) -> bool {
        let slot = key.last_chunk::<2>().map(|slot| Slot(u16::from_be_bytes(*slot)));
        let (Some(slot), Some((member, next_sequence))) = (slot, row) else { return false };
        self.slots.insert(slot, SlotRecord { slot, member, next_sequence });
        true
    }

    /// Counts a hand-out as its row tells it; false when that is no row of one.
    pub(super) fn load_open(&mut self, key: &[u8]) -> bool {
        let Some(lane) = key::read_lane(key) else { return false };
        self.open.entry(lane.slot).or_default().insert(lane.sequence)
    }

    /// Nothing the machine knows of.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.counts.by_state.is_empty()
    }

    pub(super) fn count(&mut self, entry: &Entry) {
        if let State::Waiting { level, .. } = entry.state {
            *self.counts.waiting.entry(level).or_default() += 1;
        }
        *self.counts.by_state.entry(entry.state.kind()).or_default() += 1;
        if let Some(lane) = entry.inflight() {
            self.open.entry(lane.slot).or_default().insert(lane.sequence);
        }
        if let Some(due) = entry.due() {
            self.front.set(self.front.get().min((due, entry.id)));
        }
    }

    pub(super) fn uncount(&mut self, entry: &Entry) {
        if let State::Waiting { level, .. } = entry.state {
            lower(&mut self.counts.waiting, level);
        }
        lower(&mut self.counts.by_state, entry.state.kind());
        if let Some(lane) = entry.inflight() {
            let left = self.open.get_mut(&lane.slot).is_some_and(|open| {
                open.remove(&lane.sequence);
                !open.is_empty()
            });
            if !left {
                self.open.remove(&lane.slot);
            }
        }
    }
}

/// The queue of what waits.
impl Group {
    /// Where to begin to look for what waits.
    pub(super) fn front(&self) -> Key {
        let (due, id) = self.front.get();
        Key::of_group(key::WAITING, self.number).wall(due).id(id)
    }

    /// The first that waits, as somebody saw who began to look there.
    pub(super) fn saw_first(&self, due: WallMs, id: EntryId) {
        self.front.set((due, id));
    }
}

impl Store {
    /// The group's number in keys; `None` when nothing of it was ever put down.
    pub(super) fn number(&self, group: &GroupId) -> Option<GroupNumber> {
        self.groups.get(group).map(|group| group.number)
    }

    /// The group, made if there is none; its row is written with the next flush.
    pub(super) fn group_mut(&mut self, name: &GroupId) -> &mut Group {
        if !self.stale.contains(name) {
            self.stale.insert(name.clone());
        }
        self.groups.entry(name.clone()).or_insert_with(|| {
            let number = GroupNumber(self.next_group);
            self.next_group = self.next_group.saturating_add(1);
            Group::new(number)
        })
    }

    /// Brings the group's row up to date; a group of which nothing is left loses it.
    pub(super) fn write_group(&mut self, name: &GroupId) {
        let Some(group) = self.groups.get(name) else { return };
        let row = Key::new(key::GROUP).bytes(name.as_str().as_bytes());
        if group.is_empty() {
            self.groups.remove(name);
            self.rows.delete(row.0);
        } else {
            let value = value::group_row(group.number.0, &group.counts);
            self.rows.put(row.0, value::encode(&value));
        }
    }
}

/// Takes one off; a count of none is no key, so that equal contents are equal counts.
fn lower<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let left = counts.get(&key).map_or(0, |count| count.saturating_sub(1));
    if left == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, left);
    }
}
