//! A member leaves or falls silent: its open deliveries return to the queue.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, MemberId};
use crate::retry::LedgerInput;

/// The departure of a member.
struct Leave {
    group: GroupId,
    member: MemberId,
    /// The member also gives up its slot.
    is_for_good: bool,
}

impl Engine {
    /// Reports that the member left (`lost-delivery`); its open deliveries return to the queue.
    pub fn leave(&self, group: &GroupId, member: MemberId) {
        self.report(Leave { group: group.clone(), member, is_for_good: true });
    }

    /// Reports that a member is silent: its open deliveries return to the queue, and it keeps its
    /// slot.
    pub fn silent(&self, group: &GroupId, member: MemberId) {
        self.report(Leave { group: group.clone(), member, is_for_good: false });
    }
}

impl Request for Leave {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let Self { group, member, is_for_good } = self;
        let has_slot = driver.ledger.member_slot(&group, &member).is_some();
        // A failed store finds no slots.
        if !has_slot && driver.usable().is_ok() {
            return Ok(());
        }
        let of = group.clone();
        driver.tell_room(driver.clock.now(), &of);
        if is_for_good {
            driver.note_input(LedgerInput::Leave { group, member }, "a member's leaving");
        } else {
            driver.note_input(LedgerInput::Silent { group, member }, "a member's silence");
        }
        driver.see_room(&of);
        Ok(())
    }
}
