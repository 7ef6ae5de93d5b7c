//! The last assignment that each member got.

use crate::model::{MemberId, Moment};
use crate::retry::detector::member::{AssignedMember, MemberStanding};
use crate::retry::detector::{Detector, GroupObservation};

impl Detector {
    /// Records the generation, epoch or partitions that a member is told; false if it knew them.
    pub fn assign(&mut self, now: Moment, key: &MemberId, standing: MemberStanding) -> bool {
        if let Some(told) = self.standings.get_mut(key).filter(|told| told.is_same(&standing)) {
            told.standing.conn = standing.conn;
            return false;
        }
        let (member, epoch) = (key.clone(), standing.epoch);
        let is_other = self.is_replaced(key, &standing.member_id);
        let before = self.standings.get(key);
        let has_given_up = before.is_some_and(|told| told.has_given_up(&standing));
        self.standings.insert(key.clone(), AssignedMember { standing, is_called: false });
        if is_other {
            // A static member continues in a new process: the former process is gone.
            self.handle(now, GroupObservation::Lost { member: member.clone(), left: false });
        } else if has_given_up {
            self.handle(now, GroupObservation::GaveUp { member: member.clone() });
        }
        self.handle(now, GroupObservation::Assigned { member, epoch });
        true
    }

    /// Notes that an answer told the member to rejoin.
    pub fn call(&mut self, key: &MemberId) {
        if let Some(told) = self.standings.get_mut(key) {
            told.is_called = true;
        }
    }

    /// Removes a member. `left`: it left by itself; `member_id`: its process, if known.
    pub fn remove(
        &mut self,
        now: Moment,
        key: &MemberId,
        member_id: Option<&MemberId>,
        left: bool,
    ) {
        // A new process has the name of the former one, whose end was recorded when it came.
        if !member_id.is_some_and(|gone| self.is_replaced(key, gone)) {
            self.standings.remove(key);
            self.handle(now, GroupObservation::Lost { member: key.clone(), left });
        }
    }

    /// Whether another process has the name of this static member.
    pub fn is_replaced(&self, key: &MemberId, member_id: &MemberId) -> bool {
        self.standings.get(key).is_some_and(|told| told.standing.member_id != *member_id)
    }
}
