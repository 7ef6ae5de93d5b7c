//! A member commits an offset of its retry partition: the retries below it are acknowledged.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, LaneOffset};
use crate::retry::{LedgerAnswer, LedgerInput};

/// A commit of a retry partition.
struct Acknowledge {
    group: GroupId,
    up_to: LaneOffset,
}

/// Asks whether a commit of a retry partition would be accepted.
struct CheckAcknowledge {
    group: GroupId,
    up_to: LaneOffset,
}

impl Engine {
    /// Acknowledges a slot's open deliveries below `up_to` and returns their count. Durable on
    /// return.
    pub async fn lane_commit(
        &self,
        group: &GroupId,
        up_to: LaneOffset,
    ) -> Result<usize, EngineError> {
        self.call(Acknowledge { group: group.clone(), up_to }).await
    }

    /// Checks whether a commit of the retry partition up to `up_to` would be accepted; an error
    /// says why not.
    pub async fn may_commit_lane(
        &self,
        group: &GroupId,
        up_to: LaneOffset,
    ) -> Result<(), EngineError> {
        self.call(CheckAcknowledge { group: group.clone(), up_to }).await
    }

    /// Tells the engine that a transaction was aborted, which would have acknowledged the slot's
    /// deliveries below `up_to`.
    pub fn lane_aborted(&self, group: &GroupId, up_to: LaneOffset) {
        self.tell_ledger(LedgerInput::Aborted { group: group.clone(), up_to });
    }
}

impl Request for Acknowledge {
    type Answer = usize;

    fn run(self, driver: &mut Driver) -> Result<usize, EngineError> {
        let Self { group, up_to } = self;
        match driver.ask(LedgerInput::LaneCommit { group, up_to })? {
            Some(LedgerAnswer::Committed { acknowledged, .. }) => Ok(acknowledged.len()),
            _ => Err(EngineError::CommitBeyondHandOut),
        }
    }
}

impl Request for CheckAcknowledge {
    type Answer = ();

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let slot = driver.ledger.slot_view(&self.group, self.up_to.slot);
        let is_known = slot.is_some_and(|slot| self.up_to <= slot.next);
        is_known.then_some(()).ok_or(EngineError::CommitBeyondHandOut)
    }
}
