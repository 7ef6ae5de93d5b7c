//! Members with the classic protocol in a KIP-848 group, during an upgrade or downgrade of the
//! group member by member.
//!
//! The coordinator assigns for these members too. A heartbeat answered with `REBALANCE_IN_PROGRESS`
//! makes such a member join again. The join lists its owned partitions and begins its next step.
//! `SyncGroup` returns its assignment. The member's generation is its epoch.

use std::collections::BTreeMap;

use crate::group::consumer::member::ClassicSide;
use crate::group::consumer::{CONSUMERS, ClassicMember, Consumer};
use crate::group::error::GroupError;
use crate::group::input::{
    ConsumerHeartbeat, Heartbeat, JOINS, JoinRequest, ParsedSubscription, RequestId, Sync,
};
use crate::group::output::{GroupAnswer, JoinRefusal, JoinResult, SyncResult};
use crate::group::state::{GroupState, MemberState};
use crate::model::{MemberId, Moment, TopicName};

/// Limit on the work of comparing protocols; clients support one to three.
const PROTOCOLS_MAX: usize = 64;

impl Consumer {
    pub(super) fn join_classic(&mut self, now: Moment, token: RequestId, join: JoinRequest) {
        let asked = join.member_id.clone();
        let result = self.joins(now, join).map_err(|(error, id)| {
            let member_id = id.unwrap_or(asked);
            JoinRefusal { error, member_id }
        });
        self.settle();
        self.answer(token, GroupAnswer::Join(result));
    }

    /// Returns the answer, or the error with the member id that the refusal must carry, if it
    /// differs.
    fn joins(
        &mut self,
        now: Moment,
        mut join: JoinRequest,
    ) -> Result<JoinResult, (GroupError, Option<MemberId>)> {
        let session = self.config.classic_session_ms_min..=self.config.classic_session_ms_max;
        if !session.contains(&join.session_timeout_ms) {
            return Err((GroupError::InvalidSessionTimeout, None));
        }
        if self.is_dead {
            return Err((GroupError::CoordinatorNotAvailable, None));
        }
        let is_unnamed = join.member_id.as_str().is_empty();
        if self.members.is_empty() && !is_unnamed {
            return Err((GroupError::UnknownMemberId, None));
        }
        let consuming = join.consuming.take().filter(|_| self.shares_protocol(&join));
        let consuming = consuming.ok_or((GroupError::InconsistentGroupProtocol, None))?;
        let id = if is_unnamed { join.fresh_id.clone() } else { join.member_id.clone() };
        if is_unnamed && join.instance_id.is_none() && join.require_known_member_id {
            return Err((GroupError::MemberIdRequired, Some(id)));
        }
        let beat = heartbeat(&join, &id, *consuming);
        let is_new = self.admit_classic(is_unnamed, &beat).map_err(|error| (error, None))?;
        let protocol = join.protocols.first().map(|protocol| protocol.name.clone());
        if let Some(member) = self.members.get_mut(&id) {
            let side = ClassicSide {
                session_timeout_ms: join.session_timeout_ms,
                protocols: join.protocols,
                step_by: Some(now.mono.plus(join.rebalance_timeout_ms.max(1))),
            };
            let before = member.classic.as_ref();
            self.is_changed |= before.is_none_or(|before| !before.says_same(&side));
            member.classic = Some(side);
        }
        self.heard(now, is_new, beat);
        Ok(JoinResult {
            generation: self.members.get(&id).map_or(0, |member| member.epoch),
            member_id: id,
            protocol_type: Some(CONSUMERS.to_owned()),
            protocol,
            // No member is the leader: the coordinator assigns.
            leader: MemberId::new(""),
            skip_assignment: false,
            members: Vec::new(),
        })
    }

    /// Finds or adds the member, or refuses it; returns whether it is new. An unknown id was made
    /// for this client by an earlier refusal (KIP-394), so it is accepted.
    fn admit_classic(
        &mut self,
        is_unnamed: bool,
        beat: &ConsumerHeartbeat,
    ) -> Result<bool, GroupError> {
        let (id, instance) = (&beat.member_id, beat.instance_id.as_deref());
        if self.members.contains_key(id) || (instance.is_some() && !is_unnamed) {
            return self.check_classic(id, instance).map(|()| false);
        }
        let holder = instance.and_then(|instance| self.statics.get(instance)).cloned();
        match holder {
            // A new process of a static member; its predecessor may have spoken either protocol.
            Some(holder) => {
                self.take_over(&holder, id);
                self.start_over(id, beat.instance_id.as_ref());
                if let Some(member) = self.members.get_mut(id) {
                    member.assignor = None;
                }
                Ok(false)
            }
            None => self.add(beat).map(|()| true),
        }
    }

    pub(super) fn sync_classic(&mut self, now: Moment, token: RequestId, sync: &Sync) {
        let result = self.syncs(now, sync);
        self.answer(token, GroupAnswer::Sync(result));
    }

    fn syncs(&mut self, now: Moment, sync: &Sync) -> Result<SyncResult, GroupError> {
        let (id, instance) = (&sync.member_id, sync.instance_id.as_deref());
        self.check_generation(id, instance, sync.generation)?;
        let is_behind = self.members.get(id).is_some_and(|member| member.epoch < self.epoch);
        let session_ms = self.config.session_timeout_ms;
        let member = self.members.get_mut(id).ok_or(GroupError::UnknownMemberId)?;
        let side = member.classic.as_ref().ok_or(GroupError::UnknownMemberId)?;
        let protocol = side.protocols.first().map(|protocol| protocol.name.clone());
        let differs = |theirs: &Option<String>, ours: Option<&str>| {
            theirs.as_deref().is_some_and(|theirs| Some(theirs) != ours)
        };
        if differs(&sync.protocol_type, Some(CONSUMERS))
            || differs(&sync.protocol, protocol.as_deref())
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        // A member that still revokes has joined already, so it gets the partitions that it may
        // keep.
        if is_behind && member.revoking.is_empty() {
            member.wait_for_step(now);
            return Err(GroupError::RebalanceInProgress);
        }
        member.step_done();
        member.beat(now, session_ms);
        let mut held: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
        for one in &member.assigned {
            let name = self.topics.iter().find(|(_, image)| image.id == one.topic);
            if let Some((name, _)) = name {
                held.entry(name.clone()).or_default().push(one.index);
            }
        }
        Ok(SyncResult {
            protocol_type: Some(CONSUMERS.to_owned()),
            protocol,
            assignment: bytes::Bytes::new(),
            held: Some(held),
        })
    }

    pub(super) fn beat_classic(&mut self, now: Moment, beat: &Heartbeat) -> Result<(), GroupError> {
        let id = &beat.member_id;
        self.check_generation(id, beat.instance_id.as_deref(), beat.generation)?;
        let (epoch, session_ms) = (self.epoch, self.config.session_timeout_ms);
        let owners = &self.owners;
        let member = self.members.get_mut(id).ok_or(GroupError::UnknownMemberId)?;
        member.beat(now, session_ms);
        let mut wanted = member.target.difference(&member.assigned);
        let has_next = member.epoch < epoch || wanted.any(|one| !owners.contains_key(one));
        if has_next {
            member.wait_for_step(now);
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Checks that the ids belong to a member with the classic protocol.
    pub(super) fn check_classic(
        &self,
        id: &MemberId,
        instance: Option<&str>,
    ) -> Result<(), GroupError> {
        let member = self.check_member(id, instance)?;
        if member.classic.is_some() { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }

    fn check_generation(
        &self,
        id: &MemberId,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        if self.is_dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        self.check_classic(id, instance)?;
        self.check_epoch(id, generation)
    }

    /// Whether one of the join's protocols is supported by all other classic members.
    fn shares_protocol(&self, join: &JoinRequest) -> bool {
        let others = self.members.iter().filter(|(id, _)| **id != join.member_id);
        let sides: Vec<_> = others.filter_map(|(_, member)| member.classic.as_ref()).collect();
        join.protocol_type == CONSUMERS
            && join.protocols.len() <= PROTOCOLS_MAX
            && join.protocols.iter().any(|p| sides.iter().all(|side| side.supports(&p.name)))
    }

    /// Whether the group has members and all speak the classic protocol.
    pub(super) fn is_all_classic(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.classic.is_some())
    }

    /// The state as a classic group, if all members speak the classic protocol. The leader then
    /// makes the assignments.
    pub fn as_classic(&self) -> Option<GroupState> {
        let kept = self.members.iter().filter_map(|(id, member)| {
            let side = member.classic.as_ref()?;
            Some(MemberState {
                member_id: id.clone(),
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                session_timeout_ms: side.session_timeout_ms,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                protocols: side.protocols.clone(),
                assignment: bytes::Bytes::new(),
            })
        });
        self.is_all_classic().then(|| GroupState {
            generation: self.epoch,
            protocol_type: Some(CONSUMERS.to_owned()),
            protocol: None,
            leader: self.members.keys().next().cloned(),
            members: kept.collect(),
        })
    }

    /// The subscription metadata of a classic member. `key` is a member id or `instance:<id>`.
    pub fn subscription(&self, key: &MemberId) -> Option<bytes::Bytes> {
        let by_id = self.members.get(key);
        let instance = key.as_str().strip_prefix("instance:");
        let holder = instance.and_then(|instance| self.statics.get(instance));
        let member = by_id.or_else(|| self.members.get(holder?))?;
        member.classic.as_ref()?.protocols.first().map(|protocol| protocol.metadata.clone())
    }

    pub(super) fn kept_classic(&self) -> Vec<ClassicMember> {
        let kept = self.members.iter().filter_map(|(id, member)| {
            let side = member.classic.as_ref()?;
            Some(ClassicMember {
                member_id: id.clone(),
                session_timeout_ms: side.session_timeout_ms,
                protocols: side.protocols.clone(),
            })
        });
        kept.collect()
    }
}

/// Translates a classic join into a KIP-848 heartbeat.
fn heartbeat(
    join: &JoinRequest,
    id: &MemberId,
    consuming: ParsedSubscription,
) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        member_id: id.clone(),
        epoch: JOINS,
        instance_id: join.instance_id.clone(),
        rack_id: None,
        client_id: join.client_id.clone(),
        client_host: join.client_host.clone(),
        rebalance_timeout_ms: Some(join.rebalance_timeout_ms),
        topics: Some(consuming.topics),
        // A classic consumer evaluates its pattern itself.
        pattern: Some(String::new()),
        assignor: None,
        owned: Some(consuming.owned),
        cluster: consuming.cluster,
        matching: BTreeMap::new(),
    }
}
