//! References of an entry into the log.

use serde::{Deserialize, Serialize};

use crate::engine::store::log::StoredRef;
use crate::retry::{Entry, PayloadChange, RetryState};

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

    /// Bytes of the present dead letter.
    pub(super) fn letter_bytes(&self) -> u64 {
        self.dead.map_or(0, |(_, len)| u64::from(len))
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
