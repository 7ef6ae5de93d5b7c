//! References of an entry into the log.

use serde::{Deserialize, Serialize};

use crate::engine::store::log::StoredRef;
use crate::retry::{Entry, Evidence, PayloadChange, RetryState};

/// The references of one entry.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refs {
    /// The latest fact of the entry.
    pub(super) latest: Option<StoredRef>,
    /// The fact with the record's bytes.
    pub(super) payload: Option<StoredRef>,
    /// The fact that is the dead letter; it belongs to the letter's stream.
    pub(super) dead: Option<StoredRef>,
    /// Dead letters of the entry still in the stream, from before a redrive or a discard.
    pub(super) letters: Vec<StoredRef>,
    /// The one of `letters` that stays until an acknowledgement, because its record was edited.
    pub(super) original: Option<StoredRef>,
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

    /// Takes the dead letters that an entry in this state no longer needs.
    pub(super) fn take_letters(&mut self, entry: &Entry) -> Vec<StoredRef> {
        let is_needed = match entry.state {
            RetryState::Dead { .. } => {
                let (kept, taken) =
                    self.letters.iter().partition(|letter| Some(**letter) == self.original);
                self.letters = kept;
                return taken;
            }
            RetryState::Committed { .. } | RetryState::Discarded { .. } => false,
            RetryState::Waiting { .. }
            | RetryState::Released { .. }
            | RetryState::Blocked { .. }
            | RetryState::Discarding { .. } => true,
        };
        if is_needed {
            return Vec::new();
        }
        self.original = None;
        std::mem::take(&mut self.letters)
    }

    /// The references after a fact.
    pub(super) fn after(
        &self,
        entry: &Entry,
        (evidence, payload): (Evidence, PayloadChange),
        at: StoredRef,
    ) -> Self {
        let original = match evidence {
            Evidence::Edit => self.original.or(self.dead),
            _ => self.original,
        };
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
            original,
            spent: self.spent.clone(),
        }
    }
}
