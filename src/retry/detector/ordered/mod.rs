//! E1, E2, E3 in a group whose partitions wait (`order.mode: partition`): what is said to have
//! failed becomes no entry. It stays where it is, nothing behind it is given, and after the
//! interval it is served again in its own place.
//!
//! **Invariant:** from the failure until it has left again no commit passes it
//! ([`Detector::awaited`]).

mod line;
mod turns;

use crate::model::{MemberId, MonoMs, Now, TopicPartition, WallMs};
use crate::retry::detector::{Detector, Handed, Output, Phase, Settling, Suspect, Window};
use crate::retry::{Disposition, Ladder};

/// How long a member has to come back before it is called again; it doubles with each call.
const CALL_MS: u64 = 5_000;
/// The longest it has.
const CALL_MS_MAX: u64 = 60_000;

/// Records one partition waits for at most: whatever is beyond leaves its place.
const AWAITED_MAX: usize = 1_000;

/// What becomes of a record that is said to have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InOrder {
    /// Its partition waits for it from now on.
    Waits,
    /// Its partition waits for it already: the same delivery, said twice.
    Known,
    /// It is settled here, at its end, or was never given out: it goes the way of any that failed.
    Leaves,
}

impl Detector {
    /// A record is said to have failed; `ladder` says when it is at its end. What that changes is
    /// kept by [`Detector::said`].
    pub fn failed_in_order(
        &mut self,
        now: Now,
        of: &TopicPartition,
        offset: i64,
        ladder: &Ladder,
    ) -> InOrder {
        if !self.has_room_for(of) {
            return InOrder::Leaves;
        }
        let window = self.windows.entry(of.clone()).or_default();
        if window.is_beyond(offset) {
            return InOrder::Leaves;
        }
        let known = window.suspects.get(&offset);
        if known.is_some_and(|known| known.is_awaited) {
            return InOrder::Known;
        }
        let is_over =
            known.map_or(ladder.max_reconsume_times == 0, |known| known.is_over(ladder, now.wall));
        let is_full = known.is_none() && window.suspects.len() >= AWAITED_MAX;
        let leaves = is_full || window.is_settled(offset);
        let (is_first, since) = (known.is_none(), known.and_then(|known| known.since));
        let is_paused = self.breaker.is_paused();
        let may_end = !is_paused && since.is_none_or(|since| self.may_end(now.mono, since));
        if leaves || (is_over && may_end) {
            return InOrder::Leaves;
        }
        if is_first {
            self.count_awaited(now);
        }
        let interval_ms = self.rules.interval_ms;
        let Some(window) = self.windows.get_mut(of) else { return InOrder::Leaves };
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
        InOrder::Waits
    }

    /// All was told that is said to have failed in a partition at once.
    pub fn said(&mut self, of: &TopicPartition) {
        self.changed(of);
    }

    /// The record its partition waits for: no commit may pass it.
    pub fn awaited(&self, of: &TopicPartition) -> Option<i64> {
        self.windows.get(of).filter(|_| self.rules.in_order)?.awaited()
    }

    /// Whether partitions of the group wait for failed records.
    pub fn keeps_order(&self) -> bool {
        self.rules.in_order
    }

    /// About how many bytes the window of a partition takes in the log.
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

    /// A partition begins there: what it waits for below is not there any more. Which that was.
    pub fn begins(&mut self, now: Now, of: &TopicPartition, start: i64) -> Vec<i64> {
        let mut gone = Vec::new();
        while let Some(offset) = self.awaited(of).filter(|offset| *offset < start) {
            self.settled(now, of, offset..=offset);
            gone.push(offset);
        }
        gone
    }

    /// The group has committed this, and not through here, where no commit passes what is waited
    /// for: who had the partition elsewhere, at another sidecar or at none, was given that and has
    /// gone on. To wait for it any longer would take the group back to it.
    pub(in crate::retry) fn on_passed_elsewhere(
        &mut self,
        now: Now,
        of: &TopicPartition,
        committed: i64,
    ) {
        let passed = self.begins(now, of, committed);
        if passed.is_empty() {
            return;
        }
        for offset in passed {
            self.push(Output::Passed { partition: of.clone(), offset });
        }
        self.on_committed(now, of, committed);
    }

    /// Its partition waited for it, and the group's partitions wait no more: it is to become an
    /// entry, as what is said to have failed does there.
    pub(in crate::retry) fn is_let_go(&self, suspect: &Suspect) -> bool {
        suspect.is_awaited && !self.rules.in_order
    }

    /// The first of those.
    pub(in crate::retry) fn first_let_go(&self, window: &Window) -> Option<i64> {
        if self.rules.in_order { None } else { window.awaited() }
    }

    /// Records that nothing waits for any more, and that nobody asks for: they become entries.
    pub fn settlings_let_go(&self) -> Vec<Settling> {
        let troubled = self.troubled.iter().filter_map(|of| Some((of, self.windows.get(of)?)));
        let settlings = troubled.filter_map(|(of, window)| {
            let offset = self.first_let_go(window)?;
            self.settling((of, window), offset, false)
        });
        settlings.chain(self.settlings_passed()).collect()
    }

    /// The group's partitions wait no more, by other rules or since a start.
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
                (suspect.is_awaited, suspect.due, suspect.phase) = (false, None, Phase::Ready);
            }
        }
        if !offsets.is_empty() {
            self.push(Output::LetGo { partition: of.clone(), offsets, has_queue });
            self.changed(of);
        }
    }

    /// Where a member begins in a partition that waits and of which nothing is committed.
    pub fn begins_at(&self, of: &TopicPartition) -> Option<i64> {
        let awaited = self.awaited(of)?;
        Some(awaited.min(self.windows.get(of)?.first_open()))
    }

    /// A member has gone on beyond what its partition waits for, and is told to join anew: how
    /// often by now. `None`: not now. While the group is held as well: nobody else asks for that,
    /// and it may be the only record whose probe can end the hold.
    pub fn calls_back(&mut self, now: Now, member: &MemberId) -> Option<u32> {
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

    /// Records leave; what its partition waits for may be among them, or was never there.
    pub(in crate::retry) fn on_awaited_handed(&mut self, now: Now, left: &Handed) {
        let Some(window) = self.windows.get_mut(&left.partition) else { return };
        let given = window.suspects.range_mut(left.from..left.end.max(left.from));
        for (_, suspect) in given.filter(|(_, suspect)| suspect.is_awaited) {
            suspect.is_awaited = false;
            suspect.due = None;
            suspect.phase = Phase::Alone(now.mono);
            window.called_back = (0, MonoMs::default());
        }
    }

    /// A member joins, by the same generation perhaps: what it asks for first is no evidence.
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

    /// It waits for a record that lies in front of this one.
    pub(in crate::retry) fn waits_before(&self, offset: i64) -> bool {
        self.awaited().is_some_and(|awaited| awaited < offset)
    }

    /// Its holder has gone beyond what could be given, and had the time to come back.
    fn is_missed(&self, now: MonoMs) -> bool {
        let Some(offset) = self.awaited() else { return false };
        let phase = self.suspects.get(&offset).map(|suspect| &suspect.phase);
        let is_held = matches!(phase, Some(Phase::Held { until }) if *until > now);
        let (_, until) = self.called_back;
        self.end > offset && !is_held && until <= now
    }
}

impl Suspect {
    /// Its last failure was said.
    pub(in crate::retry) fn was_said(&self) -> bool {
        self.history.last().is_some_and(|(_, why)| *why == Disposition::Rejected)
    }

    /// The next failure is its last.
    fn is_over(&self, ladder: &Ladder, now: WallMs) -> bool {
        let first_failed = self.history.first().map(|(at, _)| *at);
        self.reconsume_times >= ladder.max_reconsume_times || ladder.is_over(first_failed, now)
    }
}
