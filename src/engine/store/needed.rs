//! What an entry needs of the log.

use serde::{Deserialize, Serialize};

use crate::engine::store::log::At;
use crate::retry::{Entry, PayloadChange, State};

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
    /// Not needed any more, but perhaps still on the disk.
    pub(super) spent: Vec<At>,
}

impl Refs {
    /// Whether it needs this fact.
    pub(super) fn needs(&self, at: At) -> bool {
        [self.latest, self.payload, self.dead].contains(&Some(at))
    }

    /// The references after this fact.
    pub(super) fn after(&self, entry: &Entry, payload: PayloadChange, at: At, group: u32) -> Self {
        let payload = match payload {
            PayloadChange::Begins(_) => Some(at),
            PayloadChange::Keeps => self.payload,
        };
        let is_dead = matches!(entry.state, State::Dead { .. });
        Self {
            latest: Some(at),
            handout: entry.inflight().map(|lane| (group, lane.slot.0)),
            payload: payload.filter(|_| !is_dead),
            dead: if is_dead { self.dead.or(Some(at)) } else { None },
            spent: self.spent.clone(),
        }
    }
}
