//! Room for dead letters: what was told of it, and when held records are looked at again.
//!
//! Nothing here is journalled: bytes are seen, not decided, and a start sets every look anew.

use std::collections::BTreeMap;

use crate::model::{EntryId, GroupId, WallMs};

/// A held record is looked at again after this.
pub(super) const LOOK_MS: u64 = 30_000;
/// What a dead letter takes beside its record, at most as a rule: 4 KiB of headers, and the fact.
const LETTER_MORE_BYTES: u64 = 8 << 10;

/// By group, as far as there is something to know.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes of the kept dead letters: as last told, and what was decided since.
    taken_bytes: BTreeMap<GroupId, u64>,
    looks: BTreeMap<GroupId, Look>,
}

/// The next look at the held records of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// When.
    pub(super) at: WallMs,
    /// It goes on behind this one; `None`: at the first.
    pub(super) after: Option<EntryId>,
}

impl Room {
    /// The dead letters of a group take so many bytes now.
    pub(super) fn told(&mut self, group: GroupId, bytes: u64) {
        self.taken_bytes.insert(group, bytes);
    }

    /// Whether one record more of so many bytes stays within `bytes_max`.
    pub(super) fn is_for(&self, group: &GroupId, record_bytes: u64, bytes_max: u64) -> bool {
        let taken = self.taken_bytes.get(group).copied().unwrap_or(0);
        taken.saturating_add(letter_bytes(record_bytes)) <= bytes_max
    }

    /// One more was decided; until the next telling it counts at its largest.
    pub(super) fn take(&mut self, group: &GroupId, record_bytes: u64) {
        let taken = self.taken_bytes.entry(group.clone()).or_default();
        *taken = taken.saturating_add(letter_bytes(record_bytes));
    }

    /// A record is held from now on: looks at the group begin unless they have.
    pub(super) fn hold(&mut self, group: &GroupId, now: WallMs) {
        let first = Look { at: now.plus(LOOK_MS), after: None };
        self.looks.entry(group.clone()).or_insert(first);
    }

    /// Looks at this group at once.
    pub(super) fn hasten(&mut self, group: &GroupId, now: WallMs) {
        self.look(group, Look { at: now, after: None });
    }

    /// Looks at every group with held records at once.
    pub(super) fn hasten_all(&mut self, now: WallMs) {
        for look in self.looks.values_mut() {
            *look = Look { at: now, after: None };
        }
    }

    pub(super) fn look(&mut self, group: &GroupId, look: Look) {
        self.looks.insert(group.clone(), look);
    }

    pub(super) fn first(&self) -> Option<WallMs> {
        self.looks.values().map(|look| look.at).min()
    }

    pub(super) fn due(&self, now: WallMs) -> impl Iterator<Item = (&GroupId, &Look)> {
        self.looks.iter().filter(move |(_, look)| look.at <= now)
    }

    pub(super) fn take_due(&mut self, now: WallMs) -> Vec<(GroupId, Look)> {
        let due = self.looks.extract_if(.., |_, look| look.at <= now);
        due.collect()
    }
}

fn letter_bytes(record_bytes: u64) -> u64 {
    record_bytes.saturating_add(LETTER_MORE_BYTES)
}
