//! The first dead letter of each group, as the last scrape found it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{EntryId, GroupId};

/// The first dead letter of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldestLetter {
    pub(super) offset: i64,
    /// The entry, and its redrives before the letter. `None`: a client produced the letter, or no
    /// dead letter was found up to this offset.
    pub(super) entry: Option<(EntryId, u32)>,
    /// Time of death in seconds since 1970; 0: no dead letter was found.
    pub(super) since: f64,
}

/// The first dead letter of each group. A scrape asks only for the state of that letter, and
/// searches for the next one once its state has changed.
#[derive(Debug, Default)]
pub(in crate::server) struct OldestLetters(Mutex<BTreeMap<GroupId, OldestLetter>>);

impl OldestLetters {
    pub(super) fn known(&self) -> MutexGuard<'_, BTreeMap<GroupId, OldestLetter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
