//! State of a group in memory: number, counts and deliveries that are not committed past.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::store::Store;
use crate::engine::store::front::{DueEntry, Front};
use crate::engine::store::key::{self, GroupNumber, RowKey};
use crate::engine::store::needed::EntryBytes;
use crate::engine::store::shapes::Shapes;
use crate::engine::store::value::{self, GroupRow, OpenRow};
use crate::model::{EntryId, GroupId, RetryPartition, RetryPlace};
use crate::retry::{Entry, EntryCounts, RetryState};

/// A group with an entry.
#[derive(Debug)]
pub(super) struct StoredGroup {
    /// The group's name in keys.
    pub(super) number: GroupNumber,
    pub(super) counts: EntryCounts,
    pub(super) bytes: EntryBytes,
    /// Open deliveries of each partition by offset. A partition without any has no key.
    open: BTreeMap<RetryPartition, BTreeMap<i64, EntryId>>,
    /// Partitions whose rows are out of date: they change with every delivery.
    stale: BTreeSet<RetryPartition>,
    pub(super) shapes: Shapes,
    pub(super) front: RefCell<Front>,
    /// The first of the retries that came to wait since the mover has asked.
    first_arrival: Cell<Option<DueEntry>>,
}

impl StoredGroup {
    fn new(number: GroupNumber) -> Self {
        let (counts, open) = (EntryCounts::default(), BTreeMap::new());
        let front = RefCell::new(Front::empty());
        let shapes = Shapes::default();
        let (stale, first_arrival) = (BTreeSet::new(), Cell::new(None));
        Self {
            number,
            counts,
            bytes: EntryBytes::default(),
            open,
            stale,
            shapes,
            front,
            first_arrival,
        }
    }

    pub(super) fn of_row(row: GroupRow) -> Self {
        let mut group = Self::new(GroupNumber(row.0));
        group.bytes = row.3;
        group.counts = value::read_counts(row);
        group.front = RefCell::new(Front::unread());
        group
    }

    /// Loads the open deliveries of a partition from their row; false for an invalid row.
    pub(super) fn load_open(&mut self, key: &[u8], row: Option<OpenRow>) -> bool {
        let (Some(of), Some(open)) = (key::read_retry_partition(key), row) else { return false };
        let open = open.into_iter().map(|(offset, id)| (offset, EntryId(id)));
        self.open.insert(of, open.collect());
        true
    }

    /// Open deliveries of a partition from an offset on.
    pub(super) fn open_from(&self, from: RetryPlace) -> impl Iterator<Item = (i64, EntryId)> {
        let open = self.open.get(&from.partition).map(|open| open.range(from.offset..));
        open.into_iter().flatten().map(|(offset, id)| (*offset, *id))
    }

    /// Partitions with open deliveries.
    pub(super) fn partitions(&self) -> Vec<RetryPartition> {
        self.open.keys().copied().collect()
    }

    /// Number of open deliveries of a partition.
    pub(super) fn open_count(&self, of: RetryPartition) -> usize {
        self.open.get(&of).map_or(0, BTreeMap::len)
    }

    /// True when the ledger knows nothing of the group.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.by_state.is_empty()
    }

    pub(super) fn count(&mut self, entry: &Entry) {
        if let RetryState::Waiting { level, .. } = entry.state {
            *self.counts.waiting.entry(level).or_default() += 1;
        }
        *self.counts.by_state.entry(entry.state.kind()).or_default() += 1;
        if let Some(place) = entry.unread() {
            self.open.entry(place.partition).or_default().insert(place.offset, entry.id);
            self.stale.insert(place.partition);
        }
        if let Some(due) = entry.due() {
            let at = (due, entry.id);
            self.front.get_mut().comes(at);
            let first = self.first_arrival.get_mut();
            *first = Some(first.map_or(at, |first| first.min(at)));
        }
    }

    pub(super) fn uncount(&mut self, entry: &Entry) {
        if let RetryState::Waiting { level, .. } = entry.state {
            lower(&mut self.counts.waiting, level);
        }
        lower(&mut self.counts.by_state, entry.state.kind());
        if let Some(place) = entry.unread() {
            let left = self.open.get_mut(&place.partition).is_some_and(|open| {
                open.remove(&place.offset);
                !open.is_empty()
            });
            if !left {
                self.open.remove(&place.partition);
            }
            self.stale.insert(place.partition);
        }
        if let Some(due) = entry.due() {
            self.front.get_mut().goes((due, entry.id));
        }
    }
}

impl Store {
    /// The group's number in keys; `None` for a group that was never stored.
    pub(super) fn number(&self, group: &GroupId) -> Option<GroupNumber> {
        self.groups.get(group).map(|group| group.number)
    }

    /// The first of the group's retries that came to wait since the last call.
    pub(in crate::engine) fn take_first_arrival(&self, group: &GroupId) -> Option<DueEntry> {
        self.groups.get(group)?.first_arrival.take()
    }

    /// The group, created if there is none; the next flush writes its row.
    pub(super) fn group_mut(&mut self, name: &GroupId) -> &mut StoredGroup {
        if !self.stale.contains(name) {
            self.stale.insert(name.clone());
        }
        self.groups.entry(name.clone()).or_insert_with(|| {
            let number = GroupNumber(self.next_group);
            self.next_group = self.next_group.saturating_add(1);
            StoredGroup::new(number)
        })
    }

    /// Updates the rows of the group; an empty group loses its row.
    pub(super) fn write_group(&mut self, name: &GroupId) {
        self.write_shapes(name);
        let Some(group) = self.groups.get_mut(name) else { return };
        for of in std::mem::take(&mut group.stale) {
            let key = RowKey::of_group(key::OPEN, group.number).retry_partition(of).0;
            match group.open.get(&of) {
                Some(open) => self.rows.put_value(key, &value::open_row(open)),
                None => self.rows.delete(key),
            }
        }
        let row = RowKey::new(key::GROUP).bytes(name.as_str().as_bytes());
        if group.is_empty() {
            self.groups.remove(name);
            self.rows.delete(row.0);
        } else {
            let value = value::group_row(group.number.0, &group.counts, group.bytes);
            self.rows.put_value(row.0, &value);
        }
    }
}

/// Decrements a count. A count of 0 has no key, so that equal contents are equal maps.
fn lower<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let left = counts.get(&key).map_or(0, |count| count.saturating_sub(1));
    if left == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, left);
    }
}
