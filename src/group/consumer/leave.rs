//! Members that leave: for good, temporarily, or removed by an administrator.

use crate::group::consumer::Consumer;
use crate::group::error::GroupError;
use crate::group::input::{ConsumerHeartbeat, LEAVES_FOR_A_WHILE, Leaver};
use crate::group::output::{Alive, GoneCause, GroupOutput, LeaveResult, MemberGone};
use crate::model::MemberId;

impl Consumer {
    pub(super) fn goes(&mut self, beat: &ConsumerHeartbeat) -> Result<Alive, GroupError> {
        let id = &beat.member_id;
        self.check_member(id, beat.instance_id.as_deref())?;
        let member = self.members.get_mut(id).ok_or(GroupError::UnknownMemberId)?;
        if beat.epoch == LEAVES_FOR_A_WHILE {
            // The static member owns nothing now, but its membership stays until the session times
            // out.
            member.move_to(LEAVES_FOR_A_WHILE);
            member.revoke_by = None;
            let revoked = std::mem::take(&mut member.revoking);
            self.release(&revoked);
            self.is_changed = true;
        } else {
            self.remove(id, GoneCause::Left(None));
            self.go_on();
        }
        Ok(Alive {
            member_id: id.clone(),
            epoch: beat.epoch,
            heartbeat_interval_ms: self.config.heartbeat_interval_ms,
            assignment: None,
        })
    }

    /// Handles one entry of `LeaveGroup`. Classic members leave by it, and an administrator removes
    /// any member by it; static members are named by instance id alone.
    pub(super) fn remove_one(&mut self, leaver: Leaver) -> LeaveResult {
        let Leaver { member_id, instance_id, reason } = leaver;
        let instance = instance_id.as_deref();
        let named = if member_id.as_str().is_empty() {
            let holder = instance.and_then(|instance| self.statics.get(instance));
            holder.cloned().ok_or(GroupError::UnknownMemberId)
        } else {
            self.check_member(&member_id, instance).map(|_| member_id.clone())
        };
        let result = named.map(|id| {
            self.remove(&id, GoneCause::Left(reason));
            self.go_on();
        });
        LeaveResult { member_id, instance_id, result }
    }

    /// Makes the next target, unless the group becomes a classic group whose leader assigns.
    pub(super) fn go_on(&mut self) {
        if self.is_all_classic() {
            self.is_changed = true;
        } else {
            self.retarget();
        }
    }

    /// Removes a member and frees its partitions; the caller makes the next target.
    pub(super) fn remove(&mut self, id: &MemberId, cause: GoneCause) {
        let Some(member) = self.members.remove(id) else { return };
        self.release(&member.assigned);
        self.release(&member.revoking);
        self.unwant(&member.topics);
        if let Some(instance) = &member.instance_id {
            self.statics.remove(instance);
        }
        self.output.push_back(GroupOutput::MemberGone(MemberGone {
            member_id: id.clone(),
            instance_id: member.instance_id,
            cause,
        }));
    }
}
