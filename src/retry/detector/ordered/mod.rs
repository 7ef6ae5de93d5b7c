//! Nacks (`commit-nack`, `produced-nack`, `admin-nack`) in a group that keeps order
//! (`order.mode: partition`). A nacked record becomes no entry: it stays in its partition, and
//! nothing behind it is delivered. After `order.interval` the partition delivers it again.
//!
//! **Invariant:** from the nack until the next delivery no commit passes the record
//! ([`Detector::awaited`]).

mod line;
mod turns;

use crate::model::{MemberId, Moment, MonoMs, TopicPartition, WallMs};
use crate::retry::detector::{
    DeliveredRange, Detector, DetectorOutput, ExhaustedRecord, Suspect, WaitPhase, Window,
};
use crate::retry::{Disposition, Ladder};

/// Time for a member to go back before it is told to rejoin again; doubled with each call.
const CALL_MS: u64 = 5_000;
/// The longest such time.
const CALL_MS_MAX: u64 = 60_000;

/// Records that one partition waits for at most; further nacked ones become entries.
const AWAITED_MAX: usize = 1_000;

/// The effect of a nack in a group that keeps order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderEffect {
    /// The partition waits for the record from now on.
    Waits,
    /// The partition waits for the record already: the delivery was nacked twice.
    Known,
    /// The record is settled, used up or was never delivered: the nack is handled as without order.
    Leaves,
}

impl Detector {
    /// Handles a nack; `ladder` tells whether it is the last one. The caller persists the change by
    /// [`Detector::said`].
    pub fn failed_in_order(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        offset: i64,
        ladder: &Ladder,
    ) -> OrderEffect {
        if !self.has_room_for(of) {
            return OrderEffect::Leaves;
        }
        let window = self.windows.entry(of.clone()).or_default();
        if window.is_beyond(offset) {
            return OrderEffect::Leaves;
        }
        let known = window.suspects.get(&offset);
        if known.is_some_and(|known| known.is_awaited) {
            return OrderEffect::Known;
        }
        let is_over =
            known.map_or(ladder.max_reconsume_times == 0, |known| known.is_over(ladder, now.wall));
        let is_full = known.is_none() && window.suspects.len() >= AWAITED_MAX;
        let leaves = is_full || window.is_settled(offset);
        let (is_first, since) = (known.is_none(), known.and_then(|known| known.since));
        let is_paused = self.breaker.is_paused();
        let may_end = !is_paused && since.is_none_or(|since| self.may_end(now.mono, since));
        if leaves || (is_over && may_end) {
            return OrderEffect::Leaves;
        }
        if is_first {
            self.count_awaited(now);
        }
        let interval_ms = self.rules.interval_ms;
        let Some(window) = self.windows.get_mut(of) else { return OrderEffect::Leaves };
        window.called_back = (0, now.mono.plus(interval_ms));
        let holder = window.holder.as_ref().map(|holder| holder.member.clone());
        let suspect = window.suspects.entry(offset).or_insert_with(Suspect::new);
        suspect.since.get_or_insert(now.mono);
        if !is_paused && !is_over {
            suspect.failed(now.wall, Disposition::Rejected);
        } else {
            suspect.note(now.wall, Disposition::Rejected);
        }
        suspect.is_awaited = true;
        suspect.hold(now, interval_ms);
        if let Some(known) = holder.and_then(|member| self.members.get_mut(&member)) {
            known.turn.take_if(|turn| turn.partition == *of);
        }
        OrderEffect::Waits
    }

    /// Journals a partition after all nacks of one request were handled.
    pub fn said(&mut self, of: &TopicPartition) {
        self.changed(of);
    }

    /// The record that the partition waits for: no commit may pass it.
    pub fn awaited(&self, of: &TopicPartition) -> Option<i64> {
        self.windows.get(of).filter(|_| self.rules.in_order)?.awaited()
    }

    /// Whether the group keeps order.
    pub fn keeps_order(&self) -> bool {
        self.rules.in_order
    }

    /// Approximate size of a partition's window in the journal, in bytes.
    pub fn window_bytes(&self, of: &TopicPartition) -> u64 {
        const SUSPECT: usize = 32;
        const FAILURE: usize = 12;
        const OFFSET: usize = 10;
        let Some(window) = self.windows.get(of) else { return 0 };
        let suspects = window.suspects.values();
        let suspects = suspects.map(|suspect| SUSPECT + FAILURE * suspect.history.len());
        let bytes = suspects.sum::<usize>() + OFFSET * window.skipped.len();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether any partition may wait.
    pub fn may_wait(&self) -> bool {
        self.rules.in_order && !self.troubled.is_empty()
    }

    /// Handles a new log start offset. Returns the awaited records below it, which no longer exist.
    pub fn begins(&mut self, now: Moment, of: &TopicPartition, start: i64) -> Vec<i64> {
        let mut gone = Vec::new();
        while let Some(offset) = self.awaited(of).filter(|offset| *offset < start) {
            self.settled(now, of, offset..=offset);
            gone.push(offset);
        }
        gone
    }

    /// Handles a committed offset that did not pass through this sidecar, where no commit passes an
    /// awaited record. A member elsewhere, at another sidecar or at none, got that record and went
    /// on. Waiting any longer would take the group back.
    pub(in crate::retry) fn on_passed_elsewhere(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        committed: i64,
    ) {
        let passed = self.begins(now, of, committed);
        if passed.is_empty() {
            return;
        }
        for offset in passed {
            self.push(DetectorOutput::Passed { partition: of.clone(), offset });
        }
        self.on_committed(now, of, committed);
    }

    /// Whether the record must become an entry because the group no longer keeps order.
    pub(in crate::retry) fn is_let_go(&self, suspect: &Suspect) -> bool {
        suspect.is_awaited && !self.rules.in_order
    }

    /// The first record of the window that must become an entry so.
    pub(in crate::retry) fn first_let_go(&self, window: &Window) -> Option<i64> {
        if self.rules.in_order { None } else { window.awaited() }
    }

    /// Records that must become entries without a Fetch, because their partition no longer waits.
    pub fn settlings_let_go(&self) -> Vec<ExhaustedRecord> {
        let troubled = self.troubled.iter().filter_map(|of| Some((of, self.windows.get(of)?)));
        let settlings = troubled.filter_map(|(of, window)| {
            let offset = self.first_let_go(window)?;
            self.settling((of, window), offset, false)
        });
        settlings.chain(self.settlings_passed()).collect()
    }

    /// Stops the waits of a partition: the group no longer keeps order, by new rules or since the
    /// start.
    pub(in crate::retry) fn let_go(&mut self, of: &TopicPartition) {
        let has_queue = self.rules.has_queue;
        let Some(window) = self.windows.get_mut(of) else { return };
        let mut offsets = Vec::new();
        for (offset, suspect) in &mut window.suspects {
            if !suspect.is_awaited {
                continue;
            }
            offsets.push(*offset);
            if !has_queue {
                (suspect.is_awaited, suspect.due, suspect.phase) = (false, None, WaitPhase::Ready);
            }
        }
        if !offsets.is_empty() {
            self.push(DetectorOutput::LetGo { partition: of.clone(), offsets, has_queue });
            self.changed(of);
        }
    }

    /// The fetch offset for a partition that waits and has no committed offset.
    pub fn begins_at(&self, of: &TopicPartition) -> Option<i64> {
        let awaited = self.awaited(of)?;
        Some(awaited.min(self.windows.get(of)?.first_open()))
    }

    /// Tells a member to rejoin if it has gone on behind an awaited record. Returns the number of
    /// calls so far; `None`: not now. A paused group is called as well: nobody else fetches that
    /// record, and it may be the only one whose test can end the pause.
    pub fn calls_back(&mut self, now: Moment, member: &MemberId) -> Option<u32> {
        if !self.rules.in_order || !self.rules.calls_back {
            return None;
        }
        let held = self.windows.values_mut().filter(|window| window.is_held_by(member));
        let mut most = None;
        for window in held.filter(|window| window.is_missed(now.mono)) {
            let (times, _) = window.called_back;
            let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
            let patience_ms = CALL_MS.saturating_mul(factor).min(CALL_MS_MAX);
            window.called_back = (times.saturating_add(1), now.mono.plus(patience_ms));
            most = most.max(Some(window.called_back.0));
        }
        most
    }

    /// Records leave. The awaited record is among them, or the log no longer has it.
    pub(in crate::retry) fn on_awaited_handed(&mut self, now: Moment, left: &DeliveredRange) {
        let Some(window) = self.windows.get_mut(&left.partition) else { return };
        let given = window.suspects.range_mut(left.from..left.end.max(left.from));
        for (_, suspect) in given.filter(|(_, suspect)| suspect.is_awaited) {
            suspect.is_awaited = false;
            suspect.due = None;
            suspect.phase = WaitPhase::Alone(now.mono);
            window.called_back = (0, MonoMs::default());
        }
    }

    /// The member joins, perhaps in the same generation: its next Fetch is never evidence of a
    /// failure.
    pub(in crate::retry) fn begins_anew(&mut self, member: &MemberId) {
        for window in self.windows.values_mut().filter(|window| window.is_held_by(member)) {
            if let Some(holder) = &mut window.holder {
                holder.epoch = i32::MIN;
            }
        }
    }
}

impl Window {
    fn awaited(&self) -> Option<i64> {
        let mut awaited = self.suspects.iter().filter(|(_, suspect)| suspect.is_awaited);
        awaited.next().map(|(offset, _)| *offset)
    }

    /// Whether the window waits for a record in front of this one.
    pub(in crate::retry) fn waits_before(&self, offset: i64) -> bool {
        self.awaited().is_some_and(|awaited| awaited < offset)
    }

    /// Whether the owner fetches behind the awaited record and had the time to come back.
    fn is_missed(&self, now: MonoMs) -> bool {
        let Some(offset) = self.awaited() else { return false };
        let phase = self.suspects.get(&offset).map(|suspect| &suspect.phase);
        let is_held = matches!(phase, Some(WaitPhase::Held { until }) if *until > now);
        let (_, until) = self.called_back;
        self.end > offset && !is_held && until <= now
    }
}

impl Suspect {
    /// Whether the next failure is the last.
    fn is_over(&self, ladder: &Ladder, now: WallMs) -> bool {
        let first_failed = self.history.first().map(|(at, _)| *at);
        self.reconsume_times >= ladder.max_reconsume_times || ladder.is_over(first_failed, now)
    }
}
