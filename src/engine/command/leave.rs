//! A member leaves, or is not heard of any more: its open hand-outs return to the queue.

use crate::engine::command::Command;
use crate::engine::driver::Driver;
use crate::engine::handle::Engine;
use crate::model::{GroupId, MemberId};
use crate::retry::Input;

/// The end of a member.
pub(in crate::engine) struct Leave {
    group: GroupId,
    member: MemberId,
    /// The member gives its slot back.
    is_for_good: bool,
}

impl Engine {
    /// E7: the member is gone; its open hand-outs return to the queue.
    pub fn leave(&self, group: &GroupId, member: MemberId) {
        self.tell(Command::Leave(Leave { group: group.clone(), member, is_for_good: true }));
    }

    /// Tells that a member is not heard of: its open hand-outs return to the queue, and its slot
    /// stays its own.
    pub fn silent(&self, group: &GroupId, member: MemberId) {
        self.tell(Command::Leave(Leave { group: group.clone(), member, is_for_good: false }));
    }
}

impl Leave {
    pub(super) fn run(self, driver: &mut Driver) {
        let Self { group, member, is_for_good } = self;
        let of = group.clone();
        driver.tell_room(driver.clock.now(), &of);
        if is_for_good {
            driver.hear(Input::Leave { group, member }, "a member's leaving");
        } else {
            driver.hear(Input::Silent { group, member }, "a member's silence");
        }
        driver.see_room(&of);
    }
}
