//! Retries that are outstanding at the members of a group. A member with one gets no suspect by
//! itself.

mod apart;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;

use crate::model::{LaneOffset, MemberId, Moment, MonoMs, RetryPartition};
use crate::retry::OtherDeliveries;
use crate::retry::detector::{Detector, DetectorOutput, LaneGiven};

pub use apart::ApartView;
pub(in crate::retry) use apart::Aparts;

#[derive(Debug, Default)]
pub(in crate::retry) struct Lanes {
    members: BTreeMap<MemberId, MemberLane>,
    slots: BTreeMap<RetryPartition, MemberId>,
}

#[derive(Debug, Default)]
struct MemberLane {
    /// Outstanding deliveries, and the time of each.
    out: BTreeMap<LaneOffset, MonoMs>,
    /// Time of the last delivery.
    given_at: MonoMs,
    turn: LaneTurn,
    /// The retries had the last turn: other records go first until then.
    had_until: MonoMs,
}

/// The turn of a member's retries, while records are delivered one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LaneTurn {
    /// No retry is due, or the retries have just had their turn.
    #[default]
    None,
    /// A retry is due, and another record has its turn.
    Waits,
    /// A retry is next, unless no Fetch comes until then.
    Next { until: MonoMs },
}

impl Lanes {
    fn given(&mut self, now: MonoMs, told: &LaneGiven, patience_ms: u64) {
        self.slots.insert(told.slot, told.member.clone());
        let lane = self.members.entry(told.member.clone()).or_default();
        for offset in &told.out {
            // A repeated delivery counts from the first time.
            if let Vacant(new) = lane.out.entry(*offset) {
                new.insert(now);
                lane.given_at = now;
                // The record that waits for this retry is next. Twice the timeout leaves it time to
                // be fetched.
                lane.had_until = now.plus(patience_ms.saturating_mul(2));
            }
        }
        lane.turn = if told.waits { LaneTurn::Waits } else { LaneTurn::None };
    }

    /// Removes deliveries that were acknowledged, or are back in the queue.
    fn end(&mut self, has_ended: impl Fn(LaneOffset, MonoMs) -> bool) {
        for lane in self.members.values_mut() {
            lane.out.retain(|offset, since| !has_ended(*offset, *since));
        }
    }

    /// Removes a member: its retries are back in the queue.
    pub(in crate::retry) fn gone(&mut self, member: &MemberId) {
        self.members.remove(member);
        self.slots.retain(|_, holder| holder != member);
    }

    pub(in crate::retry) fn is_out(&self, member: &MemberId) -> bool {
        self.members.get(member).is_some_and(|lane| !lane.out.is_empty())
    }

    /// Whether this delivery is outstanding at the member.
    pub(in crate::retry) fn has(&self, member: &MemberId, offset: LaneOffset) -> bool {
        self.members.get(member).is_some_and(|lane| lane.out.contains_key(&offset))
    }

    /// Time of the last delivery to a member with outstanding retries.
    pub(in crate::retry) fn given_at(&self, member: &MemberId) -> Option<MonoMs> {
        let lane = self.members.get(member).filter(|lane| !lane.out.is_empty())?;
        Some(lane.given_at)
    }

    /// Gives the turn to another record.
    pub(in crate::retry) fn pass(&mut self, member: &MemberId) {
        if let Some(lane) = self.members.get_mut(member) {
            lane.had_until = MonoMs::default();
        }
    }

    /// Whether other records go first, because the retries had the last turn.
    fn has_had(&self, now: MonoMs, member: &MemberId) -> bool {
        self.members.get(member).is_some_and(|lane| lane.had_until > now)
    }

    /// The time until which only retries are delivered, because a due retry has its turn.
    pub(in crate::retry) fn next_until(
        &mut self,
        now: MonoMs,
        member: &MemberId,
        patience_ms: u64,
    ) -> Option<MonoMs> {
        let lane = self.members.get_mut(member).filter(|lane| lane.had_until <= now)?;
        if lane.turn == LaneTurn::Waits {
            lane.turn = LaneTurn::Next { until: now.plus(patience_ms) };
        }
        match lane.turn {
            LaneTurn::Next { until } if until > now => Some(until),
            _ => None,
        }
    }
}

impl Detector {
    /// Retries that a Fetch of a retry partition may deliver now (`None`: any number), and the
    /// records they go with.
    pub fn lane_turn(
        &mut self,
        now: Moment,
        slot: RetryPartition,
    ) -> (Option<usize>, OtherDeliveries) {
        if !self.breaker.is_closed() {
            // A loss during a pause does not count.
            return (None, OtherDeliveries::Old);
        }
        let Some(member) = self.lanes.slots.get(&slot).cloned() else {
            return (None, OtherDeliveries::Some);
        };
        self.end_turn(now, &member);
        if self.has_turn(&member) {
            return (Some(0), OtherDeliveries::Some);
        }
        if self.suspects.is_quiet(now, &member) {
            return (Some(0), OtherDeliveries::Some);
        }
        let (room, company) = self.apart_room(now, &member);
        if room.is_some() || !self.is_single(&member) {
            return (room, company);
        }
        let is_free = self.drained_at(now, &member).is_none();
        let room = usize::from(is_free && !self.lanes.has_had(now.mono, &member));
        (Some(room), company)
    }

    /// Notes the answer to a Fetch of the retry topic.
    pub(in crate::retry) fn on_lane_given(&mut self, now: Moment, told: &LaneGiven) {
        let is_news = self.lanes.members.get(&told.member).is_none_or(|known| {
            told.out.iter().any(|offset| !known.out.contains_key(offset))
                || matches!(known.turn, LaneTurn::Next { .. })
        });
        let patience_ms = self.rules.isolation_timeout_ms;
        let new = told.out.iter().filter(|offset| !self.lanes.has(&told.member, **offset)).count();
        self.lanes.given(now.mono, told, patience_ms);
        self.note_apart(now, told, new > 0);
        self.count_retries_given(now, new);
        if told.out.is_empty() && is_news {
            self.push(DetectorOutput::Wake);
        }
    }

    /// Removes deliveries of a retry partition below an offset: acknowledged, or back in the queue.
    pub(in crate::retry) fn on_lane_below(&mut self, up_to: LaneOffset) {
        let is_below = |offset: LaneOffset, _| offset.slot == up_to.slot && offset < up_to;
        self.lanes.end(is_below);
        self.lane_moved();
    }

    /// Removes a nacked delivery.
    pub(in crate::retry) fn on_lane_nacked(&mut self, lane: LaneOffset) {
        self.lanes.end(|offset, _| offset == lane);
        self.lane_moved();
    }

    /// Removes deliveries older than `consume_timeout`: they are back in the queue.
    pub(in crate::retry) fn expire_lanes(&mut self, now: Moment) {
        let timeout_ms = self.rules.consume_timeout_ms;
        self.lanes.end(|_, since| now.mono.since(since) >= timeout_ms);
    }

    /// A pending Fetch may wait until nothing else is outstanding.
    fn lane_moved(&mut self) {
        if !self.troubled.is_empty() {
            self.push(DetectorOutput::Wake);
        }
    }
}
