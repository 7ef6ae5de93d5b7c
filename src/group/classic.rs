//! One classic consumer group, as Kafka's coordinator runs it (`ClassicGroup`).
//!
//! ```text
//!            first join            all joined, or time is up           leader's SyncGroup
//!  Empty ───────────────▶ Preparing ───────────────────▶ Completing ───────────────────▶ Stable
//!    ▲                     ▲  │ no member left               │ a member joins again,         │
//!    └─────────────────────┼──┘                              │ leaves or falls silent        │
//!                          └─────────────────────────────────┴───────────────────────────────┘
//! ```
//! Only `Empty` and `Stable` are persisted. A restart in between restores the last persisted
//! generation. The members' next requests are then refused, so they join again.

mod join;
mod leave;
mod member;
mod rebalance;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::group::config::ClassicConfig;
use crate::group::error::GroupError;
use crate::group::input::{CommitCheck, ConsumerHeartbeat, GroupInput, JOINS, RequestId};
use crate::group::output::{GroupAnswer, GroupOutput};
use crate::group::state::{Description, GroupPhase, GroupState, MemberDescription, member_key};
use crate::model::{ClientId, Deadline, MemberId, Moment, MonoMs};

use member::ClassicMemberState;
use rebalance::JoinWait;

/// One classic group.
#[derive(Clone, Debug)]
pub struct Classic {
    config: ClassicConfig,
    phase: GroupPhase,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<MemberId>,
    members: BTreeMap<MemberId, ClassicMemberState>,
    /// Instance id to member id.
    statics: BTreeMap<String, MemberId>,
    /// Member ids that were sent to clients and have not joined yet, each with its expiry.
    pending: BTreeMap<MemberId, MonoMs>,
    /// Members of this generation that have not sent SyncGroup yet.
    unsynced: BTreeSet<MemberId>,
    /// Set during `PreparingRebalance`.
    join_wait: Option<JoinWait>,
    /// Deadline after which the members in `unsynced` are removed.
    sync_by: Option<MonoMs>,
    output: VecDeque<GroupOutput>,
}

impl Classic {
    /// An empty group of generation 0.
    pub fn new(config: ClassicConfig) -> Self {
        Self {
            config,
            phase: GroupPhase::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            join_wait: None,
            sync_by: None,
            output: VecDeque::new(),
        }
    }

    /// Restores a persisted group; every session timeout starts again at `now`.
    pub fn restored(config: ClassicConfig, now: Moment, state: GroupState) -> Self {
        let mut group = Self::new(config);
        group.generation = state.generation;
        group.protocol_type = state.protocol_type;
        group.protocol = state.protocol;
        group.leader = state.leader;
        for kept in state.members {
            if let Some(instance) = &kept.instance_id {
                group.statics.insert(instance.clone(), kept.member_id.clone());
            }
            group.members.insert(kept.member_id.clone(), ClassicMemberState::restored(now, kept));
        }
        if !group.members.is_empty() {
            group.phase = GroupPhase::Stable;
        }
        group
    }

    /// Takes over a group whose last KIP-848 member has left: the classic members must join again.
    pub fn taking_over(config: ClassicConfig, now: Moment, state: GroupState) -> Self {
        let mut group = Self::restored(config, now, state);
        group.protocol = group.vote();
        group.prepare(now);
        group
    }

    /// Handles one request.
    pub fn handle(&mut self, now: Moment, input: GroupInput) {
        match input {
            GroupInput::Join(token, join) => self.join(now, token, join),
            GroupInput::Sync(token, sync) => self.sync(now, token, sync),
            GroupInput::Heartbeat(token, beat) => {
                let result = self.heartbeat(
                    now,
                    &beat.member_id,
                    beat.instance_id.as_deref(),
                    beat.generation,
                );
                self.answer(token, GroupAnswer::Heartbeat(result));
            }
            GroupInput::Leave(token, leave) => self.leave(now, token, leave),
            GroupInput::ConsumerHeartbeat(token, beat) => {
                let error = refusal(&beat);
                self.answer(token, GroupAnswer::ConsumerHeartbeat(Err(error)));
            }
            GroupInput::CommitCheck(token, check) => {
                let result = self.commit_check(now, &check);
                self.answer(token, GroupAnswer::CommitCheck(result));
            }
            GroupInput::Delete(token) => self.delete(token),
        }
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<GroupOutput> {
        self.output.pop_front()
    }

    /// Deadline of the next `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.next_due().map(Deadline)
    }

    /// The group state.
    pub fn phase(&self) -> GroupPhase {
        self.phase
    }

    /// `consumer`, `connect`, …; absent before the first member.
    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// Whether the group can be forgotten: no member ever joined, and no member id is pending.
    pub fn is_blank(&self) -> bool {
        self.phase == GroupPhase::Empty && self.generation == 0 && self.pending.is_empty()
    }

    /// Restarts the session timeout of every member.
    pub fn restart_sessions(&mut self, now: Moment) {
        self.members.values_mut().for_each(|member| member.beat(now));
    }

    /// The group for `DescribeGroups`.
    pub fn describe(&self) -> Description {
        let stable = self.phase == GroupPhase::Stable;
        Description {
            phase: self.phase,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self
                .members
                .iter()
                .map(|(id, member)| MemberDescription {
                    member_id: id.clone(),
                    instance_id: member.instance_id.clone(),
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    session_timeout_ms: member.session_timeout_ms,
                    metadata: if stable { self.metadata_of(member) } else { Bytes::new() },
                    assignment: if stable { member.assignment.clone() } else { Bytes::new() },
                })
                .collect(),
        }
    }

    /// The member's metadata for the chosen assignor; for consumers, the subscription. `key` is a
    /// member id or `instance:<id>`. `None` if there is no such member or no assignor yet.
    pub fn subscription(&self, key: &MemberId) -> Option<Bytes> {
        self.protocol.as_ref()?;
        let (_, member) = self.members.iter().find(|(id, member)| {
            *id == key || member_key(id, member.instance_id.as_deref()) == *key
        })?;
        Some(self.metadata_of(member))
    }

    /// The member's `member_key`.
    pub fn key_of(&self, member: &MemberId) -> Option<MemberId> {
        let known = self.members.get(member)?;
        Some(member_key(member, known.instance_id.as_deref()))
    }

    /// All members by `member_key`.
    pub fn member_keys(&self) -> impl Iterator<Item = MemberId> {
        self.members.iter().map(|(id, member)| member_key(id, member.instance_id.as_deref()))
    }

    /// Metadata of every member for the chosen assignor, by `member_key`.
    pub fn subscriptions(&self) -> impl Iterator<Item = (MemberId, Bytes)> {
        let members = self.members.iter();
        members.map(|(id, member)| {
            (member_key(id, member.instance_id.as_deref()), self.metadata_of(member))
        })
    }

    /// Members with that client id and host, by `member_key`.
    pub fn joined_as<'a>(
        &'a self,
        client: &'a ClientId,
        host: &'a str,
    ) -> impl Iterator<Item = MemberId> + 'a {
        let members = self.members.iter();
        let same = members
            .filter(move |(_, member)| member.client_id == *client && member.client_host == host);
        same.map(|(id, member)| member_key(id, member.instance_id.as_deref()))
    }

    fn metadata_of(&self, member: &ClassicMemberState) -> Bytes {
        self.protocol.as_deref().and_then(|name| member.metadata(name)).unwrap_or_default()
    }

    fn commit_check(&mut self, now: Moment, check: &CommitCheck) -> Result<(), GroupError> {
        if self.phase == GroupPhase::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if check.generation < 0 && self.phase == GroupPhase::Empty {
            return Ok(());
        }
        let outsider = check.generation < 0
            && check.member_id.as_str().is_empty()
            && check.instance_id.is_none();
        if outsider {
            return Err(GroupError::UnknownMemberId);
        }
        self.check_member(&check.member_id, check.instance_id.as_deref())?;
        if check.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        if self.phase == GroupPhase::CompletingRebalance && !check.transactional {
            return Err(GroupError::RebalanceInProgress);
        }
        if let Some(member) = self.members.get_mut(&check.member_id) {
            member.beat(now);
        }
        Ok(())
    }

    fn delete(&mut self, token: RequestId) {
        let result = match self.phase {
            GroupPhase::Dead => Err(GroupError::GroupIdNotFound),
            GroupPhase::Empty => {
                self.phase = GroupPhase::Dead;
                self.pending.clear();
                self.output.push_back(GroupOutput::Forget);
                Ok(())
            }
            _ => Err(GroupError::NonEmptyGroup),
        };
        self.answer(token, GroupAnswer::Delete(result));
    }

    /// Kafka's `validateMember`: checks that the member id and instance id belong to the group.
    fn check_member(&self, id: &MemberId, instance: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance) = instance {
            let holder = self.statics.get(instance).ok_or(GroupError::UnknownMemberId)?;
            if holder != id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }

    fn answer(&mut self, token: RequestId, answer: GroupAnswer) {
        self.output.push_back(GroupOutput::Answer(token, answer));
    }

    fn is_leader(&self, id: &MemberId) -> bool {
        self.leader.as_ref() == Some(id)
    }

    fn persist(&mut self) {
        let state = GroupState {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.iter().map(|(id, member)| member.kept(id)).collect(),
        };
        self.output.push_back(GroupOutput::Persist(state));
    }
}

/// The error for a KIP-848 heartbeat to a group that is not upgraded. A client that believes to be
/// a member gets `UNKNOWN_MEMBER_ID`, so it joins again.
fn refusal(beat: &ConsumerHeartbeat) -> GroupError {
    match beat.check() {
        Err(error) => error,
        Ok(()) if beat.epoch == JOINS => GroupError::GroupIdNotFound,
        Ok(()) => GroupError::UnknownMemberId,
    }
}
