//! Invariants of every state of the engine.

use std::collections::{BTreeMap, BTreeSet};

use reprise::retry::LedgerSnapshot;

pub fn hold(state: &LedgerSnapshot) {
    let mut origins = BTreeSet::new();
    let mut lanes = BTreeMap::new();
    for (id, entry) in &state.entries {
        assert!(id.0 < state.marks.next_id, "ids are never used twice: {id}");
        if let Some(origin) = entry.remembered_origin() {
            let first = origins.insert((entry.group.clone(), origin.clone()));
            assert!(first, "one entry per group and origin: {origin}");
        }
        for lane in &entry.lanes {
            let other = lanes.insert((entry.group.clone(), *lane), id);
            assert_eq!(other, None, "a lane offset names one entry");
            let slot = &state.slots[&(entry.group.clone(), lane.slot)];
            assert!(lane.sequence < slot.next_sequence, "sequences never restart");
        }
        if let Some(lane) = entry.inflight() {
            assert_eq!(entry.lanes.last(), Some(&lane), "the current hand-out is the last");
            let slot = &state.slots[&(entry.group.clone(), lane.slot)];
            assert!(slot.member.is_some(), "what is inflight is with a member");
            assert!(entry.expires.is_some(), "no hand-out stays open for ever");
        }
    }
    let mut members = BTreeSet::new();
    for ((group, _), slot) in &state.slots {
        let first = slot.member.iter().all(|m| members.insert((group.clone(), m.clone())));
        assert!(first, "a member holds one slot");
    }
}
