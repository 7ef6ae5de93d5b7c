//! Implementation of the ledger's reads and writes on rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::engine::store::Store;
use crate::engine::store::front::{self, DueEntry, Front, FrontAnswer};
use crate::engine::store::group::StoredGroup;
use crate::engine::store::key::{self, EntryClass, GroupNumber, RowKey};
use crate::engine::store::row::EntryRow;
use crate::engine::store::short::ShortBytes;
use crate::model::{EntryId, GroupId, Origin, RetryPartition, RetryPlace, TopicName, WallMs};
use crate::retry::{Entries, Entry, EntryCounts, Marks, StateKind};

/// Most rows that `count_due` reads from either end of a queue. A larger count is reported as this
/// bound, which exceeds every alert threshold.
const COUNT_MAX: u64 = 10_000;

impl Entries for Store {
    fn get(&self, id: EntryId) -> Option<Entry> {
        self.known(id).entry.map(Arc::unwrap_or_clone)
    }

    fn by_origin(&self, group: &GroupId, origin: &Origin) -> Option<EntryId> {
        let number = self.number(group)?;
        let id = |passed| {
            let origins = origins_key(number, &origin.topic, origin.partition, passed);
            key::read_id(&self.rows.get(&origins.signed(origin.offset).0)?.bytes().ok()?)
        };
        id(false).or_else(|| id(true))
    }

    fn by_place(&self, group: &GroupId, place: RetryPlace) -> Option<EntryId> {
        let number = self.number(group)?;
        let row = self.rows.get(&RowKey::of_group(key::PLACE, number).place(place).0)?;
        key::read_id(&row.bytes().ok()?)
    }

    fn due(&self, group: &GroupId, now: WallMs, limit: usize) -> Vec<EntryId> {
        let Some(group) = self.groups.get(group).filter(|_| limit > 0) else { return Vec::new() };
        let waiting = RowKey::of_group(key::WAITING, group.number);
        if !Front::holds(limit) {
            return self.ids(&waiting, &waiting.clone().wall(now).end(), limit);
        }
        loop {
            let known = group.front.borrow().due(now, limit);
            match known {
                FrontAnswer::Known(due) => return due,
                FrontAnswer::Ask(from) => self.read_front(group, from),
            }
        }
    }

    fn next_due(&self, name: &GroupId, after: Option<WallMs>) -> Option<WallMs> {
        let group = self.groups.get(name)?;
        let known = group.front.borrow().next(after);
        match (known, after) {
            (FrontAnswer::Known(due), _) => due,
            (FrontAnswer::Ask(from), None) => {
                self.read_front(group, from);
                self.next_due(name, None)
            }
            (FrontAnswer::Ask((at, id)), Some(_)) => {
                let waiting = RowKey::of_group(key::WAITING, group.number);
                self.first_wall(&waiting.clone().wall(at).id(id), &waiting.end())
            }
        }
    }

    /// Exact while at most [`COUNT_MAX`] entries are due or at most that many are not; else that
    /// bound.
    fn count_due(&self, group: &GroupId, now: WallMs) -> u64 {
        let Some(number) = self.number(group) else { return 0 };
        let waiting = RowKey::of_group(key::WAITING, number);
        let now = waiting.clone().wall(now).end();
        let due = self.count(&waiting, &now);
        if due < COUNT_MAX {
            return due;
        }
        let later = self.count(&now, &waiting.end());
        if later < COUNT_MAX {
            return self.counts(group).of(StateKind::Waiting).saturating_sub(later);
        }
        COUNT_MAX
    }

    fn blocked(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId> {
        let Some(number) = self.number(group) else { return Vec::new() };
        self.members(&RowKey::of_group(key::BLOCKED, number), after, limit)
    }

    /// Bytes of the log entry with the record, including about 100 bytes of fact.
    fn record_bytes(&self, id: EntryId) -> u64 {
        self.payload(id).map_or(0, |at| u64::from(at.len))
    }

    fn unread(&self, group: &GroupId, from: RetryPlace, limit: usize) -> Vec<EntryId> {
        let group = self.groups.get(group).into_iter();
        let open = group.flat_map(|group| group.open_from(from));
        open.map(|(_, id)| id).take(limit).collect()
    }

    fn open(&self, group: &GroupId, of: RetryPartition) -> usize {
        self.groups.get(group).map_or(0, |group| group.open_count(of))
    }

    fn expired(&self, now: WallMs, limit: usize) -> Vec<EntryId> {
        let expiry = RowKey::new(key::EXPIRY);
        let end = expiry.clone().wall(now).end();
        self.ids(&expiry, &end, limit)
    }

    fn next_expiry(&self) -> Option<WallMs> {
        let expiry = RowKey::new(key::EXPIRY);
        self.first_wall(&expiry.clone(), &expiry.end())
    }

    fn not_passed_below(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId> {
        let Some(number) = self.number(group) else { return Vec::new() };
        let open = origins_key(number, topic, partition, false);
        self.ids(&open, &open.clone().signed(offset), usize::MAX)
    }

    fn passed_from(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId> {
        let Some(number) = self.number(group) else { return Vec::new() };
        let passed = origins_key(number, topic, partition, true);
        self.ids(&passed.clone().signed(offset), &passed.end(), usize::MAX)
    }

    fn of_topic(&self, group: &GroupId, topic: &TopicName) -> Vec<EntryId> {
        let Some(number) = self.number(group) else { return Vec::new() };
        let origins = RowKey::of_group(key::ORIGIN, number).topic(topic.as_str());
        self.ids(&origins, &origins.clone().end(), usize::MAX)
    }

    fn page(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId> {
        let classes = EntryClass::ALL.iter();
        let mut ids: Vec<EntryId> =
            classes.flat_map(|class| self.of_class(group, *class, after, limit)).collect();
        ids.sort();
        ids.truncate(limit);
        ids
    }

    fn groups(&self) -> Vec<GroupId> {
        let groups = self.groups.iter().filter(|(_, group)| !group.is_empty());
        groups.map(|(name, _)| name.clone()).collect()
    }

    fn counts(&self, group: &GroupId) -> EntryCounts {
        self.groups.get(group).map(|group| group.counts.clone()).unwrap_or_default()
    }

    fn partitions(&self, group: &GroupId) -> Vec<RetryPartition> {
        self.groups.get(group).map(StoredGroup::partitions).unwrap_or_default()
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn put(&mut self, entry: &Entry) {
        let EntryRow { entry: old, refs } = self.known(entry.id);
        if let Some(old) = &old {
            self.group_mut(&old.group).uncount(old);
        }
        let group = self.group_mut(&entry.group);
        group.count(entry);
        let number = group.number;
        let (before, after) = (old.as_deref().map(indexes).unwrap_or_default(), indexes(entry));
        for index in before.iter().filter(|index| !after.contains(index)) {
            self.rows.delete(index.key(number, entry.id).0);
        }
        for index in after.iter().filter(|index| !before.contains(index)) {
            let (key, value) = (index.key(number, entry.id), index.value(entry.id));
            if matches!(index, Index::Origin(..)) {
                self.rows.put(key.0, value);
            } else {
                // No other entry ever has this key.
                self.rows.put_new(key.0, value);
            }
        }
        self.reshape(entry.id, old.as_deref(), Some(entry));
        self.put_known(entry.id, EntryRow { entry: Some(Arc::new(entry.clone())), refs });
        self.changed();
    }

    fn remove(&mut self, id: EntryId) {
        let EntryRow { entry: Some(old), refs } = self.known(id) else { return };
        let group = self.group_mut(&old.group);
        group.uncount(&old);
        let number = group.number;
        for index in indexes(&old) {
            self.rows.delete(index.key(number, id).0);
        }
        self.reshape(id, Some(&old), None);
        self.put_known(id, EntryRow { entry: None, refs });
        self.changed();
    }

    fn put_marks(&mut self, marks: Marks) {
        self.marks = marks;
    }
}

impl Store {
    /// Reads the next waiting entries of a group into its front.
    fn read_front(&self, group: &StoredGroup, (at, id): DueEntry) {
        let waiting = RowKey::of_group(key::WAITING, group.number);
        let mut rows = Vec::with_capacity(front::READ);
        let from = waiting.clone().wall(at).id(id);
        self.rows.each(&from.0, &waiting.end().0, &mut |key, _| {
            rows.extend(key::read_wall(key).zip(key::read_id(key)));
            let goes_on = rows.len() < front::READ;
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let whole = rows.len() < front::READ;
        group.front.borrow_mut().read(rows, whole);
    }

    /// Waiting entries due at or before `now`, behind `after`, in order.
    pub(in crate::engine) fn due_behind(
        &self,
        name: &GroupId,
        after: Option<DueEntry>,
        now: WallMs,
        limit: usize,
    ) -> Vec<DueEntry> {
        let mut due = Vec::new();
        // Entries that have left their queue may still have rows before the first one.
        let Some(first) = self.next_due(name, None) else { return due };
        let Some(number) = self.number(name) else { return due };
        let waiting = RowKey::of_group(key::WAITING, number);
        let from = match after {
            Some((at, EntryId(id))) => waiting.clone().wall(at).id(EntryId(id.saturating_add(1))),
            None => waiting.clone().wall(first),
        };
        self.rows.each(&from.0, &waiting.wall(now).end().0, &mut |key, _| {
            due.extend(key::read_wall(key).zip(key::read_id(key)));
            if due.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        due
    }

    /// Ids of one class of a group's entries above `after`, at most `limit`.
    pub(in crate::engine) fn of_class(
        &self,
        group: &GroupId,
        class: EntryClass,
        after: Option<EntryId>,
        limit: usize,
    ) -> Vec<EntryId> {
        let Some(number) = self.number(group) else { return Vec::new() };
        self.members(&RowKey::of_class(number, class), after, limit)
    }

    /// Ids above `after` in an index by id.
    fn members(&self, members: &RowKey, after: Option<EntryId>, limit: usize) -> Vec<EntryId> {
        let from = match after {
            Some(after) => members.clone().id(after).end(),
            None => members.clone(),
        };
        self.ids(&from, &members.clone().end(), limit)
    }

    pub(super) fn ids(&self, from: &RowKey, to: &RowKey, limit: usize) -> Vec<EntryId> {
        let mut found = Vec::new();
        if limit == 0 {
            return found;
        }
        self.rows.each(&from.0, &to.0, &mut |key, value| {
            found.extend(key::read_id(if value.is_empty() { key } else { value }));
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    /// Up to `limit` rows with a key in `from..to`, in order.
    pub(super) fn pairs(
        &self,
        from: &RowKey,
        to: &RowKey,
        limit: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        if limit == 0 {
            return found;
        }
        self.rows.each(&from.0, &to.0, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    fn first_wall(&self, from: &RowKey, to: &RowKey) -> Option<WallMs> {
        let mut first = None;
        self.rows.each(&from.0, &to.0, &mut |key, _| {
            first = key::read_wall(key);
            ControlFlow::Break(())
        });
        first
    }

    fn count(&self, from: &RowKey, to: &RowKey) -> u64 {
        let mut count = 0;
        self.rows.each(&from.0, &to.0, &mut |_, _| {
            count += 1;
            if count < COUNT_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        count
    }
}

pub(super) fn origins_key(
    group: GroupNumber,
    topic: &TopicName,
    partition: i32,
    passed: bool,
) -> RowKey {
    RowKey::of_group(key::ORIGIN, group).topic(topic.as_str()).partition(partition).flag(passed)
}

/// An index row that leads to an entry; it belongs to the entry's group for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index<'a> {
    Member(EntryClass),
    Blocked,
    /// With whether the group's commit has passed the origin.
    Origin(&'a Origin, bool),
    Place(RetryPlace),
    Waiting(WallMs),
    Expiry(WallMs),
}

/// All index rows of an entry.
fn indexes(entry: &Entry) -> Vec<Index<'_>> {
    let mut found = Vec::with_capacity(5 + entry.places.len());
    found.push(Index::Member(EntryClass::of(entry.state.kind())));
    if entry.state.kind() == StateKind::Blocked {
        found.push(Index::Blocked);
    }
    let origin = entry.remembered_origin();
    found.extend(origin.map(|origin| Index::Origin(origin, entry.passed.is_some())));
    found.extend(entry.places.iter().copied().map(Index::Place));
    found.extend(entry.due().map(Index::Waiting));
    found.extend(entry.expires.map(Index::Expiry));
    found
}

impl Index<'_> {
    fn key(&self, group: GroupNumber, id: EntryId) -> RowKey {
        let of = |kind| RowKey::of_group(kind, group);
        match self {
            Self::Member(class) => RowKey::of_class(group, *class).id(id),
            Self::Blocked => of(key::BLOCKED).id(id),
            Self::Origin(origin, passed) => {
                let origins = origins_key(group, &origin.topic, origin.partition, *passed);
                origins.signed(origin.offset)
            }
            Self::Place(place) => of(key::PLACE).place(*place),
            Self::Waiting(due) => of(key::WAITING).wall(*due).id(id),
            Self::Expiry(at) => RowKey::new(key::EXPIRY).wall(*at).id(id),
        }
    }

    /// The id, unless the key ends with it.
    fn value(&self, id: EntryId) -> ShortBytes {
        match self {
            Self::Origin(..) | Self::Place(_) => ShortBytes::from(&id.0.to_be_bytes()[..]),
            Self::Member(_) | Self::Blocked | Self::Waiting(_) | Self::Expiry(_) => {
                ShortBytes::new()
            }
        }
    }
}
