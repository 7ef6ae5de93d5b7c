//! An in-memory store of the ledger, for unit tests of the crate and for simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use reprise::model::{EntryId, GroupId, Origin, RetryPartition, RetryPlace, TopicName, WallMs};
use reprise::retry::{Entries, Entry, EntryCounts, Marks, RetryState, StateKind};

/// All indexes as trees. Two stores are equal when their entries and marks are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BTreeEntries {
    entries: BTreeMap<EntryId, Entry>,
    marks: Marks,
    groups: BTreeMap<GroupId, Indexes>,
    expiry: BTreeSet<(WallMs, EntryId)>,
}

/// Indexes of one group; removed with the group's last entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Indexes {
    ids: BTreeSet<EntryId>,
    origin: BTreeMap<Origin, EntryId>,
    place: BTreeMap<RetryPlace, EntryId>,
    inflight: BTreeMap<RetryPlace, EntryId>,
    waiting: BTreeSet<(WallMs, EntryId)>,
    held: BTreeSet<EntryId>,
    commits: BTreeMap<(TopicName, i32, bool, i64), EntryId>,
    counts: EntryCounts,
}

impl Indexes {
    fn add(&mut self, entry: &Entry) {
        let id = entry.id;
        self.ids.insert(id);
        if let Some(origin) = entry.remembered_origin() {
            self.origin.insert(origin.clone(), id);
            self.commits.insert(commit_key(origin, entry), id);
        }
        self.place.extend(entry.places.iter().map(|place| (*place, id)));
        self.inflight.extend(entry.unread().map(|place| (place, id)));
        self.waiting.extend(entry.due().map(|due| (due, id)));
        if entry.state.kind() == StateKind::Blocked {
            self.held.insert(id);
        }
        if let RetryState::Waiting { level, .. } = entry.state {
            *self.counts.waiting.entry(level).or_default() += 1;
        }
        *self.counts.by_state.entry(entry.state.kind()).or_default() += 1;
    }

    fn drop(&mut self, entry: &Entry) {
        self.ids.remove(&entry.id);
        if let Some(origin) = entry.remembered_origin() {
            self.origin.remove(origin);
            self.commits.remove(&commit_key(origin, entry));
        }
        for place in &entry.places {
            self.place.remove(place);
        }
        entry.unread().map(|place| self.inflight.remove(&place));
        entry.due().map(|due| self.waiting.remove(&(due, entry.id)));
        self.held.remove(&entry.id);
        if let RetryState::Waiting { level, .. } = entry.state {
            lower(&mut self.counts.waiting, level);
        }
        lower(&mut self.counts.by_state, entry.state.kind());
    }
}

impl Entries for BTreeEntries {
    fn get(&self, id: EntryId) -> Option<Entry> {
        self.entries.get(&id).cloned()
    }

    fn by_origin(&self, group: &GroupId, origin: &Origin) -> Option<EntryId> {
        self.groups.get(group)?.origin.get(origin).copied()
    }

    fn by_place(&self, group: &GroupId, place: RetryPlace) -> Option<EntryId> {
        self.groups.get(group)?.place.get(&place).copied()
    }

    fn due(&self, group: &GroupId, now: WallMs, limit: usize) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let due = indexes.waiting.range(..=(now, EntryId(u64::MAX)));
        due.take(limit).map(|(_, id)| *id).collect()
    }

    fn next_due(&self, group: &GroupId, after: Option<WallMs>) -> Option<WallMs> {
        let from = match after {
            Some(after) => Bound::Excluded((after, EntryId(u64::MAX))),
            None => Bound::Unbounded,
        };
        let later = (from, Bound::Unbounded);
        self.groups.get(group)?.waiting.range(later).next().map(|(due, _)| *due)
    }

    fn count_due(&self, group: &GroupId, now: WallMs) -> u64 {
        let Some(indexes) = self.groups.get(group) else { return 0 };
        let due = indexes.waiting.range(..=(now, EntryId(u64::MAX)));
        u64::try_from(due.count()).unwrap_or(u64::MAX)
    }

    fn blocked(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        indexes.held.range((from, Bound::Unbounded)).take(limit).copied().collect()
    }

    /// Always 0: this store keeps no bytes.
    fn record_bytes(&self, _: EntryId) -> u64 {
        0
    }

    fn unread(&self, group: &GroupId, from: RetryPlace, limit: usize) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let last = *all_of(from.partition).end();
        indexes.inflight.range(from..=last).take(limit).map(|(_, id)| *id).collect()
    }

    fn open(&self, group: &GroupId, of: RetryPartition) -> usize {
        let indexes = self.groups.get(group);
        indexes.map_or(0, |indexes| indexes.inflight.range(all_of(of)).count())
    }

    fn expired(&self, now: WallMs, limit: usize) -> Vec<EntryId> {
        let expired = self.expiry.range(..=(now, EntryId(u64::MAX)));
        expired.take(limit).map(|(_, id)| *id).collect()
    }

    fn next_expiry(&self) -> Option<WallMs> {
        self.expiry.first().map(|(expires, _)| *expires)
    }

    fn not_passed_below(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let from = (topic.clone(), partition, false, i64::MIN);
        let to = (topic.clone(), partition, false, offset);
        indexes.commits.range(from..to).map(|(_, id)| *id).collect()
    }

    fn passed_from(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let from = (topic.clone(), partition, true, offset);
        let to = (topic.clone(), partition, true, i64::MAX);
        indexes.commits.range(from..=to).map(|(_, id)| *id).collect()
    }

    fn of_topic(&self, group: &GroupId, topic: &TopicName) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let from = (topic.clone(), i32::MIN, false, i64::MIN);
        let to = (topic.clone(), i32::MAX, true, i64::MAX);
        indexes.commits.range(from..=to).map(|(_, id)| *id).collect()
    }

    fn page(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId> {
        let Some(indexes) = self.groups.get(group) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        indexes.ids.range((from, Bound::Unbounded)).take(limit).copied().collect()
    }

    fn groups(&self) -> Vec<GroupId> {
        self.groups.keys().cloned().collect()
    }

    fn counts(&self, group: &GroupId) -> EntryCounts {
        self.groups.get(group).map(|indexes| indexes.counts.clone()).unwrap_or_default()
    }

    fn partitions(&self, group: &GroupId) -> Vec<RetryPartition> {
        let inflight = self.groups.get(group).into_iter().flat_map(|of| of.inflight.keys());
        let partitions: BTreeSet<RetryPartition> = inflight.map(|place| place.partition).collect();
        partitions.into_iter().collect()
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn put(&mut self, entry: &Entry) {
        self.remove(entry.id);
        self.groups.entry(entry.group.clone()).or_default().add(entry);
        self.expiry.extend(entry.expires.map(|expires| (expires, entry.id)));
        self.entries.insert(entry.id, entry.clone());
    }

    fn remove(&mut self, id: EntryId) {
        let Some(old) = self.entries.remove(&id) else { return };
        old.expires.map(|expires| self.expiry.remove(&(expires, id)));
        if let Some(indexes) = self.groups.get_mut(&old.group) {
            indexes.drop(&old);
            if indexes.ids.is_empty() {
                self.groups.remove(&old.group);
            }
        }
    }

    fn put_marks(&mut self, marks: Marks) {
        self.marks = marks;
    }
}

fn commit_key(origin: &Origin, entry: &Entry) -> (TopicName, i32, bool, i64) {
    (origin.topic.clone(), origin.partition, entry.passed.is_some(), origin.offset)
}

/// Every delivery of a partition.
fn all_of(of: RetryPartition) -> RangeInclusive<RetryPlace> {
    of.at(0)..=of.at(i64::MAX)
}

/// Lowers a count by one. A count of 0 is removed, so that stores with equal contents are equal.
fn lower<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let left = counts.get(&key).map_or(0, |count| count.saturating_sub(1));
    if left == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, left);
    }
}
