//! `LeaveGroup`.

use crate::group::classic::Classic;
use crate::group::error::GroupError;
use crate::group::input::{Leave, Leaver, Token};
use crate::group::output::{Answer, GoneCause, Left};
use crate::group::state::Phase;
use crate::model::Now;

impl Classic {
    pub(super) fn leave(&mut self, now: Now, token: Token, leave: Leave) {
        if self.phase == Phase::Dead {
            return self.answer(token, Answer::Leave(Err(GroupError::CoordinatorNotAvailable)));
        }
        let members_before = self.members.len();
        let pending_before = self.pending.len();
        let left = leave.members.into_iter().map(|leaver| self.leave_one(leaver)).collect();
        self.answer(token, Answer::Leave(Ok(left)));
        if self.members.len() < members_before {
            self.rebalance_or_complete(now);
        } else if self.pending.len() < pending_before {
            self.maybe_complete_join(now);
        }
    }

    fn leave_one(&mut self, leaver: Leaver) -> Left {
        let Leaver { member_id, instance_id, reason } = leaver;
        let result = if member_id.as_str().is_empty() {
            // An administrator names a static member by its instance id alone.
            match instance_id.as_ref().and_then(|instance| self.statics.get(instance)).cloned() {
                Some(holder) => {
                    self.remove(&holder, GoneCause::Left(reason));
                    Ok(())
                }
                None => Err(GroupError::UnknownMemberId),
            }
        } else if self.pending.remove(&member_id).is_some() {
            Ok(())
        } else {
            let known = self.check_member(&member_id, instance_id.as_deref());
            if known.is_ok() {
                self.remove(&member_id, GoneCause::Left(reason));
            }
            known
        };
        Left { member_id, instance_id, result }
    }
}
