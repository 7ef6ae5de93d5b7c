//! The driver's reads beside the ledger: entries with the place of their bytes, pages, groups.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::engine::store::Store;
use crate::engine::store::entries::origins_key;
use crate::engine::store::key::{self, EntryClass, RowKey};
use crate::engine::store::taken_entry::TakenEntry;
use crate::model::{EntryId, GroupId, Origin, RetryPlace, TopicName, TopicPartition, WallMs};
use crate::retry::{Entries, Entry, RetryState, StateKind};

/// Entries read by one command.
const PAGE: usize = 256;

impl Store {
    /// Offsets with an entry that the group's commit has not passed, by partition and offset. Only
    /// the last `most` of each partition are read: there may be millions.
    pub(in crate::engine) fn not_passed(
        &self,
        group: &GroupId,
        most: usize,
    ) -> Vec<(TopicPartition, Vec<i64>)> {
        let mut found = Vec::new();
        let Some(number) = self.number(group).filter(|_| most > 0) else { return found };
        let all = RowKey::of_group(key::ORIGIN, number);
        let (mut from, end) = (all.clone(), all.end());
        while let Some((_, id)) = self.pairs(&from, &end, 1).pop() {
            let entry = key::read_id(&id).and_then(|id| self.get(id));
            let Some(Origin { topic, partition, .. }) = entry.and_then(|entry| entry.origin) else {
                break;
            };
            let open = origins_key(number, &topic, partition, false);
            let mut offsets = Vec::new();
            self.rows.each_back(&open.0, &open.clone().end().0, &mut |key, _| {
                offsets.extend(key::read_offset(key));
                if offsets.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            offsets.reverse();
            from = origins_key(number, &topic, partition, true).end();
            found.push((TopicPartition { topic, partition }, offsets));
        }
        found.retain(|(_, offsets): &(_, Vec<i64>)| !offsets.is_empty());
        found
    }

    /// Topics with an entry of the group.
    pub(in crate::engine) fn sources(&self, group: &GroupId) -> Vec<TopicName> {
        let mut found = Vec::new();
        let Some(number) = self.number(group) else { return found };
        let all = RowKey::of_group(key::ORIGIN, number);
        let (mut from, end) = (all.clone(), all.end());
        while let Some((_, id)) = self.pairs(&from, &end, 1).pop() {
            let entry = key::read_id(&id).and_then(|id| self.get(id));
            let Some(origin) = entry.and_then(|entry| entry.origin) else { break };
            from = RowKey::of_group(key::ORIGIN, number).topic(origin.topic.as_str()).end();
            found.push(origin.topic);
        }
        found
    }

    /// Open entries of a group with an id above `after`, by id, at most `limit`.
    pub(in crate::engine) fn page_entries(
        &self,
        group: &GroupId,
        after: Option<EntryId>,
        limit: usize,
    ) -> Vec<Entry> {
        let ids = self.of_class(group, EntryClass::Open, after, limit);
        ids.into_iter().filter_map(|id| self.get(id)).collect()
    }

    /// Waiting entries of a group after `after`, by due time and id, at most `limit`.
    pub(in crate::engine) fn due_page(
        &self,
        group: &GroupId,
        after: Option<(WallMs, EntryId)>,
        limit: usize,
    ) -> Vec<Entry> {
        let Some(number) = self.number(group) else { return Vec::new() };
        let waiting = RowKey::of_group(key::WAITING, number);
        let from = match after {
            Some((due, id)) => waiting.clone().wall(due).id(id).end(),
            None => waiting.clone(),
        };
        self.ids(&from, &waiting.end(), limit).into_iter().filter_map(|id| self.get(id)).collect()
    }

    /// Waiting entries with an id above `after`, by id, among the next few. Also returns the id to
    /// continue after, `None` at the end.
    pub(in crate::engine) fn waiting_entries(
        &self,
        group: &GroupId,
        after: Option<EntryId>,
        limit: usize,
    ) -> (Vec<TakenEntry>, Option<EntryId>) {
        let ids = self.of_class(group, EntryClass::Open, after, PAGE);
        let mut found = Vec::new();
        for id in &ids {
            let entry = self.get(*id).filter(|entry| entry.state.kind() == StateKind::Waiting);
            found.extend(entry.map(|entry| self.located_entry(entry)));
            if found.len() == limit {
                return (found, Some(*id));
            }
        }
        (found, ids.last().copied())
    }

    /// Deliveries from `from` to `to` that have failed.
    pub(in crate::engine) fn failed_deliveries(
        &self,
        group: &GroupId,
        (from, to): (RetryPlace, RetryPlace),
    ) -> Vec<RetryPlace> {
        let Some(number) = self.number(group) else { return Vec::new() };
        let of = |place| RowKey::of_group(key::PLACE, number).place(place);
        let ids = self.ids(&of(from), &of(to), usize::MAX);
        let mut failed = BTreeSet::new();
        for entry in ids.into_iter().filter_map(|id| self.get(id)) {
            let is_over = entry.state.kind() == StateKind::Committed;
            let current = entry.unread().or(entry.places.last().copied().filter(|_| is_over));
            let within = entry.places.iter().filter(|place| (from..to).contains(place));
            failed.extend(within.copied().filter(|place| Some(*place) != current));
        }
        failed.into_iter().collect()
    }

    /// Time of the oldest delivery of a group that is not settled. Only the first of each partition
    /// is read, because a partition delivers in order.
    pub(in crate::engine) fn oldest_out(&self, group: &GroupId) -> Option<WallMs> {
        let partitions = self.partitions(group).into_iter();
        let first = partitions.filter_map(|partition| {
            let id = self.unread(group, partition.at(0), 1).pop()?;
            match self.get(id)?.state {
                RetryState::Released { since, .. } => Some(since),
                _ => None,
            }
        });
        first.min()
    }

    /// Every group with an entry, in order.
    pub(in crate::engine) fn group_ids(&self) -> Vec<GroupId> {
        self.groups()
    }

    /// True when a group has an entry.
    pub(in crate::engine) fn has_group(&self, group: &GroupId) -> bool {
        self.groups.get(group).is_some_and(|group| !group.is_empty())
    }

    /// An entry with the place of its bytes.
    pub(in crate::engine) fn located_entry(&self, entry: Entry) -> TakenEntry {
        let payload = self.payload(entry.id);
        TakenEntry { entry, payload }
    }
}
