//! The ledger's store, as a trait: in memory here, on disk in the engine.
//!
//! A store keeps every index itself, from the fields of the entries it is given: `put` replaces
//! the entry of that id and moves it in all indexes.
//!
//! ```text
//! id                                          → entry
//! group, remembered origin                    → id      origin
//! group, every lane offset it remembers       → id      lane
//! group, inflight lane offset                 → id      inflight
//! group, due, id                                        waiting
//! expires, id                                           any state
//! group, id                                             held
//! group, topic, partition, passed?, offset    → id      commits and resets
//! group, topic, partition, rank, key, offset  → id      the line of a key
//! group, slot                                 → slot record
//! ```

use std::collections::BTreeMap;

use crate::model::{
    EntryId, GroupId, LaneOffset, MemberId, OrderKey, Origin, Slot, TopicName, TopicPartition,
    WallMs,
};
use crate::retry::{Entry, Rank, StateKind};

/// One slot of a group's lane partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its number in the group.
    pub slot: Slot,
    /// Who holds it; `None` while nobody does.
    pub member: Option<MemberId>,
    /// The sequence of its next hand-out; never falls, whoever holds it.
    pub next_sequence: u64,
}

/// What a store remembers beside entries and slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The id the next entry gets.
    pub next_id: u64,
    /// The latest time of any fact applied; `None` before the first.
    pub latest: Option<WallMs>,
    /// Which delay tables the stored due times were last checked against.
    pub tables: Option<u64>,
}

/// Entries of one group by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting, by level; `None` holds exact delays and back-offs.
    pub waiting: BTreeMap<Option<u32>, u64>,
    /// All states.
    pub by_state: BTreeMap<StateKind, u64>,
}

impl Counts {
    /// How many are in this state.
    pub fn of(&self, kind: StateKind) -> u64 {
        self.by_state.get(&kind).copied().unwrap_or(0)
    }
}

/// The store of a [`Ledger`](crate::retry::Ledger).
pub trait Entries {
    /// The entry of that id.
    fn get(&self, id: EntryId) -> Option<Entry>;
    /// The entry this origin leads to ([`Entry::remembered_origin`]).
    fn by_origin(&self, group: &GroupId, origin: &Origin) -> Option<EntryId>;
    /// The entry one of whose remembered hand-outs ([`Entry::lanes`]) this is.
    fn by_lane(&self, group: &GroupId, lane: LaneOffset) -> Option<EntryId>;
    /// Waiting entries due at or before `now`, by (due, id).
    fn due(&self, group: &GroupId, now: WallMs, limit: usize) -> Vec<EntryId>;
    /// The first due time later than `after`; `None` for `after` asks for the first of all.
    fn next_due(&self, group: &GroupId, after: Option<WallMs>) -> Option<WallMs>;
    /// How many waiting entries are due at or before `now`.
    fn count_due(&self, group: &GroupId, now: WallMs) -> u64;
    /// Held entries of the group with an id above `after`, by id.
    fn held(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId>;
    /// About how many bytes the entry's record takes.
    fn record_bytes(&self, id: EntryId) -> u64;
    /// Inflight entries of that slot from that lane offset on, by sequence.
    fn inflight(&self, group: &GroupId, from: LaneOffset, limit: usize) -> Vec<EntryId>;
    /// How many inflight entries that slot has.
    fn open(&self, group: &GroupId, slot: Slot) -> usize;
    /// The first lane offset of those.
    fn first_open(&self, group: &GroupId, slot: Slot) -> Option<LaneOffset>;
    /// Entries whose [`Entry::expires`] is at or before `now`, by (expires, id).
    fn expired(&self, now: WallMs, limit: usize) -> Vec<EntryId>;
    /// The first `expires` of all.
    fn next_expiry(&self) -> Option<WallMs>;
    /// Entries with a remembered origin of that partition below `offset` and not `passed`.
    fn not_passed_below(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId>;
    /// Entries with a remembered origin of that partition at or above `offset` and `passed`.
    fn passed_from(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Vec<EntryId>;
    /// Entries with a remembered origin in that topic.
    fn of_topic(&self, group: &GroupId, topic: &TopicName) -> Vec<EntryId>;
    /// Entries of a key of that partition with that rank ([`Entry::lined`]), by offset.
    fn of_key(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        key: OrderKey,
        rank: Rank,
        limit: usize,
    ) -> Vec<(i64, EntryId)>;
    /// Entries of the group with an id above `after`, by id.
    fn page(&self, group: &GroupId, after: Option<EntryId>, limit: usize) -> Vec<EntryId>;
    /// Every group with an entry or a slot, in order.
    fn groups(&self) -> Vec<GroupId>;
    /// Entries of the group by state.
    fn counts(&self, group: &GroupId) -> Counts;
    /// The group's slots, held or not, by number.
    fn slots(&self, group: &GroupId) -> Vec<SlotRecord>;
    /// One slot.
    fn slot(&self, group: &GroupId, slot: Slot) -> Option<SlotRecord>;
    /// What is remembered beside entries and slots.
    fn marks(&self) -> Marks;
    /// Puts an entry down, new or in place of the one with its id.
    fn put(&mut self, entry: &Entry);
    /// Drops an entry; nothing happens when there is none.
    fn remove(&mut self, id: EntryId);
    /// Puts a slot down.
    fn put_slot(&mut self, group: &GroupId, slot: &SlotRecord);
    /// Puts the marks down.
    fn put_marks(&mut self, marks: Marks);
}
