//! What is kept of a consumer group, and what is shown of it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::group::config::ConsumerConfig;
use crate::group::consumer::Consumer;
use crate::group::consumer::member::{ClassicSide, Member, Subscription};
use crate::group::partition::{TopicImage, TopicPartitions, by_topic, one_by_one};
use crate::group::state::Protocol;
use crate::model::{ClientId, MemberId, MonoMs, Now, TopicId, TopicName};

/// Where a consumer group is in its life; the names are those of `ConsumerGroupDescribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerPhase {
    /// No members.
    Empty,
    /// Members give up and take over partitions.
    Reconciling,
    /// Everyone has what it is to have.
    Stable,
    /// Deleted.
    Dead,
}

impl fmt::Display for ConsumerPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        })
    }
}

/// A consumer group, whole. Journalled: a change of this shape is a change of a format.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConsumerState {
    /// The epoch of the group and of its targets.
    pub epoch: i32,
    /// The topics the targets are made of.
    pub topics: Vec<KnownTopic>,
    /// Everyone, in order of member id.
    pub members: Vec<ConsumerMember>,
    /// More of those that speak the classic protocol; kept beside.
    #[serde(skip)]
    pub classic: Vec<ClassicMember>,
    /// More of those that subscribe by a pattern; kept beside.
    #[serde(skip)]
    pub patterns: Vec<PatternMember>,
}

/// The subscription of a member by a pattern. Journalled: a change of this shape is a change of a
/// format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternMember {
    /// The id of the member.
    pub member_id: MemberId,
    /// RE2 syntax, for whole topic names.
    pub pattern: String,
    /// The topics it names beside that.
    pub names: Vec<TopicName>,
}

/// What a member that speaks the classic protocol says beside that. Journalled: a change of this
/// shape is a change of a format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassicMember {
    /// Its id.
    pub member_id: MemberId,
    /// Silence after which it is removed.
    pub session_timeout_ms: u64,
    /// All it supports, in order of preference.
    pub protocols: Vec<Protocol>,
}

/// A topic as it was when the last target was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// How many partitions it had.
    pub partitions: i32,
}

/// One member of a [`ConsumerState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerMember {
    /// Its id.
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// What the client calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub client_host: String,
    /// How long it may take to give up partitions.
    pub rebalance_timeout_ms: u64,
    /// The assignor it votes for.
    pub assignor: Option<String>,
    /// All topics it subscribes to, the matches of its pattern included.
    pub topics: Vec<TopicName>,
    /// What it was last told; −2 while a static member is away.
    pub epoch: i32,
    /// The one before.
    pub epoch_before: i32,
    /// What it is to have in the end.
    pub target: Vec<TopicPartitions>,
    /// What it may have now.
    pub assigned: Vec<TopicPartitions>,
    /// What it has to give up and may still have.
    pub revoking: Vec<TopicPartitions>,
}

/// A consumer group for people and for `ConsumerGroupDescribe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// Where it is in its life.
    pub phase: ConsumerPhase,
    /// The assignor in use.
    pub assignor: String,
    /// Everything else.
    pub state: ConsumerState,
}

impl Consumer {
    /// The group as it was kept; every session timer and every wait starts anew at `now`.
    pub fn restored(config: ConsumerConfig, now: Now, state: ConsumerState) -> Self {
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
            let member = Member::restored(kept);
            for topic in &member.topics {
                *group.wanted.entry(topic.clone()).or_default() += 1;
            }
            for partition in member.assigned.iter().chain(&member.revoking) {
                group.owners.insert(*partition, id.clone());
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
                member.subscription = Subscription { names, pattern: Some(pattern) };
            }
        }
        group.restart_sessions(now);
        group
    }

    /// The group for `ConsumerGroupDescribe`.
    pub fn describe(&self) -> ConsumerDescription {
        let assignor = self.assignor().to_owned();
        ConsumerDescription { phase: self.phase(), assignor, state: self.state() }
    }

    pub(super) fn state(&self) -> ConsumerState {
        let topic = |(name, image): (&TopicName, &TopicImage)| KnownTopic {
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
            let Subscription { names, pattern } = &member.subscription;
            Some(PatternMember {
                member_id: id.clone(),
                pattern: pattern.clone()?,
                names: names.iter().cloned().collect(),
            })
        });
        kept.collect()
    }
}

impl Member {
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
            subscription: Subscription { names: topics.clone(), pattern: None },
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
