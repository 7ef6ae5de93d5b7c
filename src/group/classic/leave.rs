//! `LeaveGroup` of classic groups.

use crate::group::classic::Classic;
use crate::group::error::GroupError;
use crate::group::input::{LeaveRequest, Leaver, RequestId};
use crate::group::output::{GoneCause, GroupAnswer, LeaveResult};
use crate::group::state::GroupPhase;
use crate::model::{MemberId, Moment};

impl Classic {
    pub(super) fn leave(&mut self, now: Moment, token: RequestId, leave: LeaveRequest) {
        if self.phase == GroupPhase::Dead {
            return self
                .answer(token, GroupAnswer::Leave(Err(GroupError::CoordinatorNotAvailable)));
        }
        let members_before = self.members.len();
        let pending_before = self.pending.len();
        let left = leave.members.into_iter().map(|leaver| self.leave_one(leaver)).collect();
        self.answer(token, GroupAnswer::Leave(Ok(left)));
        if self.members.len() < members_before {
            self.rebalance_or_complete(now);
        } else if self.pending.len() < pending_before {
            self.maybe_complete_join(now);
        }
    }

    fn leave_one(&mut self, leaver: Leaver) -> LeaveResult {
        let Leaver { member_id, instance_id, reason } = leaver;
        let result = self.named(&member_id, instance_id.as_deref()).map(|id| {
            self.pending.remove(&id);
            self.remove(&id, GoneCause::Left(reason));
        });
        LeaveResult { member_id, instance_id, result }
    }

    /// The member id that a leave request names, if it belongs to a member or a pending member.
    fn named(&self, id: &MemberId, instance: Option<&str>) -> Result<MemberId, GroupError> {
        if id.as_str().is_empty() {
            // An administrator names a static member by its instance id alone.
            let holder = instance.and_then(|instance| self.statics.get(instance));
            return holder.cloned().ok_or(GroupError::UnknownMemberId);
        }
        if !self.pending.contains_key(id) {
            self.check_member(id, instance)?;
        }
        Ok(id.clone())
    }
}
