//! References of an entry into the log.

use serde::{Deserialize, Serialize};

use crate::engine::store::log::StoredRef;
use crate::retry::{Entry, PayloadChange, RetryState};

/// Bytes of log entries with records.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryBytes {
    /// Entries without a dead letter.
    pub(super) waiting: u64,
    /// Dead letters that are neither redriven nor discarded.
    pub(super) letters: u64,
}

impl EntryBytes {
    /// Replaces the bytes of one entry.
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        self.waiting = self.waiting.saturating_add(after.waiting).saturating_sub(before.waiting);
        self.letters = self.letters.saturating_add(after.letters).saturating_sub(before.letters);
    }
}

/// The references of one entry.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refs {
    /// The latest fact of the entry.
    pub(super) latest: Option<StoredRef>,
    /// The fact with the record's bytes.
    pub(super) payload: Option<StoredRef>,
    /// The fact that is the dead letter; it belongs to the letter's stream.
    pub(super) dead: Option<StoredRef>,
    /// Dead letters of the entry from before a redrive or a discard.
    pub(super) letters: Vec<StoredRef>,
    /// Released facts that may still be on disk.
    pub(super) spent: Vec<StoredRef>,
}

impl Refs {
    /// True when the entry needs this fact.
    pub(super) fn needs(&self, at: StoredRef) -> bool {
        [self.latest, self.payload, self.dead].contains(&Some(at)) || self.letters.contains(&at)
    }

    /// True when the next fact in the state `Dead` is written as a dead letter: not when there is
    /// one, or the latest is restored.
    pub(super) fn begins_letter(&self) -> bool {
        self.dead.is_none() && (self.payload.is_some() || self.letters.is_empty())
    }

    pub(super) fn bytes(&self) -> EntryBytes {
        let bytes = |at: Option<StoredRef>| at.map_or(0, |(_, len)| u64::from(len));
        EntryBytes { waiting: bytes(self.payload), letters: bytes(self.dead) }
    }

    /// The references after a fact.
    pub(super) fn after(&self, entry: &Entry, payload: PayloadChange, at: StoredRef) -> Self {
        let payload = match payload {
            PayloadChange::Begins(_) => Some(at),
            PayloadChange::Keeps => self.payload,
        };
        let is_dead = matches!(entry.state, RetryState::Dead { .. });
        let mut letters = self.letters.clone();
        let dead = match (is_dead, self.dead) {
            (true, Some(dead)) => Some(dead),
            (true, None) if payload.is_none() => letters.pop().or(Some(at)),
            (true, None) => Some(at),
            (false, dead) => {
                letters.extend(dead);
                None
            }
        };
        Self {
            latest: Some(at),
            payload: payload.filter(|_| !is_dead),
            dead,
            letters,
            spent: self.spent.clone(),
        }
    }
}
