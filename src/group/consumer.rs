//! One KIP-848 group, as Kafka's coordinator runs it (`ConsumerGroup`).
//!
//! A change of members, subscriptions or topics makes the group's next epoch and a new target
//! assignment. Each member moves to its target by its own heartbeats:
//!
//! ```text
//!                     a heartbeat without the revoked partitions; free ones are assigned
//!   must revoke ─────────────────────────────────────────────────▶ at the group's epoch
//!   (keeps its epoch)                                              │        ▲
//!          ▲          a new target removes a partition             │        │ a target partition
//!          └───────────────────────────────────────────────────────┘        └─ becomes free
//! ```
//! Members with the classic protocol move by their joins instead (`classic.rs`), so a group can
//! change protocol member by member.
//!
//! **Invariant:** a partition has at most one owner. Ownership ends after a revocation, once a
//! heartbeat no longer lists the partition, or when the member is removed.

mod classic;
mod join;
mod leave;
mod member;
mod persistence;
mod reconcile;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::group::config::ConsumerConfig;
use crate::group::error::GroupError;
use crate::group::input::{
    CommitCheck, ConsumerHeartbeat, GroupInput, JOINS, LeaveRequest, RequestId,
};
use crate::group::output::{Alive, GroupAnswer, GroupOutput};
use crate::group::partition::{TopicIdPartition, TopicImage};
use crate::group::state::member_key;
use crate::model::{ClientId, Deadline, MemberId, Moment, TopicName};

use member::ConsumerMemberState;
pub use state::{
    ClassicMember, ConsumerDescription, ConsumerMember, ConsumerPhase, ConsumerState,
    PatternMember, TargetTopic,
};

/// Protocol type of consumers.
pub(super) const CONSUMERS: &str = "consumer";

/// One consumer group (KIP-848).
#[derive(Clone, Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    is_dead: bool,
    epoch: i32,
    members: BTreeMap<MemberId, ConsumerMemberState>,
    /// Instance id to member id.
    statics: BTreeMap<String, MemberId>,
    /// Subscribed topics, with their number of subscribers.
    wanted: BTreeMap<TopicName, usize>,
    /// The subscribed topics that exist.
    topics: BTreeMap<TopicName, TopicImage>,
    /// The owner of each partition; a member owns a partition until its revocation is complete.
    owners: BTreeMap<TopicIdPartition, MemberId>,
    /// The state differs from the persisted one.
    is_changed: bool,
    output: VecDeque<GroupOutput>,
}

impl Consumer {
    /// An empty group of epoch 0.
    pub fn new(config: ConsumerConfig) -> Self {
        Self {
            config,
            is_dead: false,
            epoch: 0,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            wanted: BTreeMap::new(),
            topics: BTreeMap::new(),
            owners: BTreeMap::new(),
            is_changed: false,
            output: VecDeque::new(),
        }
    }

    /// Handles one request.
    pub fn handle(&mut self, now: Moment, input: GroupInput) {
        match input {
            GroupInput::ConsumerHeartbeat(token, beat) => {
                let answer = self.heartbeat(now, *beat);
                self.settle();
                self.answer(token, GroupAnswer::ConsumerHeartbeat(answer));
            }
            GroupInput::CommitCheck(token, check) => {
                let result = self.commit_check(&check);
                self.answer(token, GroupAnswer::CommitCheck(result));
            }
            GroupInput::Delete(token) => self.delete(token),
            GroupInput::Leave(token, leave) => self.remove_by_instance(token, leave),
            GroupInput::Join(token, join) => self.join_classic(now, token, join),
            GroupInput::Sync(token, sync) => self.sync_classic(now, token, &sync),
            GroupInput::Heartbeat(token, beat) => {
                let result = self.beat_classic(now, &beat);
                self.answer(token, GroupAnswer::Heartbeat(result));
            }
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
    pub fn phase(&self) -> ConsumerPhase {
        let settled = |member: &ConsumerMemberState| member.is_settled(self.epoch);
        if self.is_dead {
            ConsumerPhase::Dead
        } else if self.members.is_empty() {
            ConsumerPhase::Empty
        } else if self.members.values().all(settled) {
            ConsumerPhase::Stable
        } else {
            ConsumerPhase::Reconciling
        }
    }

    /// Whether the group can be forgotten: no member ever joined.
    pub fn is_blank(&self) -> bool {
        self.members.is_empty() && self.epoch == 0
    }

    /// Restarts the session timeout and the revocation wait of every member.
    pub fn restart_sessions(&mut self, now: Moment) {
        let session_ms = self.config.session_timeout_ms;
        self.members.values_mut().for_each(|member| member.restart(now, session_ms));
    }

    /// All subscribed topics.
    pub fn wanted(&self) -> impl Iterator<Item = &TopicName> {
        self.wanted.keys()
    }

    /// All subscription patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &String> {
        self.members.values().filter_map(|member| member.subscription.pattern.as_ref())
    }

    /// Whether a member subscribes to `topic`, by name or by pattern.
    pub fn subscribes(&self, member: &MemberId, topic: &TopicName) -> bool {
        self.members.get(member).is_some_and(|member| member.topics.contains(topic))
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

    /// Subscribed topics of every member, by `member_key`.
    pub fn subscriptions(&self) -> impl Iterator<Item = (MemberId, Vec<TopicName>)> {
        let members = self.members.iter();
        members.map(|(id, member)| {
            let topics = member.topics.iter().cloned().collect();
            (member_key(id, member.instance_id.as_deref()), topics)
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

    /// Checks whether a client may fetch the group's offsets. A client without member id and epoch
    /// may.
    pub fn fetch_check(&self, member: Option<&MemberId>, epoch: i32) -> Result<(), GroupError> {
        match member.filter(|id| !id.as_str().is_empty()) {
            None if epoch < 0 => Ok(()),
            None => Err(GroupError::UnknownMemberId),
            Some(id) => self.check_epoch(id, epoch),
        }
    }

    /// Whether a KIP-848 member has owned all `partitions` since `epoch`, which is before its
    /// current one. The member may commit with the old epoch until its next heartbeat is answered
    /// (KIP-1251).
    pub fn has_had<'a>(
        &self,
        id: &MemberId,
        epoch: i32,
        mut partitions: impl Iterator<Item = &'a (TopicName, i32)>,
    ) -> bool {
        let member = self.members.get(id).filter(|member| member.classic.is_none());
        let member = member.filter(|member| JOINS < epoch && epoch < member.epoch);
        let Some(member) = member else { return false };
        partitions.all(|(topic, index)| {
            let one = |image: &TopicImage| TopicIdPartition { topic: image.id, index: *index };
            self.topics.get(topic).map(one).is_some_and(|one| member.has_had(&one, epoch))
        })
    }

    fn commit_check(&self, check: &CommitCheck) -> Result<(), GroupError> {
        if self.is_dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if check.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(&check.member_id).ok_or(GroupError::UnknownMemberId)?;
        if !check.has_epochs && member.classic.is_none() {
            return Err(GroupError::UnsupportedVersion);
        }
        self.check_epoch(&check.member_id, check.generation)
    }

    /// Checks that the member id and instance id belong to the group.
    fn check_member(
        &self,
        id: &MemberId,
        instance: Option<&str>,
    ) -> Result<&ConsumerMemberState, GroupError> {
        if let Some(instance) = instance {
            let holder = self.statics.get(instance).ok_or(GroupError::UnknownMemberId)?;
            if holder != id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        self.members.get(id).ok_or(GroupError::UnknownMemberId)
    }

    fn check_epoch(&self, id: &MemberId, epoch: i32) -> Result<(), GroupError> {
        let member = self.members.get(id).ok_or(GroupError::UnknownMemberId)?;
        match &member.classic {
            _ if member.epoch == epoch => Ok(()),
            Some(_) => Err(GroupError::IllegalGeneration),
            None => Err(GroupError::StaleMemberEpoch),
        }
    }

    fn heartbeat(&mut self, now: Moment, beat: ConsumerHeartbeat) -> Result<Alive, GroupError> {
        beat.check()?;
        if self.is_dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if beat.epoch < JOINS { self.goes(&beat) } else { self.stays(now, beat) }
    }

    fn delete(&mut self, token: RequestId) {
        let result = if self.is_dead {
            Err(GroupError::GroupIdNotFound)
        } else if self.members.is_empty() {
            self.is_dead = true;
            self.output.push_back(GroupOutput::Forget);
            Ok(())
        } else {
            Err(GroupError::NonEmptyGroup)
        };
        self.answer(token, GroupAnswer::Delete(result));
    }

    fn remove_by_instance(&mut self, token: RequestId, leave: LeaveRequest) {
        let left = leave.members.into_iter().map(|leaver| self.remove_one(leaver)).collect();
        self.settle();
        self.answer(token, GroupAnswer::Leave(Ok(left)));
    }

    fn answer(&mut self, token: RequestId, answer: GroupAnswer) {
        self.output.push_back(GroupOutput::Answer(token, answer));
    }

    /// Persists a changed state before the answers that depend on it.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let state = self.state();
            self.output.push_back(GroupOutput::PersistConsumer(state));
        }
    }

    fn release(&mut self, partitions: &BTreeSet<TopicIdPartition>) {
        for partition in partitions {
            self.owners.remove(partition);
        }
    }
}
