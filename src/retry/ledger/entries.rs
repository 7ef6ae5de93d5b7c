//! The ledger's store, as a trait: in memory here, on disk in the engine.
//!
//! A store derives every index from the fields of its entries: `put` replaces the entry with that
//! id and updates all indexes.
//!
//! ```text
//! id                                          → entry
//! group, remembered origin                    → id      origin
//! group, every remembered delivery            → id      place
//! group, inflight delivery                    → id      inflight
//! group, due, id                                        waiting
//! expires, id                                           any state
//! group, id                                             held
//! group, topic, partition, passed?, offset    → id      commits and resets
//! ```

use std::collections::BTreeMap;

use crate::model::{EntryId, GroupId, Origin, RetryPartition, RetryPlace, TopicName, WallMs};
use crate::retry::{Entry, StateKind};

/// State of a store beside entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub next_id: u64,
    /// The latest time of any applied fact; `None` before the first.
    pub latest: Option<WallMs>,
    /// Hash of the delay tables against which the stored due times were last checked.
    pub tables: Option<u64>,
}

/// Entries of one group by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// By level; key `None` counts exact delays and back-offs.
    pub waiting: BTreeMap<Option<u32>, u64>,
    pub by_state: BTreeMap<StateKind, u64>,
}

impl EntryCounts {
    pub fn of(&self, kind: StateKind) -> u64 {
        self.by_state.get(&kind).copied().unwrap_or(0)
    }
}

/// The store of a [`Ledger`](crate::retry::Ledger).
pub trait Entries {
    fn get(&self, id: EntryId) -> Option<Entry>;
    /// The entry with this origin ([`Entry::remembered_origin`]).
    fn by_origin(&self, group: &GroupId, origin: &Origin) -> Option<EntryId>;
    /// The entry with this delivery among its remembered ones ([`Entry::places`]).
    fn by_place(&self, group: &GroupId, place: RetryPlace) -> Option<EntryId>;
    /// Waiting entries due at or before `now`, by (due, id).
    fn due(&self, group: &GroupId, now: WallMs, limit: usize) -> Vec<EntryId>;
    /// The first due time after `after`; `None` as `after`: the first of all.
    fn next_due(&self, group: &GroupId, after: Option<WallMs>) -> Option<WallMs>;
    /// Number of waiting entries due at or before `now`.
    fn count_due(&self, group: &GroupId, now: WallMs) -> u64;
    /// Held entries of the group with an id above `after`, by id.
    fn blocked(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId>;
    /// Approximate size of the entry's record.
    fn record_bytes(&self, id: EntryId) -> u64;
    /// Inflight entries of the partition of `from`, from that offset on, in order.
    fn unread(&self, group: &GroupId, from: RetryPlace, limit: usize) -> Vec<EntryId>;
    /// Number of inflight entries of the partition.
    fn open(&self, group: &GroupId, of: RetryPartition) -> usize;
    /// Entries whose [`Entry::expires`] is at or before `now`, by (expires, id).
    fn expired(&self, now: WallMs, limit: usize) -> Vec<EntryId>;
    /// The first `expires` of all entries.
    fn next_expiry(&self) -> Option<WallMs>;
    /// Entries with a remembered origin in that partition below `offset` that were not committed
    /// past.
    fn not_passed_below(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId>;
    /// Entries with a remembered origin in that partition at or above `offset` that were committed
    /// past.
    fn passed_from(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId>;
    /// Entries with a remembered origin in that topic.
    fn of_topic(&self, group: &GroupId, topic: &TopicName) -> Vec<EntryId>;
    /// Entries of the group with an id above `after`, by id.
    fn page(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId>;
    /// Every group with an entry, in order.
    fn groups(&self) -> Vec<GroupId>;
    fn counts(&self, group: &GroupId) -> EntryCounts;
    /// Partitions of retry topics with inflight entries, in order.
    fn partitions(&self, group: &GroupId) -> Vec<RetryPartition>;
    fn marks(&self) -> Marks;
    /// Stores an entry, new or in place of the one with its id.
    fn put(&mut self, entry: &Entry);
    /// Removes an entry; no effect if there is none.
    fn remove(&mut self, id: EntryId);
    fn put_marks(&mut self, marks: Marks);
}
