//! Retries that are delivered by themselves. Before the delivery the member finishes all it has;
//! after it, the member gets nothing else until the outcome or the timeout.
//!
//! ```text
//!   one is due ──▶ Wanted ── member is idle ──▶ Out ── done, lost ──▶ forgotten
//!                    ╰─ timeout: delivered         ╰─ timeout: other records are delivered,
//!                       as any other                 and it is no longer isolated
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{LaneOffset, MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::detector::window::doubled_ms;
use crate::retry::detector::{Detector, DetectorOutput, FetchPosition, LaneGiven};
use crate::retry::{IsolatedRetry, OtherDeliveries};

/// By member; few members have one.
pub(in crate::retry) type Aparts = BTreeMap<MemberId, IsolatedDelivery>;

#[derive(Debug)]
pub(in crate::retry) struct IsolatedDelivery {
    since: MonoMs,
    /// End of the wait.
    until: MonoMs,
    stand: IsolationStage,
}

#[derive(Debug)]
enum IsolationStage {
    /// A retry is due. The set has the partitions fetched since then: an earlier Fetch delivers no
    /// record of them any more.
    Wanted(BTreeSet<TopicPartition>),
    /// The retry is delivered.
    Out(LaneOffset),
}

/// A retry delivered by itself, for the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApartView {
    pub member: MemberId,
    /// The delivery; `None`: the retry is due, and the member still has other records.
    pub lane: Option<LaneOffset>,
    /// Milliseconds since the stage began.
    pub for_ms: u64,
    /// Milliseconds for which the member gets nothing else, at most.
    pub left_ms: u64,
}

impl Detector {
    /// The time until which this Fetch delivers nothing, because a retry goes by itself.
    pub(in crate::retry) fn waits_apart(
        &mut self,
        now: Moment,
        member: &MemberId,
        asked: &[FetchPosition],
    ) -> Option<MonoMs> {
        let apart = self.aparts.get_mut(member).filter(|apart| apart.until > now.mono)?;
        if let IsolationStage::Wanted(seen) = &mut apart.stand {
            seen.extend(asked.iter().map(|ask| ask.partition.clone()));
        }
        Some(apart.until)
    }

    /// Retries that a member may get now (`None`: any number), and the records they go with.
    pub(in crate::retry) fn apart_room(
        &self,
        now: Moment,
        member: &MemberId,
    ) -> (Option<usize>, OtherDeliveries) {
        let Some(apart) = self.aparts.get(member) else { return (None, OtherDeliveries::Some) };
        let is_over = apart.until <= now.mono;
        match &apart.stand {
            IsolationStage::Out(_) if is_over => (None, OtherDeliveries::Old),
            IsolationStage::Wanted(seen)
                if self.is_bare(member) && (is_over || self.has_all(member, seen)) =>
            {
                (Some(1), OtherDeliveries::None)
            }
            IsolationStage::Wanted(_) if is_over => (Some(1), OtherDeliveries::Old),
            IsolationStage::Out(_) | IsolationStage::Wanted(_) => (Some(0), OtherDeliveries::Some),
        }
    }

    /// Whether the member has nothing outstanding.
    fn is_bare(&self, member: &MemberId) -> bool {
        !self.has_records(member) && !self.lanes.is_out(member)
    }

    fn has_records(&self, member: &MemberId) -> bool {
        self.windows.values().any(|window| window.is_held_by(member) && window.is_open())
    }

    /// Whether all partitions that the member owns are in `seen`.
    fn has_all(&self, member: &MemberId, seen: &BTreeSet<TopicPartition>) -> bool {
        let mut held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        held.all(|(partition, _)| seen.contains(partition))
    }

    /// Updates the member's retry after a Fetch of the retry topic.
    pub(in crate::retry) fn note_apart(&mut self, now: Moment, told: &LaneGiven, has_given: bool) {
        let member = &told.member;
        let known = self.aparts.get(member).map(|apart| &apart.stand);
        let Some(IsolatedRetry { lane, doublings }) = told.single else {
            if self.aparts.remove(member).is_some() {
                self.push(DetectorOutput::Wake);
            }
            return;
        };
        let stand = match (lane, known) {
            (Some(lane), Some(IsolationStage::Out(out))) if lane == *out => return,
            (Some(lane), _) if told.out == [lane] && !self.has_records(member) => {
                IsolationStage::Out(lane)
            }
            (Some(lane), _) => {
                self.aparts.remove(member);
                self.push(DetectorOutput::Joined(lane));
                return self.push(DetectorOutput::Wake);
            }
            (None, Some(IsolationStage::Wanted(_))) if !has_given => return,
            (None, _) => IsolationStage::Wanted(BTreeSet::new()),
        };
        let until = now.mono.plus(doubled_ms(&self.rules, doublings));
        self.aparts.insert(member.clone(), IsolatedDelivery { since: now.mono, until, stand });
        self.push(DetectorOutput::Wake);
    }

    /// Records leave for a member, so its retry is no longer by itself.
    pub(in crate::retry) fn join_apart(&mut self, member: &MemberId) {
        let known = self.aparts.get(member);
        if known.is_some_and(|apart| matches!(apart.stand, IsolationStage::Out(_))) {
            let apart = self.aparts.remove(member);
            self.joined(apart);
        }
    }

    /// Ends the isolation of every retry.
    pub(in crate::retry) fn join_all_apart(&mut self) {
        let aparts = std::mem::take(&mut self.aparts);
        self.joined(aparts.into_values());
    }

    fn joined(&mut self, aparts: impl IntoIterator<Item = IsolatedDelivery>) {
        for apart in aparts {
            if let IsolationStage::Out(lane) = apart.stand {
                self.push(DetectorOutput::Joined(lane));
            }
        }
    }

    /// Forgets retries that are no longer outstanding. `is_news`: pending Fetches that wait for an
    /// idle member look again.
    pub(in crate::retry) fn end_aparts(&mut self, is_news: bool) {
        let (known, lanes) = (self.aparts.len(), &self.lanes);
        self.aparts.retain(|member, apart| match apart.stand {
            IsolationStage::Wanted(_) => true,
            IsolationStage::Out(lane) => lanes.has(member, lane),
        });
        if known > 0 && (is_news || self.aparts.len() < known) {
            self.push(DetectorOutput::Wake);
        }
    }

    /// Whether a retry is delivered by itself: plans then change with time.
    pub fn has_aparts(&self) -> bool {
        !self.aparts.is_empty()
    }

    /// Retries that are delivered by themselves, for the admin API.
    pub(in crate::retry) fn explain_aparts(&self, now: Moment) -> Vec<ApartView> {
        let view = |(member, apart): (&MemberId, &IsolatedDelivery)| ApartView {
            member: member.clone(),
            lane: match apart.stand {
                IsolationStage::Wanted(_) => None,
                IsolationStage::Out(lane) => Some(lane),
            },
            for_ms: now.mono.since(apart.since),
            left_ms: apart.until.since(now.mono),
        };
        self.aparts.iter().map(view).collect()
    }
}
