//! Single file in the lane: an entry whose hand-outs were lost with their members again and again
//! goes out with nothing beside it at its member.
//!
//! How often it was lost is stored with it, and so is that it is out alone ([`State::Alone`]): what
//! it says that its member is lost then is known after a restart too.

use crate::model::LaneOffset;
use crate::retry::{Disposition, Entry, Evidence, Policy, State};

/// Other outstanding records of the member that asks, as far as the detector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Something is, or may be.
    Some,
    /// Something is, for so long that it is not waited for any more.
    Old,
    /// Nothing.
    None,
}

/// An entry of this kind, at the slot of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// As which hand-out it is out, alone; `None`: it is due, and waits for that.
    pub lane: Option<LaneOffset>,
    /// How often patience with it has doubled.
    pub doublings: u32,
}

impl Entry {
    /// It goes alone; how often it was lost since it does.
    pub(super) fn singled(&self, policy: &Policy) -> Option<u32> {
        self.losses.checked_sub(policy.crash_limit).filter(|_| policy.inference)
    }

    /// As that, if it is out alone.
    pub(super) fn single(&self, policy: &Policy) -> Option<Single> {
        let State::Alone { lane, .. } = self.state else { return None };
        let doublings = self.singled(policy).unwrap_or_default();
        Some(Single { lane: Some(lane), doublings })
    }

    /// The lost delivery was one of the entry alone.
    pub(super) fn is_lost_alone(&self, policy: &Policy, evidence: Evidence) -> bool {
        let was_alone = matches!(self.state, State::Alone { .. });
        self.singled(policy).is_some() && was_alone && evidence == Evidence::MemberLost
    }

    /// It was out alone at the loss before, or has failed so before.
    pub(super) fn is_suspect(&self) -> bool {
        self.disposition.is_some_and(is_a_loss)
    }

    /// A loss was put down as its failure.
    pub(super) fn has_crashed(&self) -> bool {
        self.history.last().is_some_and(|(_, last)| is_a_loss(*last))
    }

    /// It was out alone and is lost; that is not charged yet.
    pub(super) fn suspect(&mut self) {
        self.disposition = Some(Disposition::Crashed);
    }

    /// It was not alone this time: the loss before says nothing of it either.
    pub(super) fn clear(&mut self) {
        if self.is_suspect() && !self.has_crashed() {
            self.disposition = self.history.last().map(|(_, last)| *last);
        }
    }
}

fn is_a_loss(disposition: Disposition) -> bool {
    matches!(disposition, Disposition::Crashed | Disposition::CommitFailed)
}
