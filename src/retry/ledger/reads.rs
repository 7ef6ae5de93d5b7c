//! Read access for the admin API.

use crate::model::{EntryId, GroupId};
use crate::retry::{Entries, Entry, EntryCounts, Ledger};

impl<S: Entries> Ledger<S> {
    /// Every group with an entry, in order.
    pub fn groups(&self) -> Vec<GroupId> {
        self.store.groups()
    }

    pub fn entry(&self, id: EntryId) -> Option<Entry> {
        self.store.get(id)
    }

    /// The group's entries by state, waiting ones also by level.
    pub fn counts(&self, group: &GroupId) -> EntryCounts {
        self.store.counts(group)
    }
}
