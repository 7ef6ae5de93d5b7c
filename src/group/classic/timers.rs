//! Timeouts of a classic group.

use crate::group::classic::Classic;
use crate::group::classic::member::ClassicMemberState;
use crate::group::output::GoneCause;
use crate::model::{MemberId, Moment, MonoMs};

impl Classic {
    /// Removes members whose session timed out, and ends waits whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        let ids_before = self.pending.len();
        self.pending.retain(|_, forget_at| now.mono < *forget_at);
        let silent: Vec<MemberId> = self
            .members
            .iter()
            .filter(|(_, member)| member.due().is_some_and(|due| due <= now.mono))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &silent {
            self.remove(id, GoneCause::Expired);
        }
        if !silent.is_empty() {
            self.rebalance_or_complete(now);
        } else if self.pending.len() < ids_before {
            self.maybe_complete_join(now);
        }
        if let Some(wait) = self.join_wait.filter(|wait| wait.until <= now.mono) {
            self.join_wait_over(now, wait);
        }
        if self.sync_by.is_some_and(|by| by <= now.mono) {
            for id in std::mem::take(&mut self.unsynced) {
                self.remove(&id, GoneCause::Expired);
            }
            self.sync_by = None;
            self.rebalance_or_complete(now);
        }
    }

    pub(super) fn next_due(&self) -> Option<MonoMs> {
        let sessions = self.members.values().filter_map(ClassicMemberState::due);
        let forgotten = self.pending.values().copied();
        let joins = self.join_wait.map(|wait| wait.until);
        sessions.chain(forgotten).chain(joins).chain(self.sync_by).min()
    }
}
