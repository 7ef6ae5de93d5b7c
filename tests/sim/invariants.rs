//! Invariants of every state of the engine.

use std::collections::{BTreeMap, BTreeSet};

use reprise::retry::LedgerSnapshot;

pub fn hold(state: &LedgerSnapshot) {
    let mut origins = BTreeSet::new();
    let mut places = BTreeMap::new();
    for (id, entry) in &state.entries {
        assert!(id.0 < state.marks.next_id, "ids are never used twice: {id}");
        if let Some(origin) = entry.remembered_origin() {
            let first = origins.insert((entry.group.clone(), origin.clone()));
            assert!(first, "one entry per group and origin: {origin}");
        }
        for place in &entry.places {
            let other = places.insert((entry.group.clone(), *place), id);
            assert_eq!(other, None, "a place offset names one entry");
        }
        if let Some(place) = entry.unread() {
            assert_eq!(entry.places.last(), Some(&place), "the current hand-out is the last");
            assert_eq!(entry.expires, None, "a released retry waits for its commit");
        }
    }
}
