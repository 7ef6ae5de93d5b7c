//! The answer to a Fetch while the group has suspects: everything, nothing, or one record.
//!
//! While records are delivered one at a time, a turn belongs to one partition of one member, and to
//! the Fetch that names it.

use std::ops::Range;

use crate::model::{MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::detector::{
    DeliveredRange, DeliveryRight, Detector, DetectorOutput, ExhaustedRecord, FetchDecision,
    FetchPosition, MemberFetch, OutstandingDelivery, Plan, WaitPhase, Window, limited,
};
use crate::retry::{Disposition, Evidence, SignalRule};

/// A Fetch older than this has waited.
const FRESH_MS: u64 = 50;

impl Detector {
    /// Plans the answer to a Fetch.
    pub(in crate::retry) fn plan(
        &mut self,
        now: Moment,
        by: &MemberFetch,
        asked: &[FetchPosition],
    ) -> Plan {
        let free_at = self.turn(now, by, asked);
        let is_single = self.has_turn(&by.member) || self.is_single(&by.member);
        let line = self.line(&by.member, asked);
        let is_late = now.mono.since(by.came) > FRESH_MS;
        let suspected_until = self.suspects.poll_timeout().map(|until| until.0);
        let mut untils: Vec<MonoMs> = free_at.into_iter().chain(suspected_until).collect();
        untils.extend(self.breaker.poll_timeout());
        let grants = self.limits(now, &by.member, asked);
        let mut test_places = self.test_places(asked).map(Vec::into_iter);
        let mut serve = Vec::with_capacity(asked.len());
        for (ask, grant) in asked.iter().zip(grants) {
            let test_place = test_places.as_mut().and_then(Iterator::next);
            let Some(window) = self.windows.get(&ask.partition) else {
                serve.push(limited(FetchDecision::Open, &grant, ask.offset));
                continue;
            };
            let is_retried = by.retries.takes(&ask.partition.topic);
            let settling = self.settling((&ask.partition, window), ask.offset, is_retried);
            if let Some(settling) = settling {
                serve.push(FetchDecision::Settle(Box::new(settling)));
                continue;
            }
            if self.rules.in_order && window.waits_before(ask.offset) {
                serve.push(FetchDecision::Nothing);
                continue;
            }
            untils.extend(window.held_until(ask.offset).map(|(_, until)| until));
            untils.extend(Some(window.waits_until).filter(|until| *until > now.mono));
            let first = window.first_given(ask.offset);
            let without: Vec<i64> = window.skipped.range(ask.offset..).copied().collect();
            let next = window.next_in_line(ask.offset);
            let allowed = if let Some(place) = test_place {
                match next {
                    Some((below, WaitPhase::Held { .. })) if first >= below => {
                        FetchDecision::Nothing
                    }
                    _ => FetchDecision::Turn { without, place },
                }
            } else if is_single {
                let has_waited = is_late && window.suspects.contains_key(&first);
                match line.get(&ask.partition) {
                    Some(0) if has_waited => FetchDecision::Again,
                    Some(place) if !has_waited => FetchDecision::Turn { without, place: *place },
                    _ => FetchDecision::Nothing,
                }
            } else {
                match next {
                    Some((below, _)) if first < below => FetchDecision::Below { without, below },
                    Some((_, WaitPhase::Held { .. })) => FetchDecision::Nothing,
                    _ if without.is_empty() => FetchDecision::Open,
                    _ => FetchDecision::Without(without),
                }
            };
            // A client that pauses a partition drops the answer of a Fetch that waited.
            let may_drop = is_late && self.rules.on_seek_back == SignalRule::Retry;
            serve.push(if may_drop && self.suspects.is_under_test(&ask.partition, first) {
                FetchDecision::Again
            } else {
                limited(allowed, &grant, first)
            });
        }
        if serve.contains(&FetchDecision::Again) {
            for other in
                serve.iter_mut().filter(|serve| matches!(serve, FetchDecision::Turn { .. }))
            {
                *other = FetchDecision::Nothing;
            }
        }
        Plan { serve, until: untils.into_iter().min() }
    }

    /// Ends a turn that is over, and begins the next one. Returns the time to look again.
    fn turn(&mut self, now: Moment, by: &MemberFetch, asked: &[FetchPosition]) -> Option<MonoMs> {
        let member = &by.member;
        self.end_turn(now, member);
        if let Some(turn) = self.members.get(member).and_then(|known| known.turn.as_ref()) {
            return Some(turn.until);
        }
        if !self.is_single(member) {
            return None;
        }
        if let Some(drained) = self.drained_at(now, member) {
            return Some(drained);
        }
        let partition = self.next_turn(member, asked)?;
        self.windows.get_mut(&partition)?.turned_at = now.mono;
        let until = now.mono.plus(self.rules.isolation_timeout_ms);
        let is_asked = FetchPosition::names(asked, &partition);
        let known = self.members.entry(member.clone()).or_default();
        known.turn = Some(DeliveryRight { partition, out: None, until });
        if !is_asked {
            self.push(DetectorOutput::Wake);
        }
        Some(until)
    }

    /// Ends a turn whose record is settled, or whose time is over.
    pub(in crate::retry) fn end_turn(&mut self, now: Moment, member: &MemberId) {
        let known = self.members.get(member).and_then(|known| known.turn.clone());
        let Some(turn) = known else { return };
        let Some(window) = self.windows.get_mut(&turn.partition) else { return };
        let is_over = match turn.out {
            _ if !window.is_held_by(member) => true,
            None => now.mono >= turn.until,
            Some(out) => {
                let is_settled = window.committed.is_some_and(|c| c > out.offset)
                    || window.is_settled(out.offset);
                let is_resting = !is_settled && now.mono >= turn.until;
                if is_resting
                    && let Some(suspect) = window.suspects.get_mut(&out.offset)
                    && let WaitPhase::Alone(_) = suspect.phase
                {
                    suspect.phase = WaitPhase::Resting;
                }
                is_settled || is_resting
            }
        };
        if is_over {
            if let Some(known) = self.members.get_mut(member) {
                known.turn = None;
            }
            self.changed(&turn.partition);
        }
    }

    /// When the member has nothing outstanding, timeouts included; `None`: now.
    pub(in crate::retry) fn drained_at(&self, now: Moment, member: &MemberId) -> Option<MonoMs> {
        let open =
            self.windows.values().filter(|window| window.is_held_by(member) && window.is_open());
        let patience_ms = self.rules.isolation_timeout_ms;
        let patient = open.map(|window| window.handed_at.plus(patience_ms));
        patient.max().filter(|at| *at > now.mono)
    }

    /// Whether the member's records are delivered one at a time.
    pub(in crate::retry) fn is_single(&self, member: &MemberId) -> bool {
        let troubled = self.troubled.iter().filter_map(|of| self.windows.get(of));
        troubled.into_iter().any(|window| window.is_held_by(member) && window.is_ready())
    }

    pub(in crate::retry) fn has_turn(&self, member: &MemberId) -> bool {
        self.members.get(member).is_some_and(|known| known.turn.is_some())
    }

    /// Notes the delivery of the record whose turn it is.
    pub(in crate::retry) fn on_turn_handed(
        &mut self,
        now: Moment,
        by: &MemberFetch,
        left: &DeliveredRange,
    ) {
        let patience_ms = self.rules.isolation_timeout_ms;
        let Some(window) = self.windows.get_mut(&left.partition) else { return };
        if left.hidden.past(left.from) >= left.end {
            // The delivery holds no record.
            return;
        }
        let Some(known) = self.members.get_mut(&by.member) else { return };
        let free = known.turn.as_mut().filter(|turn| turn.out.is_none());
        let Some((turn, offset)) = free.zip(left.turn) else { return };
        let out = OutstandingDelivery { offset };
        let until = now.mono.plus(patience_ms);
        *turn = DeliveryRight { partition: left.partition.clone(), out: Some(out), until };
        window.turned_at = now.mono;
        if let Some(suspect) = window.suspects.get_mut(&offset) {
            suspect.phase = WaitPhase::Alone(now.mono);
            suspect.due = None;
        }
    }

    /// No record in front of a suspect can be delivered, so the suspect is next.
    pub fn passed_over(
        &mut self,
        now: Moment,
        by: &MemberFetch,
        of: &TopicPartition,
        nothing: Range<i64>,
    ) {
        if !self.windows.get(of).is_some_and(|window| window.is_held_by(&by.member)) {
            return;
        }
        let has_withheld = self.empty(now, of, nothing.clone());
        if !has_withheld && let Some(window) = self.windows.get_mut(of) {
            window.passed_over = nothing;
        }
        self.push(DetectorOutput::Wake);
    }

    /// The current state of a settling; `None`: its record no longer has to be settled.
    pub fn present(&self, settling: &ExhaustedRecord) -> Option<ExhaustedRecord> {
        let (of, offset) = (&settling.partition, settling.offset);
        let window = self.windows.get(of)?;
        if settling.evidence == Evidence::ConsumeTimeout {
            return window.present_timeout(settling);
        }
        let present = self.settling((of, window), offset, settling.is_retried)?;
        (present.offset == offset).then_some(present)
    }

    /// The first record at or above an offset that must be settled or become an entry.
    pub(in crate::retry) fn settling(
        &self,
        (partition, window): (&TopicPartition, &Window),
        from: i64,
        is_retried: bool,
    ) -> Option<ExhaustedRecord> {
        let crash = self.crash_settling((partition, window), from, is_retried);
        let other = self.released_settling((partition, window), from);
        crash.into_iter().chain(other).min_by_key(|settling| settling.offset)
    }

    fn released_settling(
        &self,
        (partition, window): (&TopicPartition, &Window),
        from: i64,
    ) -> Option<ExhaustedRecord> {
        let mut suspects = window.suspects.range(from..);
        let (offset, suspect) = suspects.find(|(_, suspect)| self.is_let_go(suspect))?;
        Some(ExhaustedRecord {
            partition: partition.clone(),
            offset: *offset,
            // The nack was counted when it came; the settling adds that failure again.
            reconsume_times: suspect.reconsume_times.saturating_sub(1),
            disposition: Disposition::Rejected,
            evidence: Evidence::Nack,
            history: suspect.history.clone(),
            is_retried: true,
            window: window.record_after(*offset),
        })
    }
}

impl Window {
    /// The offset of the first held suspect at or above an offset, and the end of its hold.
    pub(in crate::retry) fn held_until(&self, offset: i64) -> Option<(i64, MonoMs)> {
        self.suspects.range(offset..).find_map(|(offset, suspect)| match suspect.phase {
            WaitPhase::Held { until } => Some((*offset, until)),
            _ => None,
        })
    }

    /// The first suspect at or above an offset that is held or ready.
    pub(in crate::retry) fn next_in_line(&self, from: i64) -> Option<(i64, &WaitPhase)> {
        let mut suspects = self.suspects.range(from..).map(|(at, suspect)| (*at, &suspect.phase));
        suspects.find(|(_, phase)| matches!(phase, WaitPhase::Held { .. } | WaitPhase::Ready))
    }

    /// Whether a ready suspect is the next record for the member. Records in front of it flow as
    /// usual.
    pub(in crate::retry) fn is_ready(&self) -> bool {
        let next = self.next_in_line(self.end).filter(|(_, phase)| **phase == WaitPhase::Ready);
        next.is_some_and(|(at, _)| at <= self.first_given(self.end))
    }
}
