//! One consumer of a group, and the record it is given alone.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{MemberId, MonoMs, TopicPartition};
use crate::retry::detector::Asked;

/// Members that are remembered as gone; more than may have a Fetch that waits.
const GONE_MAX: usize = 1_000;
/// Nobody is heard of less often: `heartbeat.interval.ms`, 3 s by default, 5 s by KIP-848.
const BEAT_MS: u64 = 5_000;

#[derive(Debug, Default)]
pub(in crate::retry) struct Member {
    /// Its generation or epoch, as last seen.
    pub(in crate::retry) epoch: i32,
    /// When its first assignment came.
    pub(in crate::retry) since: MonoMs,
    /// When it was last heard of.
    pub(in crate::retry) alive: MonoMs,
    /// A retry topic is its way back.
    pub(in crate::retry) has_lane: bool,
    /// The record that is out, or goes out next, while one goes at a time.
    pub(in crate::retry) turn: Option<Turn>,
}

impl Member {
    /// When it may have lived last, if it was missed since.
    pub(in crate::retry) fn lived_until(&self, now: MonoMs) -> MonoMs {
        self.alive.plus(BEAT_MS).min(now)
    }
}

/// Members that went lately: a Fetch of theirs may still wait, and is none of a holder's.
#[derive(Debug, Default)]
pub(in crate::retry) struct Gone {
    members: BTreeSet<MemberId>,
    order: VecDeque<MemberId>,
}

impl Gone {
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

/// One record at a time: whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Turn {
    pub(in crate::retry) partition: TopicPartition,
    /// What was handed out; `None`: not yet.
    pub(in crate::retry) out: Option<Out>,
    /// The next one's turn comes at the latest.
    pub(in crate::retry) until: MonoMs,
}

impl Turn {
    /// Its record is still to be handed out, and this Fetch may bring it.
    pub(in crate::retry) fn is_of(&self, asked: &[Asked]) -> bool {
        self.out.is_none() && Asked::names(asked, &self.partition)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Out {
    pub(in crate::retry) offset: i64,
}
