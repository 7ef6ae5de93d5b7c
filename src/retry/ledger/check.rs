//! Invariants of the ledger, checked after every step of a test while the store is small.

use std::collections::BTreeMap;

use crate::model::EntryId;
use crate::retry::{Entries, Entry, Ledger, Marks};

/// The whole state: equal for a live ledger and for one that replayed its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSnapshot {
    pub entries: BTreeMap<EntryId, Entry>,
    pub marks: Marks,
}

impl<S: Entries> Ledger<S> {
    /// All state that a replay must restore. Reads the whole store.
    pub fn fingerprint(&self) -> LedgerSnapshot {
        let mut entries = BTreeMap::new();
        for group in self.store.groups() {
            for id in self.store.page(&group, None, usize::MAX) {
                entries.extend(self.store.get(id).map(|entry| (id, entry)));
            }
        }
        LedgerSnapshot { entries, marks: self.store.marks() }
    }

    /// Checks every invariant; runs after each step of a test.
    #[cfg(test)]
    pub(super) fn check(&self) {
        if self.store.marks().next_id <= tests::CHECKED_MAX {
            tests::invariants(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;
    use crate::retry::StateKind;

    /// A check reads the whole store, so larger stores are not checked.
    pub(super) const CHECKED_MAX: u64 = 256;

    pub(super) fn invariants<S: Entries>(ledger: &Ledger<S>) {
        let LedgerSnapshot { entries, marks } = ledger.fingerprint();
        let mut places = BTreeMap::new();
        let mut origins = BTreeMap::new();
        for (id, entry) in &entries {
            let group = &entry.group;
            assert!(id.0 < marks.next_id, "ids are never used twice: {id}");
            if let Some(origin) = entry.remembered_origin() {
                let other = origins.insert((group, origin), id);
                assert_eq!(other, None, "one entry per group and origin: {origin}");
                assert_eq!(ledger.store.by_origin(group, origin), Some(*id));
            }
            for place in &entry.places {
                let other = places.insert((group, *place), id);
                assert_eq!(other, None, "a place names one entry");
                assert_eq!(ledger.store.by_place(group, *place), Some(*id));
            }
            let waits = ledger.store.due(group, WallMs(i64::MAX), usize::MAX).contains(id);
            assert_eq!(waits, entry.due().is_some(), "waiting entries are in the queue: {entry:?}");
            let held = ledger.store.blocked(group, None, usize::MAX).contains(id);
            assert_eq!(
                held,
                entry.state.kind() == StateKind::Blocked,
                "held ones are found: {entry:?}"
            );
            if held {
                let look = ledger.room.due(WallMs(i64::MAX)).any(|(looked, _)| looked == group);
                assert!(look, "nothing is held for ever");
            }
            if let Some(place) = entry.unread() {
                assert_eq!(
                    entry.places.last(),
                    Some(&place),
                    "the current hand-out is the last one"
                );
            }
            if entry.superseded && entry.state.kind() != StateKind::Dead {
                assert!(entry.passed.is_some(), "nothing of a topic that is gone stays for ever");
            }
        }
        for group in ledger.store.groups() {
            let counts = ledger.store.counts(&group);
            let all: u64 = counts.by_state.values().sum();
            let listed = entries.values().filter(|entry| entry.group == group).count();
            assert_eq!(all, listed as u64, "every entry is in exactly one state");
            assert_eq!(counts.waiting.values().sum::<u64>(), counts.of(StateKind::Waiting));
        }
    }
}
