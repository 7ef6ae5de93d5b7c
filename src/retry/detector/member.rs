//! A member of a group, its last assignment, and the record that is delivered to it by itself.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{MemberId, MonoMs, TopicPartition};
use crate::retry::RetrySubscription;
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
    /// The retry topics that the member subscribes to.
    pub(in crate::retry) retries: RetrySubscription,
    /// The record that is delivered now or next, while records are delivered one at a time.
    pub(in crate::retry) turn: Option<DeliveryRight>,
}

impl DetectedMember {
    /// The latest time at which a member that expired may have lived.
    pub(in crate::retry) fn lived_until(&self, now: MonoMs) -> MonoMs {
        self.alive.plus(BEAT_MS).min(now)
    }
}

/// The last assignment that a member got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStanding {
    /// The id of its process: another process may have the same key.
    pub member_id: MemberId,
    /// The generation, or the member epoch (KIP-848).
    pub epoch: i32,
    /// The progress of the assignment.
    pub step: AssignmentStep,
    /// The connection of that answer.
    pub conn: u64,
}

/// The progress of a member's assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentStep {
    /// The member knows its generation.
    Joined,
    /// The member knows its partitions.
    Assigned,
}

#[derive(Debug)]
pub(super) struct AssignedMember {
    pub(super) standing: MemberStanding,
    /// An answer since then told the client to rejoin.
    pub(super) is_called: bool,
}

impl AssignedMember {
    pub(super) fn is_same(&self, next: &MemberStanding) -> bool {
        let known = &self.standing;
        known.member_id == next.member_id && known.epoch == next.epoch && known.step == next.step
    }

    /// Whether the member rejoined by itself to reach `next`: it knew its partitions, and no answer
    /// explains the join. A client that lost its connection rejoins as well, so the connection must
    /// be the same.
    pub(super) fn has_given_up(&self, next: &MemberStanding) -> bool {
        let known = &self.standing;
        let joins = next.step == AssignmentStep::Joined && next.epoch > known.epoch;
        joins
            && known.step == AssignmentStep::Assigned
            && !self.is_called
            && known.conn == next.conn
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
