//! Isolated retries: an entry whose deliveries were lost with their members `crash_limit` times in
//! a row. The member that receives such an entry has no other outstanding record.
//!
//! The ledger journals both facts, as `losses` and [`RetryState::Alone`]. So the loss of an
//! isolated delivery counts after a restart too.

use crate::model::LaneOffset;
use crate::retry::{Disposition, Entry, Evidence, Policy, RetryState};

/// Other outstanding records of the fetching member, as far as the detector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherDeliveries {
    /// Some, or unknown.
    Some,
    /// Some, outstanding for too long to be waited for.
    Old,
    None,
}

/// An isolated retry, at the slot of the fetching member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsolatedRetry {
    /// The isolated delivery; `None`: the entry is due and waits for its turn.
    pub lane: Option<LaneOffset>,
    /// Doublings of the time that the isolation may take.
    pub doublings: u32,
}

impl Entry {
    /// Losses beyond `crash_limit`; `None`: the entry is not to be isolated.
    pub(super) fn singled(&self, policy: &Policy) -> Option<u32> {
        self.losses.checked_sub(policy.crash_limit).filter(|_| policy.inference)
    }

    /// The isolated delivery; `None` unless one is outstanding.
    pub(super) fn single(&self, policy: &Policy) -> Option<IsolatedRetry> {
        let RetryState::Alone { lane, .. } = self.state else { return None };
        let doublings = self.singled(policy).unwrap_or_default();
        Some(IsolatedRetry { lane: Some(lane), doublings })
    }

    /// The member was lost during an isolated delivery of the entry.
    pub(super) fn is_lost_alone(&self, policy: &Policy, evidence: Evidence) -> bool {
        let was_alone = matches!(self.state, RetryState::Alone { .. });
        self.singled(policy).is_some() && was_alone && evidence == Evidence::MemberLost
    }

    /// The previous isolated delivery was lost too, or such a loss was charged before.
    pub(super) fn is_suspect(&self) -> bool {
        self.disposition == Some(Disposition::Crashed)
    }

    /// The last charged failure is a loss.
    pub(super) fn has_crashed(&self) -> bool {
        self.history.last().is_some_and(|(_, last)| *last == Disposition::Crashed)
    }

    /// Marks a lost isolated delivery; the next one in a row is charged.
    pub(super) fn suspect(&mut self) {
        self.disposition = Some(Disposition::Crashed);
    }

    /// Removes the mark: the last lost delivery was not isolated, so the loss before proves
    /// nothing.
    pub(super) fn clear(&mut self) {
        if self.is_suspect() && !self.has_crashed() {
            self.disposition = self.history.last().map(|(_, last)| *last);
        }
    }
}
