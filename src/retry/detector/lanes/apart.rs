//! Retries that go alone: before one leaves its member has nothing, and is given nothing else until
//! it is done, as far as patience lasts.
//!
//! ```text
//!   one is due ──▶ Wanted ── nothing is out ──▶ Out ── done, lost ──▶ gone
//!                    ╰─ patience is over: it      ╰─ patience is over: whatever else leaves joins
//!                       leaves as any other          it, and it is not alone any more
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{LaneOffset, MemberId, MonoMs, Now, TopicPartition};
use crate::retry::detector::window::doubled_ms;
use crate::retry::detector::{Asked, Detector, LaneGiven, Output};
use crate::retry::{Company, Single};

/// By member; hardly ever is there one.
pub(in crate::retry) type Aparts = BTreeMap<MemberId, Apart>;

/// Of one member.
#[derive(Debug)]
pub(in crate::retry) struct Apart {
    since: MonoMs,
    /// Patience lasts so long.
    until: MonoMs,
    stand: Stand,
}

#[derive(Debug)]
enum Stand {
    /// One is due. Partitions asked for since then: no Fetch of before brings any of them.
    Wanted(BTreeSet<TopicPartition>),
    /// One is out.
    Out(LaneOffset),
}

/// One of them, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApartView {
    /// At whom.
    pub member: MemberId,
    /// The hand-out; `None`: it is due, and waits for its member to be done with all it has.
    pub lane: Option<LaneOffset>,
    /// Since so many milliseconds.
    pub for_ms: u64,
    /// And so many more, at most, nothing else is given there.
    pub left_ms: u64,
}

impl Detector {
    /// Until when a member that asks for records is given none, because a retry goes alone there.
    pub(in crate::retry) fn waits_apart(
        &mut self,
        now: Now,
        member: &MemberId,
        asked: &[Asked],
    ) -> Option<MonoMs> {
        let apart = self.aparts.get_mut(member).filter(|apart| apart.until > now.mono)?;
        if let Stand::Wanted(seen) = &mut apart.stand {
            seen.extend(asked.iter().map(|ask| ask.partition.clone()));
        }
        Some(apart.until)
    }

    /// How many retries a member may be given beside one that goes alone, or as that one.
    pub(in crate::retry) fn apart_room(
        &self,
        now: Now,
        member: &MemberId,
    ) -> (Option<usize>, Company) {
        let Some(apart) = self.aparts.get(member) else { return (None, Company::Some) };
        let is_over = apart.until <= now.mono;
        match &apart.stand {
            Stand::Out(_) if is_over => (None, Company::Old),
            Stand::Wanted(seen)
                if self.is_bare(member) && (is_over || self.has_all(member, seen)) =>
            {
                (Some(1), Company::None)
            }
            Stand::Wanted(_) if is_over => (Some(1), Company::Old),
            Stand::Out(_) | Stand::Wanted(_) => (Some(0), Company::Some),
        }
    }

    /// Nothing is out at this member.
    fn is_bare(&self, member: &MemberId) -> bool {
        !self.has_records(member) && !self.lanes.is_out(member)
    }

    fn has_records(&self, member: &MemberId) -> bool {
        self.windows.values().any(|window| window.is_held_by(member) && window.is_open())
    }

    /// Every partition it holds is among these.
    fn has_all(&self, member: &MemberId, seen: &BTreeSet<TopicPartition>) -> bool {
        let mut held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        held.all(|(partition, _)| seen.contains(partition))
    }

    /// A Fetch of the retry topic says what goes alone there.
    pub(in crate::retry) fn note_apart(&mut self, now: Now, told: &LaneGiven, has_given: bool) {
        let member = &told.member;
        let known = self.aparts.get(member).map(|apart| &apart.stand);
        let Some(Single { lane, doublings }) = told.single else {
            if self.aparts.remove(member).is_some() {
                self.push(Output::Wake);
            }
            return;
        };
        let stand = match (lane, known) {
            (Some(lane), Some(Stand::Out(out))) if lane == *out => return,
            (Some(lane), _) if told.out == [lane] && !self.has_records(member) => Stand::Out(lane),
            (Some(lane), _) => {
                self.aparts.remove(member);
                self.push(Output::Joined(lane));
                return self.push(Output::Wake);
            }
            (None, Some(Stand::Wanted(_))) if !has_given => return,
            (None, _) => Stand::Wanted(BTreeSet::new()),
        };
        let until = now.mono.plus(doubled_ms(&self.rules, doublings));
        self.aparts.insert(member.clone(), Apart { since: now.mono, until, stand });
        self.push(Output::Wake);
    }

    /// Records leave for a member: a retry that was alone there is so no more.
    pub(in crate::retry) fn join_apart(&mut self, member: &MemberId) {
        let known = self.aparts.get(member);
        if known.is_some_and(|apart| matches!(apart.stand, Stand::Out(_))) {
            let apart = self.aparts.remove(member);
            self.joined(apart);
        }
    }

    /// Nothing is alone any more, whoever has it.
    pub(in crate::retry) fn join_all_apart(&mut self) {
        let aparts = std::mem::take(&mut self.aparts);
        self.joined(aparts.into_values());
    }

    fn joined(&mut self, aparts: impl IntoIterator<Item = Apart>) {
        for apart in aparts {
            if let Stand::Out(lane) = apart.stand {
                self.push(Output::Joined(lane));
            }
        }
    }

    /// What is out no more is forgotten; `is_news`: who waits for nothing else to be out looks
    /// again.
    pub(in crate::retry) fn end_aparts(&mut self, is_news: bool) {
        let (known, lanes) = (self.aparts.len(), &self.lanes);
        self.aparts.retain(|member, apart| match apart.stand {
            Stand::Wanted(_) => true,
            Stand::Out(lane) => lanes.has(member, lane),
        });
        if known > 0 && (is_news || self.aparts.len() < known) {
            self.push(Output::Wake);
        }
    }

    /// A retry goes alone somewhere: what is given changes with time.
    pub fn has_aparts(&self) -> bool {
        !self.aparts.is_empty()
    }

    /// Retries that go alone, for people.
    pub(in crate::retry) fn explain_aparts(&self, now: Now) -> Vec<ApartView> {
        let view = |(member, apart): (&MemberId, &Apart)| ApartView {
            member: member.clone(),
            lane: match apart.stand {
                Stand::Wanted(_) => None,
                Stand::Out(lane) => Some(lane),
            },
            for_ms: now.mono.since(apart.since),
            left_ms: apart.until.since(now.mono),
        };
        self.aparts.iter().map(view).collect()
    }
}
