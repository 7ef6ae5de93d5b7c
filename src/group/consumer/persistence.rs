//! Turns a consumer group into its persisted state, and restores the group from that state.

use std::collections::BTreeSet;

use crate::group::config::ConsumerConfig;
use crate::group::consumer::Consumer;
use crate::group::consumer::member::{ClassicSide, ConsumerMemberState, ConsumerSubscription};
use crate::group::consumer::state::{
    ClassicMember, ConsumerDescription, ConsumerMember, ConsumerState, PatternMember, TargetTopic,
};
use crate::group::partition::{TopicImage, by_topic, one_by_one};
use crate::model::{MemberId, Moment, MonoMs, TopicName};

impl Consumer {
    /// Restores a persisted group; every session timeout and revocation wait starts again at `now`.
    pub fn restored(config: ConsumerConfig, now: Moment, state: ConsumerState) -> Self {
        let mut group = Self::new(config);
        group.epoch = state.epoch;
        for topic in state.topics {
            let image = TopicImage { id: topic.id, partitions: topic.partitions };
            group.topics.insert(topic.name, image);
        }
        for kept in state.members {
            let id = kept.member_id.clone();
            if let Some(instance) = &kept.instance_id {
                group.statics.insert(instance.clone(), id.clone());
            }
            let member = ConsumerMemberState::restored(kept);
            for topic in &member.topics {
                *group.wanted.entry(topic.clone()).or_default() += 1;
            }
            for partition in member.assigned.iter().chain(&member.revoking) {
                let other = group.owners.insert(*partition, id.clone());
                debug_assert!(other.is_none_or(|other| other == id), "a partition has two owners");
            }
            group.members.insert(id, member);
        }
        for kept in state.classic {
            if let Some(member) = group.members.get_mut(&kept.member_id) {
                let ClassicMember { session_timeout_ms, protocols, .. } = kept;
                let side = ClassicSide { session_timeout_ms, protocols, step_by: None };
                member.classic = Some(side);
            }
        }
        for kept in state.patterns {
            if let Some(member) = group.members.get_mut(&kept.member_id) {
                let PatternMember { pattern, names, .. } = kept;
                let names = names.into_iter().collect();
                member.subscription = ConsumerSubscription { names, pattern: Some(pattern) };
            }
        }
        group.restart_sessions(now);
        group
    }

    /// The description for `ConsumerGroupDescribe`.
    pub fn describe(&self) -> ConsumerDescription {
        let assignor = self.assignor().to_owned();
        ConsumerDescription { phase: self.phase(), assignor, state: self.state() }
    }

    pub(super) fn state(&self) -> ConsumerState {
        let topic = |(name, image): (&TopicName, &TopicImage)| TargetTopic {
            name: name.clone(),
            id: image.id,
            partitions: image.partitions,
        };
        ConsumerState {
            epoch: self.epoch,
            topics: self.topics.iter().map(topic).collect(),
            members: self.members.iter().map(|(id, member)| member.kept(id)).collect(),
            classic: self.kept_classic(),
            patterns: self.kept_patterns(),
        }
    }

    fn kept_patterns(&self) -> Vec<PatternMember> {
        let kept = self.members.iter().filter_map(|(id, member)| {
            let ConsumerSubscription { names, pattern } = &member.subscription;
            Some(PatternMember {
                member_id: id.clone(),
                pattern: pattern.clone()?,
                names: names.iter().cloned().collect(),
            })
        });
        kept.collect()
    }
}

impl ConsumerMemberState {
    fn restored(kept: ConsumerMember) -> Self {
        let (assigned, revoking) = (one_by_one(&kept.assigned), one_by_one(&kept.revoking));
        let held = assigned.iter().chain(&revoking);
        let since = held.map(|one| (*one, kept.epoch)).collect();
        let topics: BTreeSet<TopicName> = kept.topics.into_iter().collect();
        Self {
            instance_id: kept.instance_id,
            rack_id: kept.rack_id,
            client_id: kept.client_id,
            client_host: kept.client_host,
            rebalance_timeout_ms: kept.rebalance_timeout_ms,
            assignor: kept.assignor,
            subscription: ConsumerSubscription { names: topics.clone(), pattern: None },
            topics,
            epoch: kept.epoch,
            epoch_before: kept.epoch_before,
            target: one_by_one(&kept.target),
            assigned,
            revoking,
            since,
            silent_by: MonoMs::default(),
            revoke_by: None,
            classic: None,
        }
    }

    fn kept(&self, id: &MemberId) -> ConsumerMember {
        ConsumerMember {
            member_id: id.clone(),
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            assignor: self.assignor.clone(),
            topics: self.topics.iter().cloned().collect(),
            epoch: self.epoch,
            epoch_before: self.epoch_before,
            target: by_topic(&self.target),
            assigned: by_topic(&self.assigned),
            revoking: by_topic(&self.revoking),
        }
    }
}
