//! The summary of a group for the admin port and metrics.

use std::collections::BTreeMap;

use crate::engine::mover::Mover;
use crate::engine::store::Store;
use crate::model::{GroupId, TopicName, WallMs};
use crate::retry::{Entries, EntryCounts};

/// One group, for the admin port and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    pub group: GroupId,
    /// Entries by state and level.
    pub counts: EntryCounts,
    /// Number of waiting entries that are due.
    pub due: u64,
    /// The first due time of all waiting entries.
    pub first_due: Option<WallMs>,
    /// Time of the oldest delivery that is not settled.
    pub oldest_out: Option<WallMs>,
    /// Due entries by the topic whose retry topic nobody reads, while another one is read.
    pub unserved: BTreeMap<Option<TopicName>, u64>,
}

impl GroupSummary {
    /// The group, read from the store and the mover.
    pub(super) fn of((store, mover): (&Store, &Mover), group: &GroupId, now: WallMs) -> Self {
        Self {
            group: group.clone(),
            counts: store.counts(group),
            due: store.count_due(group, now),
            first_due: store.next_due(group, None),
            oldest_out: store.oldest_out(group),
            unserved: mover.unserved(group),
        }
    }
}
