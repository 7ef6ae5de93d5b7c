//! Members that still speak the classic protocol while others speak KIP-848: a group that is
//! upgraded, or taken back, one member after the other.
//!
//! The coordinator assigns for them too. A heartbeat that says "the group rebalances" makes such a
//! member join again, which tells what it holds and begins the next step of its way; `SyncGroup`
//! brings what it is to hold. Its generation is its epoch.

use std::collections::BTreeMap;

use crate::group::consumer::member::ClassicSide;
use crate::group::consumer::{CONSUMERS, ClassicMember, Consumer};
use crate::group::error::GroupError;
use crate::group::input::{ConsumerHeartbeat, Consuming, Heartbeat, Join, Sync, Token};
use crate::group::output::{Answer, JoinRefusal, Joined, Synced};
use crate::group::state::{GroupState, MemberState};
use crate::model::{MemberId, Now, TopicName};

/// Clients support one to three; a bound for the work of comparing them.
const PROTOCOLS_MAX: usize = 64;

impl Consumer {
    pub(super) fn join_classic(&mut self, now: Now, token: Token, join: Join) {
        let asked = join.member_id.clone();
        let result = self.joins(now, join).map_err(|(error, id)| {
            let member_id = id.unwrap_or(asked);
            JoinRefusal { error, member_id }
        });
        self.settle();
        self.answer(token, Answer::Join(result));
    }

    /// The other id of a refusal is the one to answer with.
    fn joins(
        &mut self,
        now: Now,
        mut join: Join,
    ) -> Result<Joined, (GroupError, Option<MemberId>)> {
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
        Ok(Joined {
            generation: self.members.get(&id).map_or(0, |member| member.epoch),
            member_id: id,
            protocol_type: Some(CONSUMERS.to_owned()),
            protocol,
            // Nobody leads: the coordinator assigns.
            leader: MemberId::new(""),
            skip_assignment: false,
            members: Vec::new(),
        })
    }

    /// Finds or makes the member, or refuses it; whether it is new. An id that is not known was
    /// made for it, and is not written down before it joins with it.
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
            // A new process of a static member, whatever the last one spoke.
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

    pub(super) fn sync_classic(&mut self, now: Now, token: Token, sync: &Sync) {
        let result = self.syncs(now, sync);
        self.answer(token, Answer::Sync(result));
    }

    fn syncs(&mut self, now: Now, sync: &Sync) -> Result<Synced, GroupError> {
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
        // One that still gives up has joined already: it is told what it may keep.
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
        Ok(Synced {
            protocol_type: Some(CONSUMERS.to_owned()),
            protocol,
            assignment: bytes::Bytes::new(),
            held: Some(held),
        })
    }

    pub(super) fn beat_classic(&mut self, now: Now, beat: &Heartbeat) -> Result<(), GroupError> {
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

    /// Does this id, with this instance id, belong to a member that speaks the classic protocol?
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

    /// Whether all that speak the classic protocol support one of these.
    fn shares_protocol(&self, join: &Join) -> bool {
        let others = self.members.iter().filter(|(id, _)| **id != join.member_id);
        let sides: Vec<_> = others.filter_map(|(_, member)| member.classic.as_ref()).collect();
        join.protocol_type == CONSUMERS
            && join.protocols.len() <= PROTOCOLS_MAX
            && join.protocols.iter().any(|p| sides.iter().all(|side| side.supports(&p.name)))
    }

    /// Nobody speaks KIP-848 any more, but somebody is there.
    pub(super) fn is_all_classic(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.classic.is_some())
    }

    /// The classic group it is, when nobody speaks KIP-848 any more; its assignments are its
    /// leader's to make.
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

    /// What a member that speaks the classic protocol says of its subscription. `key` is a member
    /// id or `instance:<id>`.
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

/// A join in the words of KIP-848.
fn heartbeat(join: &Join, id: &MemberId, consuming: Consuming) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        member_id: id.clone(),
        epoch: super::JOINS,
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
