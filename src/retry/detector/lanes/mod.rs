//! Retries that are out at the members of a group. Whoever has one has nothing else alone.

mod apart;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;

use crate::model::{LaneOffset, MemberId, MonoMs, Now, Slot};
use crate::retry::detector::{Detector, Output};
use crate::retry::{Company, Single};

pub use apart::ApartView;
pub(in crate::retry) use apart::Aparts;

/// What a Fetch of the retry topic brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneGiven {
    /// Whose slot it is.
    pub member: MemberId,
    /// Which.
    pub slot: Slot,
    /// What is out there by now; a hand-out that was told before may be among it.
    pub out: Vec<LaneOffset>,
    /// It had no turn, and something is due.
    pub waits: bool,
    /// A retry that goes alone is due, or out there.
    pub single: Option<Single>,
}

/// Of all members.
#[derive(Debug, Default)]
pub(in crate::retry) struct Lanes {
    members: BTreeMap<MemberId, Lane>,
    slots: BTreeMap<Slot, MemberId>,
}

/// Of one member.
#[derive(Debug, Default)]
struct Lane {
    /// Hand-outs that are open, and since when.
    out: BTreeMap<LaneOffset, MonoMs>,
    /// When it was given one last.
    given_at: MonoMs,
    turn: LaneTurn,
    /// It has had the last turn: until then another record goes first.
    had_until: MonoMs,
}

/// Where records go one at a time: whose turn is the retries'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LaneTurn {
    /// Nothing is due, or it has just had its turn.
    #[default]
    None,
    /// Something is due, and another record has its turn.
    Waits,
    /// One of them is next, unless nobody asks until then.
    Next { until: MonoMs },
}

impl Lanes {
    fn given(&mut self, now: MonoMs, told: &LaneGiven, patience_ms: u64) {
        self.slots.insert(told.slot, told.member.clone());
        let lane = self.members.entry(told.member.clone()).or_default();
        for offset in &told.out {
            // What was given before is given again: it is out since the first time.
            if let Vacant(new) = lane.out.entry(*offset) {
                new.insert(now);
                lane.given_at = now;
                // Whoever waits for it to be done is next, and has to come for that.
                lane.had_until = now.plus(patience_ms.saturating_mul(2));
            }
        }
        lane.turn = if told.waits { LaneTurn::Waits } else { LaneTurn::None };
    }

    /// These are done, or back in the queue.
    fn end(&mut self, has_ended: impl Fn(LaneOffset, MonoMs) -> bool) {
        for lane in self.members.values_mut() {
            lane.out.retain(|offset, since| !has_ended(*offset, *since));
        }
    }

    /// The member is gone: whatever it had is back in the queue.
    pub(in crate::retry) fn gone(&mut self, member: &MemberId) {
        self.members.remove(member);
        self.slots.retain(|_, holder| holder != member);
    }

    pub(in crate::retry) fn is_out(&self, member: &MemberId) -> bool {
        self.members.get(member).is_some_and(|lane| !lane.out.is_empty())
    }

    /// Whether a member has this one.
    pub(in crate::retry) fn has(&self, member: &MemberId, offset: LaneOffset) -> bool {
        self.members.get(member).is_some_and(|lane| lane.out.contains_key(&offset))
    }

    /// When a member that has one was given it last.
    pub(in crate::retry) fn given_at(&self, member: &MemberId) -> Option<MonoMs> {
        let lane = self.members.get(member).filter(|lane| !lane.out.is_empty())?;
        Some(lane.given_at)
    }

    /// Another record has its turn.
    pub(in crate::retry) fn pass(&mut self, member: &MemberId) {
        if let Some(lane) = self.members.get_mut(member) {
            lane.had_until = MonoMs::default();
        }
    }

    /// Whether other records go before it, since it has had the last turn.
    fn has_had(&self, now: MonoMs, member: &MemberId) -> bool {
        self.members.get(member).is_some_and(|lane| lane.had_until > now)
    }

    /// Until when nothing but a retry is given, because one waits whose turn it is now.
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
    /// How many retries a slot's Fetch may bring now, `None`: as many as ever; and what is out
    /// there besides.
    pub fn lane_turn(&mut self, now: Now, slot: Slot) -> (Option<usize>, Company) {
        if !self.breaker.is_closed() {
            // Nothing is charged that is lost now.
            return (None, Company::Old);
        }
        let Some(member) = self.lanes.slots.get(&slot).cloned() else {
            return (None, Company::Some);
        };
        self.end_turn(now, &member);
        if self.has_turn(&member) {
            return (Some(0), Company::Some);
        }
        if self.suspects.is_quiet(now, &member) {
            return (Some(0), Company::Some);
        }
        let (room, company) = self.apart_room(now, &member);
        if room.is_some() || !self.is_single(&member) {
            return (room, company);
        }
        let is_free = self.drained_at(now, &member).is_none();
        let room = usize::from(is_free && !self.lanes.has_had(now.mono, &member));
        (Some(room), company)
    }

    /// A Fetch of the retry topic is answered so.
    pub(in crate::retry) fn on_lane_given(&mut self, now: Now, told: &LaneGiven) {
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
            self.push(Output::Wake);
        }
    }

    /// Hand-outs of a slot below an offset are acknowledged, or back in the queue.
    pub(in crate::retry) fn on_lane_below(&mut self, up_to: LaneOffset) {
        let is_below = |offset: LaneOffset, _| offset.slot == up_to.slot && offset < up_to;
        self.lanes.end(is_below);
        self.lane_moved();
    }

    /// A hand-out is said to have failed.
    pub(in crate::retry) fn on_lane_nacked(&mut self, lane: LaneOffset) {
        self.lanes.end(|offset, _| offset == lane);
        self.lane_moved();
    }

    /// What is open for the consume timeout is back in the queue.
    pub(in crate::retry) fn expire_lanes(&mut self, now: Now) {
        let timeout_ms = self.rules.consume_timeout_ms;
        self.lanes.end(|_, since| now.mono.since(since) >= timeout_ms);
    }

    /// Somebody may wait for nothing else to be out.
    fn lane_moved(&mut self) {
        if !self.troubled.is_empty() {
            self.push(Output::Wake);
        }
    }
}
