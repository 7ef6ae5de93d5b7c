//! `JoinGroup`: admission of members, their member ids, and whether a rebalance is needed.

use crate::group::classic::Classic;
use crate::group::classic::member::ClassicMemberState;
use crate::group::error::GroupError;
use crate::group::input::{JoinRequest, RequestId};
use crate::group::output::{
    GoneCause, GroupAnswer, GroupOutput, JoinRefusal, JoinResult, JoinedMember, MemberGone,
};
use crate::group::state::GroupPhase;
use crate::model::{MemberId, Moment};

/// Limit on the work of one vote; clients support one to three protocols.
const PROTOCOLS_MAX: usize = 64;

impl Classic {
    pub(super) fn join(&mut self, now: Moment, token: RequestId, join: JoinRequest) {
        let session = self.config.session_timeout_ms_min..=self.config.session_timeout_ms_max;
        if !session.contains(&join.session_timeout_ms) {
            self.refuse(token, GroupError::InvalidSessionTimeout, join.member_id);
        } else if self.phase == GroupPhase::Dead {
            self.refuse(token, GroupError::CoordinatorNotAvailable, join.member_id);
        } else if !self.has_room(&join.member_id) {
            self.remove(&join.member_id, GoneCause::Expired);
            self.refuse(token, GroupError::GroupMaxSizeReached, MemberId::new(""));
            self.maybe_complete_join(now);
        } else if !self.shares_protocol(&join) {
            self.refuse(token, GroupError::InconsistentGroupProtocol, join.member_id);
        } else if join.member_id.as_str().is_empty() {
            self.join_new(now, token, join);
        } else {
            self.join_known(now, token, join);
        }
    }

    /// The JoinGroup answer for the leader (with `members`) or another member.
    pub(super) fn joined(&self, id: &MemberId, members: Vec<JoinedMember>) -> JoinResult {
        JoinResult {
            member_id: id.clone(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_else(|| MemberId::new("")),
            skip_assignment: false,
            members,
        }
    }

    /// All members, for the leader's answer.
    pub(super) fn roster(&self) -> Vec<JoinedMember> {
        self.members
            .iter()
            .map(|(id, member)| JoinedMember {
                member_id: id.clone(),
                instance_id: member.instance_id.clone(),
                metadata: self.metadata_of(member),
            })
            .collect()
    }

    fn join_new(&mut self, now: Moment, token: RequestId, join: JoinRequest) {
        let id = join.fresh_id.clone();
        if let Some(instance) = &join.instance_id {
            match self.statics.get(instance).cloned() {
                Some(old) => self.replace_static(now, token, join, &old),
                None => self.add(now, token, id, join),
            }
        } else if join.require_known_member_id && self.config.members_max <= self.pending.len() {
            self.refuse(token, GroupError::GroupMaxSizeReached, join.member_id);
        } else if join.require_known_member_id {
            self.pending.insert(id.clone(), now.mono.plus(join.session_timeout_ms.max(1)));
            self.refuse(token, GroupError::MemberIdRequired, id);
        } else {
            self.add(now, token, id, join);
        }
    }

    fn join_known(&mut self, now: Moment, token: RequestId, join: JoinRequest) {
        let id = join.member_id.clone();
        if self.pending.contains_key(&id) && join.instance_id.is_none() {
            return self.add(now, token, id, join);
        }
        if let Err(error) = self.check_member(&id, join.instance_id.as_deref()) {
            return self.refuse(token, error, id);
        }
        let same = self.members.get(&id).is_some_and(|m| m.protocols == join.protocols);
        let leads = self.is_leader(&id);
        match self.phase {
            // The answer to the first join was lost: the member asks for the current generation
            // again.
            GroupPhase::CompletingRebalance if same => {
                let members = if leads { self.roster() } else { Vec::new() };
                self.accept(now, token, &id, members);
            }
            // A repeated join by the leader forces a rebalance; by another member only with changed
            // metadata.
            GroupPhase::Stable if same && !leads => self.accept(now, token, &id, Vec::new()),
            _ => {
                self.update(token, &id, join);
                self.rebalance_or_complete(now);
            }
        }
    }

    fn add(&mut self, now: Moment, token: RequestId, id: MemberId, join: JoinRequest) {
        if let Some(initial) = self.join_wait.as_mut().and_then(|wait| wait.initial.as_mut()) {
            initial.grown = true;
        }
        self.pending.remove(&id);
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        self.leader.get_or_insert_with(|| id.clone());
        if let Some(instance) = &join.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        self.members.insert(id, ClassicMemberState::new(now, token, join));
        self.rebalance_or_complete(now);
    }

    fn update(&mut self, token: RequestId, id: &MemberId, join: JoinRequest) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.update(join);
        if let Some(older) = member.joining.replace(token) {
            // The client gave up on the older request, but every request is answered.
            self.refuse(older, GroupError::RebalanceInProgress, id.clone());
        }
    }

    /// Lets a new process of a static member take over its predecessor's membership (KIP-345).
    fn replace_static(&mut self, now: Moment, token: RequestId, join: JoinRequest, old: &MemberId) {
        let id = join.fresh_id.clone();
        let leader_before = self.leader.clone();
        let can_skip = join.can_skip_assignment;
        let Some(mut member) = self.members.remove(old) else { return };
        self.fence(old, &mut member);
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        if self.is_leader(old) {
            self.leader = Some(id.clone());
        }
        self.synced(old);
        member.update(join);
        member.beat(now);
        // The previous process made the first join, so the rule for waiting first joins no longer
        // applies.
        member.is_new = false;
        member.joining = Some(token);
        self.members.insert(id.clone(), member);
        match self.phase {
            GroupPhase::Stable if self.vote() == self.protocol => {
                self.persist();
                let leads = self.is_leader(&id);
                let members = if leads && can_skip { self.roster() } else { Vec::new() };
                let mut joined = self.joined(&id, members);
                joined.skip_assignment = leads && can_skip;
                if !can_skip && let Some(leader) = leader_before {
                    // With the old id as leader, the new process does not consider itself the
                    // leader and assigns nothing.
                    joined.leader = leader;
                }
                if let Some(member) = self.members.get_mut(&id) {
                    member.joining = None;
                }
                self.answer(token, GroupAnswer::Join(Ok(joined)));
            }
            // The leader may already have assigned to the old id.
            GroupPhase::Stable | GroupPhase::CompletingRebalance => self.prepare(now),
            _ => self.maybe_complete_join(now),
        }
    }

    /// Refuses the waiting requests of a static member's old id.
    fn fence(&mut self, old: &MemberId, member: &mut ClassicMemberState) {
        if let Some(token) = member.joining.take() {
            self.refuse(token, GroupError::FencedInstanceId, old.clone());
        }
        if let Some(token) = member.syncing.take() {
            self.answer(token, GroupAnswer::Sync(Err(GroupError::FencedInstanceId)));
        }
        self.output.push_back(GroupOutput::MemberGone(MemberGone {
            member_id: old.clone(),
            instance_id: member.instance_id.clone(),
            cause: GoneCause::Replaced,
        }));
    }

    fn accept(&mut self, now: Moment, token: RequestId, id: &MemberId, members: Vec<JoinedMember>) {
        if let Some(member) = self.members.get_mut(id) {
            member.beat(now);
        }
        let joined = self.joined(id, members);
        self.answer(token, GroupAnswer::Join(Ok(joined)));
    }

    pub(super) fn refuse(&mut self, token: RequestId, error: GroupError, member_id: MemberId) {
        self.answer(token, GroupAnswer::Join(Err(JoinRefusal { error, member_id })));
    }

    /// During a rebalance only members that have joined count, because the others may be gone.
    fn has_room(&self, id: &MemberId) -> bool {
        let member = self.members.get(id);
        let max = self.config.members_max;
        match self.phase {
            GroupPhase::Empty | GroupPhase::Dead => true,
            GroupPhase::PreparingRebalance => {
                member.is_some_and(|m| m.joining.is_some())
                    || self.members.values().filter(|m| m.joining.is_some()).count() < max
            }
            GroupPhase::CompletingRebalance | GroupPhase::Stable => {
                member.is_some() || self.members.len() < max
            }
        }
    }

    fn shares_protocol(&self, join: &JoinRequest) -> bool {
        if join.protocols.is_empty() || PROTOCOLS_MAX < join.protocols.len() {
            return false;
        }
        if self.phase == GroupPhase::Empty {
            return !join.protocol_type.is_empty();
        }
        self.protocol_type.as_deref() == Some(join.protocol_type.as_str())
            && join.protocols.iter().any(|p| self.members.values().all(|m| m.supports(&p.name)))
    }
}
