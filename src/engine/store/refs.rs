//! References into the log: the log entries that each retry entry still needs.
//!
//! Each fact has the whole state of its entry, so a later fact makes the earlier one dead. The
//! store keeps
//!
//! * the latest fact of each entry, and the fact with its record's bytes,
//! * the latest check of the delay tables.
//!
//! All other facts are released. A dead letter belongs to its stream and is never released here.
//!
//! **Invariant:** a forgotten entry's tombstone (its [`Fact::Forgotten`]) stays in the log as long
//! as any other fact of that entry is on disk. So a replay of the log alone never brings the entry
//! back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::store::key::{self, RowKey};
use crate::engine::store::log::{EntryLog, StoredRef};
use crate::engine::store::needed::{EntryBytes, Refs};
use crate::engine::store::row::EntryRow;
use crate::engine::store::{Store, value};
use crate::journal::EntryRef;
use crate::model::{EntryId, GroupId};
use crate::retry::{Entry, Fact, PayloadChange, RetryState};

/// Released facts of one entry that are listed before those gone from the disk are dropped.
const SPENT_STEP: usize = 64;

/// A forgotten entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Grave {
    tombstone: StoredRef,
    /// The dead letter, unless it is known to be gone.
    dead: Option<StoredRef>,
    /// Other facts that may still be on disk.
    rest: Vec<StoredRef>,
    /// The entry's last state, and its redrives.
    last: RetryState,
    redrives: u32,
}

impl Store {
    /// True when this fact is to be written as the dead letter itself: the first of its entry in
    /// the state `Dead`. Later facts of the entry are plain ones. Call it before
    /// [`Store::journalled`].
    pub(in crate::engine) fn is_dead_letter(&self, fact: &Fact) -> bool {
        let Fact::Entry { entry, .. } = fact else { return false };
        matches!(entry.state, RetryState::Dead { .. })
            && self.refs(entry.id).is_none_or(|refs| refs.begins_letter())
    }

    /// Records the place of a fact and releases the facts it supersedes. Call it for every fact in
    /// the log's order, live and on recovery, after the ledger has applied it.
    pub(in crate::engine) fn journalled(&mut self, log: &impl EntryLog, fact: &Fact, at: EntryRef) {
        let at = (at.seq, at.len);
        match fact {
            Fact::Entry { entry, payload, .. } => {
                self.entry_journalled(log, entry, *payload, at);
            }
            Fact::Forgotten { id, group, last, redrives, .. } => {
                self.forgotten(log, (*id, group), (*last, *redrives), at);
            }
            Fact::Tables { .. } => {
                let key = RowKey::new(key::TABLES);
                let before = self.row::<StoredRef>(&key);
                if before.is_none_or(|before| before < at) {
                    self.rows.put_value(key.0, &at);
                    if let Some(before) = before {
                        log.release(place(before));
                    }
                }
            }
        }
        self.changed();
    }

    /// The log entry with an entry's bytes: its first fact, or its dead letter.
    pub(in crate::engine) fn payload(&self, id: EntryId) -> Option<EntryRef> {
        let refs = self.refs(id)?;
        refs.payload.or(refs.dead).or(refs.letters.last().copied()).map(place)
    }

    /// The last state of a forgotten entry, and its redrives; `None` once the log has nothing left.
    pub(in crate::engine) fn last_state(&self, id: EntryId) -> Option<(RetryState, u32)> {
        let grave: Grave = self.row(&RowKey::of_entry(key::GRAVE, id))?;
        Some((grave.last, grave.redrives))
    }

    /// Bytes of the log entries of a group's dead letters that are neither redriven nor discarded.
    pub(in crate::engine) fn dead_letter_bytes(&self, group: &GroupId) -> u64 {
        self.groups.get(group).map_or(0, |group| group.bytes.letters)
    }

    /// Bytes of the log entries with the records of a group's other entries.
    pub(in crate::engine) fn waiting_bytes(&self, group: &GroupId) -> u64 {
        self.groups.get(group).map_or(0, |group| group.bytes.waiting)
    }

    /// Checks up to `limit` forgotten entries, round robin. Releases the tombstones of those whose
    /// facts have all left the disk, and returns their number.
    pub(in crate::engine) fn sweep(&mut self, log: &impl EntryLog, limit: usize) -> usize {
        let graves = self.graves(limit);
        // The end of the round: the next sweep begins at the first again.
        self.swept = if graves.len() < limit { None } else { graves.last().map(|(id, _)| *id) };
        let mut released = 0;
        for (id, grave) in graves {
            let left = still_there(log, &grave);
            let key = RowKey::of_entry(key::GRAVE, id);
            // The highest id ever assigned is known only from its facts, so one of them stays.
            let is_last = id.0.saturating_add(1) >= self.marks.next_id;
            if left.dead.is_none() && left.rest.is_empty() && !is_last {
                log.release(place(grave.tombstone));
                self.rows.delete(key.0);
                released += 1;
            } else if left != grave {
                self.rows.put_value(key.0, &left);
            }
        }
        self.changed();
        released
    }

    fn entry_journalled(
        &mut self,
        log: &impl EntryLog,
        entry: &Entry,
        payload: PayloadChange,
        at: StoredRef,
    ) {
        let known = self.known(entry.id);
        let old = known.refs.clone().unwrap_or_default();
        let mut new = old.after(entry, payload, at);
        let (before, after) = (old.bytes(), new.bytes());
        if before != after {
            self.group_mut(&entry.group).bytes.replace(before, after);
        }
        let mut freed = Vec::new();
        let former = [old.latest, old.payload, old.dead].into_iter().flatten();
        for former in former {
            if new.needs(former) {
                continue;
            }
            if !new.spent.contains(&former) {
                new.spent.push(former);
            }
            if old.dead != Some(former) {
                freed.push(former);
            }
        }
        if new.spent.len() > old.spent.len() && new.spent.len().is_multiple_of(SPENT_STEP) {
            new.spent.retain(|spent| !is_gone(log, *spent));
        }
        self.put_known(entry.id, EntryRow { refs: Some(Arc::new(new)), ..known });
        for freed in freed {
            log.release(place(freed));
        }
    }

    fn forgotten(
        &mut self,
        log: &impl EntryLog,
        (id, group): (EntryId, &GroupId),
        (last, redrives): (RetryState, u32),
        tombstone: StoredRef,
    ) {
        let EntryRow { entry, refs } = self.known(id);
        let refs = refs.unwrap_or_default();
        self.put_known(id, EntryRow { entry, refs: None });
        if refs.bytes() != EntryBytes::default() {
            self.group_mut(group).bytes.replace(refs.bytes(), EntryBytes::default());
        }
        let mut rest = refs.spent.clone();
        rest.extend(&refs.letters);
        for at in [refs.latest, refs.payload].into_iter().flatten() {
            if refs.dead == Some(at) || rest.contains(&at) {
                continue;
            }
            rest.push(at);
            log.release(place(at));
        }
        let grave = Grave { tombstone, dead: refs.dead, rest, last, redrives };
        self.rows.put_value(RowKey::of_entry(key::GRAVE, id).0, &grave);
    }

    fn refs(&self, id: EntryId) -> Option<Arc<Refs>> {
        self.known(id).refs
    }

    fn graves(&self, limit: usize) -> Vec<(EntryId, Grave)> {
        let from = match self.swept {
            Some(id) => RowKey::of_entry(key::GRAVE, id).end(),
            None => RowKey::new(key::GRAVE),
        };
        let rows = self.pairs(&from, &RowKey::new(key::GRAVE).end(), limit);
        let graves = rows.iter().map(|(key, grave)| key::read_id(key).zip(value::decode(grave)));
        graves.flatten().collect()
    }
}

/// The references of a forgotten entry still on disk. Stops at the first one found, which is reason
/// enough to keep the tombstone.
fn still_there(log: &impl EntryLog, grave: &Grave) -> Grave {
    let mut left = grave.clone();
    left.dead = left.dead.filter(|dead| !is_gone(log, *dead));
    while left.dead.is_none() && left.rest.last().is_some_and(|at| is_gone(log, *at)) {
        left.rest.pop();
    }
    left
}

/// True when the log no longer has this entry.
fn is_gone(log: &impl EntryLog, at: StoredRef) -> bool {
    !log.holds(place(at))
}

fn place((seq, len): StoredRef) -> EntryRef {
    EntryRef { seq, len }
}
