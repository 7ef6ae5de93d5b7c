//! A member of a group, and the record that is delivered to it by itself.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{MemberId, MonoMs, TopicPartition};
use crate::retry::detector::FetchPosition;

/// Removed members that are remembered; more than have a pending Fetch at a time.
const GONE_MAX: usize = 1_000;
/// The longest interval between heartbeats: `heartbeat.interval.ms` is 3 s by default, and 5 s by
/// KIP-848.
const BEAT_MS: u64 = 5_000;

#[derive(Debug, Default)]
pub(in crate::retry) struct DetectedMember {
    /// The generation or member epoch, as in the last request.
    pub(in crate::retry) epoch: i32,
    /// Time of the first assignment.
    pub(in crate::retry) since: MonoMs,
    /// Time of the last request.
    pub(in crate::retry) alive: MonoMs,
    /// The member subscribes to its retry topic.
    pub(in crate::retry) has_lane: bool,
    /// The record that is delivered now or next, while records are delivered one at a time.
    pub(in crate::retry) turn: Option<DeliveryRight>,
}

impl DetectedMember {
    /// The latest time at which a member that expired may have lived.
    pub(in crate::retry) fn lived_until(&self, now: MonoMs) -> MonoMs {
        self.alive.plus(BEAT_MS).min(now)
    }
}

/// Members that were removed lately. A pending Fetch of theirs is no Fetch of an owner.
#[derive(Debug, Default)]
pub(in crate::retry) struct RemovedMembers {
    members: BTreeSet<MemberId>,
    order: VecDeque<MemberId>,
}

impl RemovedMembers {
    pub(in crate::retry) fn note(&mut self, member: &MemberId) {
        if !self.members.insert(member.clone()) {
            return;
        }
        self.order.push_back(member.clone());
        if self.order.len() > GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
    }

    pub(in crate::retry) fn is_back(&mut self, member: &MemberId) {
        if self.members.remove(member) {
            self.order.retain(|gone| gone != member);
        }
    }

    pub(in crate::retry) fn has(&self, member: &MemberId) -> bool {
        self.members.contains(member)
    }
}

/// The right of one partition to the next delivery, while records are delivered one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct DeliveryRight {
    pub(in crate::retry) partition: TopicPartition,
    /// The delivered record; `None`: not yet delivered.
    pub(in crate::retry) out: Option<OutstandingDelivery>,
    /// The turn ends then at the latest.
    pub(in crate::retry) until: MonoMs,
}

impl DeliveryRight {
    /// Whether the record is still to be delivered, and this Fetch asks for its partition.
    pub(in crate::retry) fn is_of(&self, asked: &[FetchPosition]) -> bool {
        self.out.is_none() && FetchPosition::names(asked, &self.partition)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct OutstandingDelivery {
    pub(in crate::retry) offset: i64,
}
