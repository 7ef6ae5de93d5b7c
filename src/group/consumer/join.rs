//! Heartbeats of members that join or stay: admission, epoch checks, and the changes they cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::group::consumer::Consumer;
use crate::group::consumer::member::ConsumerMemberState;
use crate::group::error::GroupError;
use crate::group::input::{ConsumerHeartbeat, JOINS};
use crate::group::output::{Alive, GoneCause, GroupOutput, MemberGone};
use crate::group::partition::{TopicIdPartition, TopicImage};
use crate::model::{MemberId, Moment, TopicName};

/// Topics that match each pattern.
type PatternMatches = BTreeMap<String, Arc<BTreeSet<TopicName>>>;

impl Consumer {
    pub(super) fn stays(
        &mut self,
        now: Moment,
        beat: ConsumerHeartbeat,
    ) -> Result<Alive, GroupError> {
        let is_new = self.admit(&beat)?;
        let id = beat.member_id.clone();
        let joins = beat.epoch == JOINS;
        let is_whole =
            beat.rebalance_timeout_ms.is_some() && beat.topics.is_some() && beat.owned.is_some();
        let held_before = self.members.get(&id).map(|member| member.assigned.clone());
        let resubscribed = self.heard(now, is_new, beat);
        let member = self.members.get(&id).ok_or(GroupError::UnknownMemberId)?;
        // A full heartbeat may mean that the member missed the last answer.
        let news = held_before.as_ref() != Some(&member.assigned);
        let tells = joins || is_whole || resubscribed || news;
        Ok(Alive {
            member_id: id,
            epoch: member.epoch,
            heartbeat_interval_ms: self.config.heartbeat_interval_ms,
            assignment: tells.then(|| member.assigned.clone()),
        })
    }

    /// Applies a heartbeat and reconciles the member; returns whether its subscription changed.
    pub(super) fn heard(&mut self, now: Moment, is_new: bool, beat: ConsumerHeartbeat) -> bool {
        let id = &beat.member_id;
        let session_ms = self.config.session_timeout_ms;
        if let Some(member) = self.members.get_mut(id) {
            self.is_changed |= member.update(&beat);
            member.beat(now, session_ms);
        }
        let resubscribed = self.subscribe(&beat);
        let others = self.rematch(&beat.matching) | self.learn(beat.cluster);
        if is_new || resubscribed || others {
            self.retarget();
        }
        self.reconcile(now, id, beat.owned.as_ref(), resubscribed);
        resubscribed
    }

    /// Finds or adds the member, or refuses it; returns whether it is new.
    fn admit(&mut self, beat: &ConsumerHeartbeat) -> Result<bool, GroupError> {
        let id = &beat.member_id;
        if beat.epoch != JOINS {
            let member = self.check_member(id, beat.instance_id.as_deref())?;
            return member.check_epoch(beat.epoch, beat.owned.as_ref()).map(|()| false);
        }
        let holder = beat.instance_id.as_ref().and_then(|instance| self.statics.get(instance));
        if let Some(holder) = holder.filter(|holder| *holder != id).cloned() {
            let is_free =
                self.members.get(&holder).is_some_and(ConsumerMemberState::may_be_replaced);
            if !is_free || self.members.contains_key(id) {
                return Err(GroupError::UnreleasedInstanceId);
            }
            self.take_over(&holder, id);
        }
        if self.members.contains_key(id) {
            self.start_over(id, beat.instance_id.as_ref());
            return Ok(false);
        }
        self.add(beat).map(|()| true)
    }

    /// Adds a member, unless the group is full.
    pub(super) fn add(&mut self, beat: &ConsumerHeartbeat) -> Result<(), GroupError> {
        if self.config.members_max <= self.members.len() {
            return Err(GroupError::GroupMaxSizeReached);
        }
        let id = &beat.member_id;
        self.members.insert(id.clone(), ConsumerMemberState::new(beat));
        if let Some(instance) = &beat.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        self.is_changed = true;
        Ok(())
    }

    /// Lets a new process of a static member take over its predecessor's membership.
    pub(super) fn take_over(&mut self, old: &MemberId, new: &MemberId) {
        let Some(member) = self.members.remove(old) else { return };
        for partition in member.assigned.iter().chain(&member.revoking) {
            self.owners.insert(*partition, new.clone());
        }
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), new.clone());
        }
        self.output.push_back(GroupOutput::MemberGone(MemberGone {
            member_id: old.clone(),
            instance_id: member.instance_id.clone(),
            cause: GoneCause::Replaced,
        }));
        self.members.insert(new.clone(), member);
    }

    /// Resets a member that joins again: it owns nothing, but its target stays.
    pub(super) fn start_over(&mut self, id: &MemberId, instance: Option<&String>) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.epoch = JOINS;
        member.epoch_before = JOINS;
        member.revoke_by = None;
        member.classic = None;
        let held = [std::mem::take(&mut member.assigned), std::mem::take(&mut member.revoking)];
        if member.instance_id.as_ref() != instance {
            if let Some(old) = &member.instance_id {
                self.statics.remove(old);
            }
            member.instance_id = instance.cloned();
            if let Some(new) = instance {
                self.statics.insert(new.clone(), id.clone());
            }
        }
        for held in &held {
            self.release(held);
        }
        self.is_changed = true;
    }

    /// Applies names and pattern of a subscription; returns whether the subscribed topics changed.
    fn subscribe(&mut self, beat: &ConsumerHeartbeat) -> bool {
        let id = &beat.member_id;
        let Some(member) = self.members.get_mut(id) else { return false };
        let mut subscription = member.subscription.clone();
        if let Some(names) = &beat.topics {
            subscription.names.clone_from(names);
        }
        if let Some(pattern) = &beat.pattern {
            subscription.pattern = Some(pattern.clone()).filter(|pattern| !pattern.is_empty());
        }
        if member.subscription != subscription {
            member.subscription = subscription;
            self.is_changed = true;
        }
        self.resolve(id, &beat.matching)
    }

    /// Updates the topics of every member with a pattern; returns whether any changed.
    fn rematch(&mut self, matching: &PatternMatches) -> bool {
        let by_pattern = self.members.iter().filter(|(_, one)| one.subscription.pattern.is_some());
        let ids: Vec<MemberId> = by_pattern.map(|(id, _)| id.clone()).collect();
        ids.iter().fold(false, |others, id| self.resolve(id, matching) | others)
    }

    /// Updates a member's topics from its subscription; returns whether they changed. A pattern
    /// that is missing in `matching` keeps its topics.
    fn resolve(&mut self, id: &MemberId, matching: &PatternMatches) -> bool {
        let Some(member) = self.members.get_mut(id) else { return false };
        let mut topics = member.subscription.names.clone();
        if let Some(pattern) = &member.subscription.pattern {
            let Some(matched) = matching.get(pattern) else { return false };
            topics.extend(matched.iter().cloned());
        }
        if member.topics == topics {
            return false;
        }
        let before = std::mem::replace(&mut member.topics, topics.clone());
        for topic in topics {
            *self.wanted.entry(topic).or_default() += 1;
        }
        self.unwant(&before);
        true
    }

    pub(super) fn unwant(&mut self, topics: &BTreeSet<TopicName>) {
        for topic in topics {
            let Some(count) = self.wanted.get_mut(topic) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.wanted.remove(topic);
            }
        }
    }

    /// Updates the existing topics; returns whether any changed. A topic that is missing in
    /// `cluster` stays as it is.
    fn learn(&mut self, cluster: BTreeMap<TopicName, Option<TopicImage>>) -> bool {
        let mut news = false;
        for (name, image) in cluster {
            if !self.wanted.contains_key(&name) || self.topics.get(&name).copied() == image {
                continue;
            }
            news = true;
            match image {
                Some(image) => self.topics.insert(name, image),
                None => self.topics.remove(&name),
            };
        }
        news
    }
}

impl ConsumerMemberState {
    /// A heartbeat answer may be lost. The member then sends its previous epoch, and owns no
    /// partition that it was not assigned.
    fn check_epoch(
        &self,
        epoch: i32,
        owned: Option<&BTreeSet<TopicIdPartition>>,
    ) -> Result<(), GroupError> {
        let missed_one = epoch < self.epoch
            && epoch == self.epoch_before
            && owned.is_some_and(|owned| owned.is_subset(&self.assigned));
        if epoch == self.epoch || missed_one { Ok(()) } else { Err(GroupError::FencedMemberEpoch) }
    }
}
