//! Timeouts of a consumer group.

use crate::group::consumer::Consumer;
use crate::group::output::GoneCause;
use crate::model::{MemberId, Moment, MonoMs};

impl Consumer {
    /// Removes members whose session or revocation timed out.
    pub fn handle_timeout(&mut self, now: Moment) {
        let over: Vec<MemberId> = self
            .members
            .iter()
            .filter(|(_, member)| {
                let waits = member.revoke_by.is_some_and(|by| by <= now.mono);
                let lags = member.step_by().is_some_and(|by| by <= now.mono);
                waits || lags || member.silent_by <= now.mono
            })
            .map(|(id, _)| id.clone())
            .collect();
        if over.is_empty() {
            return;
        }
        for id in &over {
            self.remove(id, GoneCause::Expired);
        }
        self.go_on();
        self.settle();
    }

    pub(super) fn next_due(&self) -> Option<MonoMs> {
        let dues = self.members.values();
        dues.flat_map(|member| [Some(member.silent_by), member.revoke_by, member.step_by()])
            .flatten()
            .min()
    }
}
