//! The dead-letter quota: present size, and the next check of withheld records.
//!
//! Not journalled: the engine reports sizes, and a restart schedules all checks anew.

use std::collections::BTreeMap;

use crate::model::{EntryId, GroupId, WallMs};

/// Interval between checks of withheld records.
pub(super) const LOOK_MS: u64 = 30_000;
/// Usual upper bound of a dead letter's size beside its record: 4 KiB of headers, and the fact.
const LETTER_MORE_BYTES: u64 = 8 << 10;

/// Quota state of each group that needs one.
#[derive(Debug, Default)]
pub(super) struct DeadLetterQuota {
    /// Bytes of the dead letters: the last reported size, plus additions since.
    taken_bytes: BTreeMap<GroupId, u64>,
    looks: BTreeMap<GroupId, QuotaCheck>,
}

/// The next check of a group's withheld records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaCheck {
    pub(super) at: WallMs,
    /// The check continues after this entry; `None`: from the first one.
    pub(super) after: Option<EntryId>,
}

impl DeadLetterQuota {
    /// Sets the reported size of a group's dead letters.
    pub(super) fn told(&mut self, group: GroupId, bytes: u64) {
        self.taken_bytes.insert(group, bytes);
    }

    /// Whether one more record of this size stays within `bytes_max`.
    pub(super) fn is_for(&self, group: &GroupId, record_bytes: u64, bytes_max: u64) -> bool {
        let taken = self.taken_bytes.get(group).copied().unwrap_or(0);
        taken.saturating_add(letter_bytes(record_bytes)) <= bytes_max
    }

    /// Adds a dead letter at its largest size, until the next report.
    pub(super) fn take(&mut self, group: &GroupId, record_bytes: u64) {
        let taken = self.taken_bytes.entry(group.clone()).or_default();
        *taken = taken.saturating_add(letter_bytes(record_bytes));
    }

    /// A record is withheld from now on: schedules checks of the group, unless scheduled.
    pub(super) fn hold(&mut self, group: &GroupId, now: WallMs) {
        let first = QuotaCheck { at: now.plus(LOOK_MS), after: None };
        self.looks.entry(group.clone()).or_insert(first);
    }

    /// Schedules a check of the group at once.
    pub(super) fn hasten(&mut self, group: &GroupId, now: WallMs) {
        self.look(group, QuotaCheck { at: now, after: None });
    }

    /// Schedules a check of every group with withheld records at once.
    pub(super) fn hasten_all(&mut self, now: WallMs) {
        for look in self.looks.values_mut() {
            *look = QuotaCheck { at: now, after: None };
        }
    }

    pub(super) fn look(&mut self, group: &GroupId, look: QuotaCheck) {
        self.looks.insert(group.clone(), look);
    }

    pub(super) fn first(&self) -> Option<WallMs> {
        self.looks.values().map(|look| look.at).min()
    }

    pub(super) fn due(&self, now: WallMs) -> impl Iterator<Item = (&GroupId, &QuotaCheck)> {
        self.looks.iter().filter(move |(_, look)| look.at <= now)
    }

    pub(super) fn take_due(&mut self, now: WallMs) -> Vec<(GroupId, QuotaCheck)> {
        let due = self.looks.extract_if(.., |_, look| look.at <= now);
        due.collect()
    }
}

fn letter_bytes(record_bytes: u64) -> u64 {
    record_bytes.saturating_add(LETTER_MORE_BYTES)
}
