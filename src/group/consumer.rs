//! One consumer group by KIP-848, as Kafka's coordinator runs it (`ConsumerGroup`).
//!
//! Whatever changes what the members are to have (someone comes or goes, a subscription, a topic)
//! makes the next epoch of the group and a new target. Each member is led there by its own
//! heartbeats:
//!
//! ```text
//!                     its heartbeat no longer names them, all else that is free is given
//!   holds what is lost ──────────────────────────────────────────▶ at the group's epoch
//!   (keeps its epoch)                                              │        ▲
//!          ▲          a new target takes something from it         │        │ what others held
//!          └───────────────────────────────────────────────────────┘        └─ becomes free
//! ```
//! Members that speak the classic protocol are led there by their joins instead (`classic.rs`), so
//! that a group goes from one protocol to the other member by member.
//!
//! **Invariant:** a partition has at most one owner: who was given it, until a heartbeat no longer
//! names it after it was taken away, or until that member is gone.

mod classic;
pub(super) mod join;
mod leave;
mod member;
mod reconcile;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::group::config::ConsumerConfig;
use crate::group::error::GroupError;
use crate::group::input::{CommitCheck, ConsumerHeartbeat, Input, Leave, Token};
use crate::group::output::{Alive, Answer, Output};
use crate::group::partition::{TopicImage, TopicPartition};
use crate::group::state::member_key;
use crate::model::{ClientId, Deadline, MemberId, Now, TopicName};

use member::Member;
pub use state::{
    ClassicMember, ConsumerDescription, ConsumerMember, ConsumerPhase, ConsumerState, KnownTopic,
    PatternMember,
};

/// The epoch of a heartbeat that joins.
pub const JOINS: i32 = 0;
/// The epoch of a static member that leaves its place to its next process; −1 leaves for good.
const LEAVES_FOR_A_WHILE: i32 = -2;
/// The protocol type of consumers.
pub(super) const CONSUMERS: &str = "consumer";

/// One consumer group.
#[derive(Clone, Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    is_dead: bool,
    epoch: i32,
    members: BTreeMap<MemberId, Member>,
    /// Instance id to member id.
    statics: BTreeMap<String, MemberId>,
    /// Topics somebody subscribes to, and how many do.
    wanted: BTreeMap<TopicName, usize>,
    /// Those of them that exist.
    topics: BTreeMap<TopicName, TopicImage>,
    /// Who holds each partition, or has still to give it up.
    owners: BTreeMap<TopicPartition, MemberId>,
    /// What is kept is not this.
    is_changed: bool,
    output: VecDeque<Output>,
}

impl Consumer {
    /// A group nobody has joined yet.
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

    /// Takes one request.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::ConsumerHeartbeat(token, beat) => {
                let answer = self.heartbeat(now, *beat);
                self.settle();
                self.answer(token, Answer::ConsumerHeartbeat(answer));
            }
            Input::CommitCheck(token, check) => {
                let result = self.commit_check(&check);
                self.answer(token, Answer::CommitCheck(result));
            }
            Input::Delete(token) => self.delete(token),
            Input::Leave(token, leave) => self.remove_by_instance(token, leave),
            Input::Join(token, join) => self.join_classic(now, token, join),
            Input::Sync(token, sync) => self.sync_classic(now, token, &sync),
            Input::Heartbeat(token, beat) => {
                let result = self.beat_classic(now, &beat);
                self.answer(token, Answer::Heartbeat(result));
            }
        }
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// When `handle_timeout` is next needed.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.next_due().map(Deadline)
    }

    /// Where the group is in its life.
    pub fn phase(&self) -> ConsumerPhase {
        let settled = |member: &Member| member.is_settled(self.epoch);
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

    /// True while nothing is lost by forgetting the group: nobody ever joined.
    pub fn is_blank(&self) -> bool {
        self.members.is_empty() && self.epoch == 0
    }

    /// Begins every member's session anew, and every wait.
    pub fn restart_sessions(&mut self, now: Now) {
        let session_ms = self.config.session_timeout_ms;
        self.members.values_mut().for_each(|member| member.restart(now, session_ms));
    }

    /// Topics somebody subscribes to.
    pub fn wanted(&self) -> impl Iterator<Item = &TopicName> {
        self.wanted.keys()
    }

    /// Patterns somebody subscribes by.
    pub fn patterns(&self) -> impl Iterator<Item = &String> {
        self.members.values().filter_map(|member| member.subscription.pattern.as_ref())
    }

    /// Whether a member subscribes to `topic`, by its name or by a pattern.
    pub fn subscribes(&self, member: &MemberId, topic: &TopicName) -> bool {
        self.members.get(member).is_some_and(|member| member.topics.contains(topic))
    }

    /// The name of a member that outlives a static member's process.
    pub fn key_of(&self, member: &MemberId) -> Option<MemberId> {
        let known = self.members.get(member)?;
        Some(member_key(member, known.instance_id.as_deref()))
    }

    /// Everyone, by the name that outlives a static member's process.
    pub fn member_keys(&self) -> impl Iterator<Item = MemberId> {
        self.members.iter().map(|(id, member)| member_key(id, member.instance_id.as_deref()))
    }

    /// What each member subscribes to, by the same name.
    pub fn subscriptions(&self) -> impl Iterator<Item = (MemberId, Vec<TopicName>)> {
        let members = self.members.iter();
        members.map(|(id, member)| {
            let topics = member.topics.iter().cloned().collect();
            (member_key(id, member.instance_id.as_deref()), topics)
        })
    }

    /// Members with that client id and host, by the same name.
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

    /// May this client read the offsets of the group? Anyone may who does not say who it is.
    pub fn fetch_check(&self, member: Option<&MemberId>, epoch: i32) -> Result<(), GroupError> {
        match member.filter(|id| !id.as_str().is_empty()) {
            None if epoch < 0 => Ok(()),
            None => Err(GroupError::UnknownMemberId),
            Some(id) => self.check_epoch(id, epoch),
        }
    }

    /// Whether a member by KIP-848 has had all these partitions ever since that epoch, which is one
    /// before its own: it commits and has not heard of the next one yet (KIP-1251).
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
            let one = |image: &TopicImage| TopicPartition { topic: image.id, index: *index };
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

    /// Does this id, with this instance id, belong to the group?
    fn check_member(&self, id: &MemberId, instance: Option<&str>) -> Result<&Member, GroupError> {
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

    fn heartbeat(&mut self, now: Now, beat: ConsumerHeartbeat) -> Result<Alive, GroupError> {
        join::check(&beat)?;
        if self.is_dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if beat.epoch < JOINS { self.goes(&beat) } else { self.stays(now, beat) }
    }

    fn delete(&mut self, token: Token) {
        let result = if self.is_dead {
            Err(GroupError::GroupIdNotFound)
        } else if self.members.is_empty() {
            self.is_dead = true;
            self.output.push_back(Output::Forget);
            Ok(())
        } else {
            Err(GroupError::NonEmptyGroup)
        };
        self.answer(token, Answer::Delete(result));
    }

    fn remove_by_instance(&mut self, token: Token, leave: Leave) {
        let left = leave.members.into_iter().map(|leaver| self.remove_one(leaver)).collect();
        self.settle();
        self.answer(token, Answer::Leave(Ok(left)));
    }

    fn answer(&mut self, token: Token, answer: Answer) {
        self.output.push_back(Output::Answer(token, answer));
    }

    /// Keeps what has changed, before whatever rests on it is answered.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let state = self.state();
            self.output.push_back(Output::PersistConsumer(state));
        }
    }

    fn release(&mut self, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            self.owners.remove(partition);
        }
    }
}
