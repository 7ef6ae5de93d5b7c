//! What an entry needs of the log.

use serde::{Deserialize, Serialize};

use crate::engine::store::log::At;
use crate::retry::{Entry, Evidence, PayloadChange, State};

/// The references of one entry.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refs {
    /// Its latest fact.
    pub(super) latest: Option<At>,
    /// The slot whose hand-out the latest fact is: group number, slot.
    pub(super) handout: Option<(u32, u16)>,
    /// The fact its bytes lie in.
    pub(super) payload: Option<At>,
    /// The fact that is its dead letter: the stream's, not ours.
    pub(super) dead: Option<At>,
    /// Dead letters of it that are in the stream still, of before a redrive or a discard.
    pub(super) letters: Vec<At>,
    /// The one of `letters` that stays until an acknowledgement: its record was changed.
    pub(super) original: Option<At>,
    /// Not needed any more, but perhaps still on the disk.
    pub(super) spent: Vec<At>,
}

impl Refs {
    /// Whether it needs this fact.
    pub(super) fn needs(&self, at: At) -> bool {
        [self.latest, self.payload, self.dead].contains(&Some(at)) || self.letters.contains(&at)
    }

    /// Whether the next fact in the state `Dead` is written as a dead letter: not where there is
    /// one, or where the latest is restored.
    pub(super) fn begins_letter(&self) -> bool {
        self.dead.is_none() && (self.payload.is_some() || self.letters.is_empty())
    }

    /// Takes the dead letters that an entry in this state needs no more.
    pub(super) fn take_letters(&mut self, entry: &Entry) -> Vec<At> {
        let is_needed = match entry.state {
            State::Dead { .. } => {
                let (kept, taken) =
                    self.letters.iter().partition(|letter| Some(**letter) == self.original);
                self.letters = kept;
                return taken;
            }
            State::Committed { .. } | State::Discarded { .. } => false,
            State::Waiting { .. }
            | State::Inflight { .. }
            | State::Alone { .. }
            | State::Held { .. }
            | State::Exported { .. }
            | State::Behind { .. }
            | State::Discarding { .. } => true,
        };
        if is_needed {
            return Vec::new();
        }
        self.original = None;
        std::mem::take(&mut self.letters)
    }

    /// The references after this fact.
    pub(super) fn after(
        &self,
        entry: &Entry,
        (evidence, payload): (Evidence, PayloadChange),
        at: At,
        group: u32,
    ) -> Self {
        let original = match evidence {
            Evidence::Edit => self.original.or(self.dead),
            _ => self.original,
        };
        let payload = match payload {
            PayloadChange::Begins(_) => Some(at),
            PayloadChange::Keeps => self.payload,
        };
        let is_dead = matches!(entry.state, State::Dead { .. });
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
            handout: entry.inflight().map(|lane| (group, lane.slot.0)),
            payload: payload.filter(|_| !is_dead),
            dead,
            letters,
            original,
            spent: self.spent.clone(),
        }
    }
}
