//! The summary of a group for the admin port and metrics.

use std::collections::BTreeMap;

use crate::engine::driver::Driver;
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
    /// Kinds of its dead letters.
    pub fingerprints: usize,
    /// Number of waiting entries that are due.
    pub due: u64,
    /// The first due time of all waiting entries.
    pub first_due: Option<WallMs>,
    /// Time of the oldest delivery that is not settled.
    pub oldest_out: Option<WallMs>,
    /// Due and exhausted entries that cannot enter their topic, with the reason: the record cannot
    /// be read, or the topic does not take it.
    pub blocked: BTreeMap<EntryId, String>,
    /// The number of due entries among them.
    pub due_blocked: usize,
    /// The first exhausted record has no room among the dead letters.
    pub is_full: bool,
    /// The reason why dead letters do not reach the cluster behind.
    pub letter_trouble: Option<String>,
    /// Due entries by the topic whose retry topic nobody reads, while another one is read.
    pub unserved: BTreeMap<Option<TopicName>, u64>,
}

impl GroupSummary {
    pub(super) fn of(driver: &Driver, group: &GroupId, now: WallMs) -> Self {
        let store = driver.ledger.store();
        Self {
            group: group.clone(),
            blocked: blocked(driver, group, now),
            due_blocked: due_blocked(driver, group, now).count(),
            is_full: is_full(driver, group),
            letter_trouble: driver.queued_releases.troubles().get(group).cloned(),
            counts: store.counts(group),
            letter_bytes: store.dead_letter_bytes(group),
            fingerprints: store.count_shapes(group),
            due: store.count_due(group, now),
            first_due: store.next_due(group, None),
            oldest_out: store.oldest_out(group),
            unserved: driver.mover.unserved(group),
        }
    }
}

fn is_full(driver: &Driver, group: &GroupId) -> bool {
    let store = driver.ledger.store();
    let first = store.blocked(group, None, 1).pop();
    first.is_some_and(|id| !driver.ledger.has_room(group, store.record_bytes(id)))
}

/// Due and exhausted entries of a group that cannot enter their topic, with the reasons.
pub(super) fn blocked(driver: &Driver, group: &GroupId, now: WallMs) -> BTreeMap<EntryId, String> {
    let all = due_blocked(driver, group, now).chain(driver.letters.aside(group));
    all.map(|(id, why)| (id, why.to_owned())).collect()
}

fn due_blocked<'a>(
    driver: &'a Driver,
    group: &GroupId,
    now: WallMs,
) -> impl Iterator<Item = (EntryId, &'a str)> {
    let store = driver.ledger.store();
    let due = |id: EntryId| store.get(id).and_then(|entry| entry.due());
    let is_due = move |id: EntryId| due(id).is_some_and(|due| due <= now);
    driver.mover.aside(group).filter(move |(id, _)| is_due(*id))
}
