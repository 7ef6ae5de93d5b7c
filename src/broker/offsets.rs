//! Committed offsets of all groups of the embedded cluster.
//!
//! Each offset is a keyed entry of the journal, so the log keeps the newest one. This module is the
//! table in memory. As in Kafka, OffsetFetch returns an offset once it is durable.

mod offset_record;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::broker::fact_encoding::FactError;
use crate::broker::groups::Occupancy;
use crate::journal::{AppendError, EntryKind, Journal, JournalEntry, JournalError, NewEntry};
use crate::model::{GroupId, TopicName, WallMs};

pub use offset_record::CommittedOffset;

/// A committed offset; key = group NUL topic NUL partition (4 bytes, big-endian), head = the
/// offset, body empty.
pub const OFFSET_KIND: EntryKind = EntryKind(17);
/// Default of Kafka's `offset.metadata.max.bytes`.
pub const METADATA_BYTES_MAX: usize = 4_096;
/// Kafka `offsets.retention.minutes`, 7 days.
pub const RETENTION_MS: u64 = 7 * 24 * 3_600_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitItem {
    pub topic: TopicName,
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read; −1 = unknown.
    pub leader_epoch: i32,
    /// The client's metadata, at most [`METADATA_BYTES_MAX`]; returned byte for byte.
    pub metadata: String,
}

/// Refusal of one partition of a commit; the other partitions are still committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Answered as `OFFSET_METADATA_TOO_LARGE`.
    #[error("the metadata of a committed offset may have at most 4096 bytes")]
    MetadataTooLarge,
    /// Answered as `INVALID_TOPIC_EXCEPTION`.
    #[error("this is no topic name")]
    InvalidTopic,
}

impl CommitItem {
    /// Whether this partition's offset can be stored.
    pub fn check(&self) -> Result<(), ItemError> {
        if METADATA_BYTES_MAX < self.metadata.len() {
            return Err(ItemError::MetadataTooLarge);
        }
        // NUL separates the parts of the key; no legal topic name has one.
        if self.topic.as_str().is_empty() || self.topic.as_str().contains('\0') {
            return Err(ItemError::InvalidTopic);
        }
        Ok(())
    }
}

/// The result of an OffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The entry to wait for; 0 = nothing was appended.
    pub seq: u64,
    /// One result per item, in the items' order.
    pub results: Vec<Result<(), ItemError>>,
}

/// One partition of an OffsetFetch; `None` = nothing committed.
pub type FetchedOffset = (TopicName, i32, Option<CommittedOffset>);

/// The offset store; clones share it.
#[derive(Clone, Debug)]
pub struct OffsetStore {
    journal: Journal,
    books: Arc<Mutex<BTreeMap<GroupId, GroupOffsets>>>,
}

type GroupOffsets = BTreeMap<TopicName, BTreeMap<i32, Position>>;

/// A commit of one partition in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCommit {
    pub item: CommitItem,
    /// Sequence number of its TxnOffsetCommit; a commit with a higher one is not overwritten.
    pub order: u64,
}

/// The committed offset of one group in one partition.
#[derive(Clone, Debug, Default)]
struct Position {
    durable: Option<OrderedOffset>,
    /// Commits that are appended and not yet durable, with their sequence numbers, oldest first.
    pending: Vec<(u64, OrderedOffset)>,
}

/// A committed offset and its order: the sequence number of the OffsetCommit or TxnOffsetCommit
/// (Kafka's `OffsetAndMetadata.recordOffset`).
#[derive(Clone, Debug)]
struct OrderedOffset {
    committed: CommittedOffset,
    order: u64,
}

impl OffsetStore {
    /// An empty store; see [`OffsetStore::replay`].
    pub fn new(journal: Journal) -> Self {
        Self { journal, books: Arc::default() }
    }

    /// Restores an offset from an entry found at start; entries of other kinds are ignored.
    pub fn replay(&self, entry: &JournalEntry) -> Result<(), FactError> {
        let Some(key) = entry.key.as_ref().filter(|_| entry.kind == OFFSET_KIND) else {
            return Ok(());
        };
        let (group, topic, partition) = offset_record::split_key(key)?;
        let mut books = self.lock();
        if entry.is_tombstone() {
            if let Some(positions) = books.get_mut(&group).and_then(|book| book.get_mut(&topic)) {
                positions.remove(&partition);
            }
            prune(&mut books, &group);
            return Ok(());
        }
        let (committed, order) = offset_record::read(&entry.head)?;
        let durable = Some(OrderedOffset { committed, order: order.unwrap_or(entry.seq) });
        let position = Position { durable, pending: Vec::new() };
        books.entry(group).or_default().entry(topic).or_default().insert(partition, position);
        Ok(())
    }

    /// Appends a commit as one atomic group. The caller waits with [`OffsetStore::durable`] before
    /// it acknowledges. The group, not this store, checks whether the client may commit.
    pub fn commit(
        &self,
        group: &GroupId,
        at: WallMs,
        items: Vec<CommitItem>,
    ) -> Result<Receipt, AppendError> {
        let results: Vec<_> = items.iter().map(CommitItem::check).collect();
        let mut entries = Vec::new();
        let mut accepted = Vec::new();
        for (item, _) in items.into_iter().zip(&results).filter(|(_, result)| result.is_ok()) {
            let committed = CommittedOffset {
                offset: item.offset,
                leader_epoch: item.leader_epoch,
                metadata: item.metadata,
                commit_ms: at,
            };
            let key = offset_record::key(group, &item.topic, item.partition);
            let head = offset_record::write(&committed, None);
            entries.push(NewEntry::keyed(OFFSET_KIND, key, head, Bytes::new()));
            accepted.push((item.topic, item.partition, committed));
        }
        if entries.is_empty() {
            return Ok(Receipt { seq: 0, results });
        }
        // The append happens under the lock, so the table changes in journal order.
        let mut books = self.lock();
        let seq = self.journal.append(entries)?.seq();
        let durable_seq = self.journal.durable_seq();
        let book = books.entry(group.clone()).or_default();
        for (topic, partition, committed) in accepted {
            let position = book.entry(topic).or_default().entry(partition).or_default();
            position.settle(durable_seq);
            position.pending.push((seq, OrderedOffset { committed, order: seq }));
        }
        Ok(Receipt { seq, results })
    }

    /// Appends the pending commits of a transaction as part of a larger atomic group. `append`
    /// takes their entries and returns the group's last sequence. The method returns that and the
    /// commits that took effect. A commit that came after the TxnOffsetCommit stays, as in Kafka.
    pub(super) fn commit_pending<E>(
        &self,
        at: WallMs,
        pending: &[(GroupId, Vec<PendingCommit>)],
        append: impl FnOnce(Vec<NewEntry>) -> Result<u64, E>,
    ) -> Result<(u64, Vec<(GroupId, CommitItem)>), E> {
        // The append happens under the lock, so the table changes in journal order.
        let mut books = self.lock();
        let mut entries = Vec::new();
        let mut accepted = Vec::new();
        let all = pending.iter().flat_map(|(group, items)| items.iter().map(move |it| (group, it)));
        for (group, PendingCommit { item, order }) in all {
            let position = books
                .get(group)
                .and_then(|book| book.get(&item.topic)?.get(&item.partition)?.newest());
            if position.is_some_and(|newest| *order < newest.order) {
                continue;
            }
            let committed = CommittedOffset {
                offset: item.offset,
                leader_epoch: item.leader_epoch,
                metadata: item.metadata.clone(),
                commit_ms: at,
            };
            let key = offset_record::key(group, &item.topic, item.partition);
            let head = offset_record::write(&committed, Some(*order));
            entries.push(NewEntry::keyed(OFFSET_KIND, key, head, Bytes::new()));
            accepted.push((group, item, OrderedOffset { committed, order: *order }));
        }
        let seq = append(entries)?;
        let durable_seq = self.journal.durable_seq();
        let mut effective = Vec::new();
        for (group, item, commit) in accepted {
            let book = books.entry(group.clone()).or_default();
            let of_topic = book.entry(item.topic.clone()).or_default();
            let position = of_topic.entry(item.partition).or_default();
            position.settle(durable_seq);
            position.pending.push((seq, commit));
            effective.push((group.clone(), item.clone()));
        }
        Ok((seq, effective))
    }

    /// The order of the partition's last commit.
    pub(super) fn newest_order(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
    ) -> Option<u64> {
        let books = self.lock();
        let position = books.get(group)?.get(topic)?.get(&partition)?;
        position.newest().map(|commit| commit.order)
    }

    /// Whether a commit of the partition is appended and not yet durable.
    pub(super) fn is_settling(&self, group: &GroupId, topic: &TopicName, partition: i32) -> bool {
        let durable_seq = self.journal.durable_seq();
        let books = self.lock();
        let position = books.get(group).and_then(|book| book.get(topic)?.get(&partition));
        position.and_then(|at| at.pending.last()).is_some_and(|(seq, _)| durable_seq < *seq)
    }

    /// Returns once a commit or deletion is durable.
    pub async fn durable(&self, seq: u64) -> Result<(), JournalError> {
        if seq <= self.journal.durable_seq() {
            return Ok(());
        }
        self.journal.durable(seq).await
    }

    /// The durable offset of one partition.
    pub fn committed(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
    ) -> Option<CommittedOffset> {
        let durable_seq = self.journal.durable_seq();
        let mut books = self.lock();
        let position = books.get_mut(group)?.get_mut(topic)?.get_mut(&partition)?;
        position.settle(durable_seq);
        position.durable.as_ref().map(|commit| commit.committed.clone())
    }

    /// The durable offsets of a group: of `topics` in their order, or all of them.
    pub fn fetch(
        &self,
        group: &GroupId,
        topics: Option<&[(TopicName, Vec<i32>)]>,
    ) -> Vec<FetchedOffset> {
        let Some(topics) = topics else { return self.fetch_all(group) };
        let asked = topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |partition| (topic, *partition))
        });
        asked.map(|(t, p)| (t.clone(), p, self.committed(group, t, p))).collect()
    }

    /// Groups that have at least one offset.
    pub fn groups(&self) -> Vec<GroupId> {
        self.lock().keys().cloned().collect()
    }

    /// Whether the group has an offset.
    pub fn has(&self, group: &GroupId) -> bool {
        self.lock().contains_key(group)
    }

    /// Deletes offsets of a group as part of a larger atomic group. `append` takes the tombstones
    /// and returns the group's last sequence.
    pub(super) fn delete<E>(
        &self,
        group: &GroupId,
        goes: impl Fn(&TopicName, i32) -> bool,
        append: impl FnOnce(Vec<NewEntry>) -> Result<u64, E>,
    ) -> Result<u64, E> {
        self.remove(|owner, topic, index, _| owner == group && goes(topic, index), append)
    }

    /// Deletes the offsets of all groups in a topic, which is being deleted.
    pub(super) fn delete_topic<E>(
        &self,
        topic: &TopicName,
        append: impl FnOnce(Vec<NewEntry>) -> Result<u64, E>,
    ) -> Result<u64, E> {
        self.remove(|_, of, _, _| of == topic, append)
    }

    /// Deletes offsets whose group was empty, or whose partition had no commit, for
    /// [`RETENTION_MS`]. `occupancy` is [`Groups::occupancy`](crate::broker::groups::Groups).
    /// Partitions with a pending offset stay.
    pub(super) fn expire(
        &self,
        now: WallMs,
        occupancy: impl Fn(&GroupId) -> Occupancy,
        is_pending: impl Fn(&GroupId, &TopicName, i32) -> bool,
    ) -> Result<u64, AppendError> {
        let mut expired = BTreeSet::new();
        for group in self.groups() {
            let vacant_since = match occupancy(&group) {
                Occupancy::Occupied => continue,
                Occupancy::VacantSince(since) => since,
                Occupancy::Unknown => WallMs(0),
            };
            if RETENTION_MS <= now.since(vacant_since) {
                expired.insert(group);
            }
        }
        let goes = |group: &GroupId, topic: &TopicName, partition, position: &Position| {
            let last = position.newest().map_or(now, |commit| commit.committed.commit_ms);
            let is_old = expired.contains(group) && RETENTION_MS <= now.since(last);
            is_old && !is_pending(group, topic, partition)
        };
        self.remove(goes, |gone| self.append_gone(gone))
    }

    fn fetch_all(&self, group: &GroupId) -> Vec<FetchedOffset> {
        let durable_seq = self.journal.durable_seq();
        let mut books = self.lock();
        let Some(book) = books.get_mut(group) else { return Vec::new() };
        let mut all = Vec::new();
        for (topic, positions) in book {
            for (partition, position) in positions {
                position.settle(durable_seq);
                if let Some(OrderedOffset { committed, .. }) = &position.durable {
                    all.push((topic.clone(), *partition, Some(committed.clone())));
                }
            }
        }
        all
    }

    /// Appends tombstones of offsets; returns 0 if there are none.
    pub(super) fn append_gone(&self, gone: Vec<NewEntry>) -> Result<u64, AppendError> {
        if gone.is_empty() {
            return Ok(0);
        }
        // A full disk needs the room that deletions free, so these may use the reserve.
        Ok(self.journal.append_reserved(gone)?.seq())
    }

    fn remove<E>(
        &self,
        goes: impl Fn(&GroupId, &TopicName, i32, &Position) -> bool,
        append: impl FnOnce(Vec<NewEntry>) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let mut books = self.lock();
        let mut entries = Vec::new();
        for (group, book) in books.iter() {
            for (topic, positions) in book {
                let going = positions.iter();
                let going = going.filter(|(index, place)| goes(group, topic, **index, place));
                let keys = going.map(|(partition, _)| offset_record::key(group, topic, *partition));
                entries.extend(keys.map(|key| NewEntry::tombstone(OFFSET_KIND, key)));
            }
        }
        let seq = append(entries)?;
        books.retain(|group, book| {
            book.retain(|topic, positions| {
                positions.retain(|index, position| !goes(group, topic, *index, position));
                !positions.is_empty()
            });
            !book.is_empty()
        });
        Ok(seq)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, GroupOffsets>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Position {
    /// Applies the pending commits that are durable now.
    fn settle(&mut self, durable_seq: u64) {
        let done = self.pending.iter().take_while(|(seq, _)| *seq <= durable_seq).count();
        if let Some((_, commit)) = self.pending.drain(..done).next_back() {
            self.durable = Some(commit);
        }
    }

    fn newest(&self) -> Option<&OrderedOffset> {
        self.pending.last().map(|(_, commit)| commit).or(self.durable.as_ref())
    }
}

fn prune(books: &mut BTreeMap<GroupId, GroupOffsets>, group: &GroupId) {
    if let Some(book) = books.get_mut(group) {
        book.retain(|_, positions| !positions.is_empty());
        if book.is_empty() {
            books.remove(group);
        }
    }
}
