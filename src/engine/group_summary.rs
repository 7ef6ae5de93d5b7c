//! The summary of a group for the admin port and metrics.

use std::collections::BTreeMap;

use crate::engine::mover::Mover;
use crate::engine::store::Store;
use crate::model::{EntryId, GroupId, TopicName, WallMs};
use crate::retry::{Entries, EntryCounts};

/// One group, for the admin port and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    pub group: GroupId,
    /// Entries by state and level.
    pub counts: EntryCounts,
    /// Bytes of its dead letters in the log.
    pub letter_bytes: u64,
    /// Number of waiting entries that are due.
    pub due: u64,
    /// The first due time of all waiting entries.
    pub first_due: Option<WallMs>,
    /// Time of the oldest delivery that is not settled.
    pub oldest_out: Option<WallMs>,
    /// Due entries that cannot be released, with the reason: the record cannot be read, or the
    /// topic does not take it.
    pub blocked: BTreeMap<EntryId, String>,
    /// Due entries by the topic whose retry topic nobody reads, while another one is read.
    pub unserved: BTreeMap<Option<TopicName>, u64>,
}

impl GroupSummary {
    /// The group, read from the store and the mover.
    pub(super) fn of((store, mover): (&Store, &Mover), group: &GroupId, now: WallMs) -> Self {
        Self {
            group: group.clone(),
            blocked: blocked((store, mover), group, now),
            counts: store.counts(group),
            letter_bytes: store.dead_letter_bytes(group),
            due: store.count_due(group, now),
            first_due: store.next_due(group, None),
            oldest_out: store.oldest_out(group),
            unserved: mover.unserved(group),
        }
    }
}

/// Due entries of a group that cannot be released, with the reasons.
pub(super) fn blocked(
    (store, mover): (&Store, &Mover),
    group: &GroupId,
    now: WallMs,
) -> BTreeMap<EntryId, String> {
    let is_due = |id: EntryId| store.get(id)?.due().filter(|due| *due <= now);
    let aside = mover.aside(group).filter(|(id, _)| is_due(*id).is_some());
    aside.map(|(id, why)| (id, why.to_owned())).collect()
}
