//! Assignment of a retry partition (slot) to a member.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, MemberId};
use crate::retry::{LedgerAnswer, LedgerInput, SlotView};

/// A member's slot.
pub type LaneSlot = SlotView;

/// A member that needs a slot.
struct Join {
    group: GroupId,
    member: MemberId,
}

/// Asks for the slot of a member.
struct FindSlot {
    group: GroupId,
    member: MemberId,
    /// The member is fetching its committed offset.
    resumes: bool,
}

impl Engine {
    /// The slot of a member; assigned now if it had none. Durable on return.
    pub async fn join(&self, group: &GroupId, member: MemberId) -> Result<LaneSlot, EngineError> {
        self.call(Join { group: group.clone(), member }).await
    }

    /// The slot of a member, if it has one.
    pub async fn slot_of(
        &self,
        group: &GroupId,
        member: MemberId,
    ) -> Result<Option<LaneSlot>, EngineError> {
        self.call(FindSlot { group: group.clone(), member, resumes: false }).await
    }

    /// The slot of a member that fetches its committed offset, if it has one.
    pub async fn resume(
        &self,
        group: &GroupId,
        member: MemberId,
    ) -> Result<Option<LaneSlot>, EngineError> {
        self.call(FindSlot { group: group.clone(), member, resumes: true }).await
    }
}

impl Request for Join {
    type Answer = LaneSlot;

    fn run(self, driver: &mut Driver) -> Result<LaneSlot, EngineError> {
        let Self { group, member } = self;
        match driver.ask(LedgerInput::Join { group, member })? {
            Some(LedgerAnswer::Slot(slot)) => Ok(slot),
            _ => Err(EngineError::NoSlot),
        }
    }
}

impl Request for FindSlot {
    type Answer = Option<LaneSlot>;

    fn run(self, driver: &mut Driver) -> Result<Option<LaneSlot>, EngineError> {
        let Self { group, member, resumes } = self;
        let ledger = &mut driver.ledger;
        Ok(if resumes {
            ledger.resume(&group, &member)
        } else {
            ledger.member_slot(&group, &member)
        })
    }
}
