//! A member's Fetch: the owner of each partition, and the records that are fetched again.

use crate::model::{Moment, TopicPartition};
use crate::retry::SignalRule;
use crate::retry::detector::{
    DeliveryRight, Detector, DetectorOutput, FetchPosition, Holder, MemberFetch, RefetchedRecords,
    SeekBacks, TOLD_AT, WaitPhase,
};

/// Partitions of a group that are tracked at most, about 1 KiB each. A Fetch may name any number of
/// partitions, nonexistent ones included. Partitions beyond the limit are delivered untracked.
const WINDOWS_MAX: usize = 10_000;

impl Detector {
    /// Handles one partition of a Fetch. Returns the outstanding records that the member fetches
    /// again, if the group's rules take a seek back for a failure.
    pub(in crate::retry) fn on_asked(
        &mut self,
        now: Moment,
        by: &MemberFetch,
        ask: &FetchPosition,
    ) -> Option<RefetchedRecords> {
        if !self.has_room_for(&ask.partition) {
            return None;
        }
        let epoch = self.epoch_of(&by.member);
        let window = self.windows.entry(ask.partition.clone()).or_default();
        window.furthest = window.furthest.max(ask.offset);
        let is_known = window.holder.as_ref().is_some_and(|holder| {
            holder.member == by.member && holder.conn == by.conn && holder.epoch == epoch
        });
        if !is_known {
            let holder = Holder { member: by.member.clone(), conn: by.conn, epoch };
            self.on_held_anew(now, ask, holder);
            return None;
        }
        if ask.offset <= window.end && window.hidden.past(ask.offset) < window.end {
            return self.on_went_back(now, by, ask);
        }
        // The member skips records by itself, or goes back over offsets without records.
        window.end = ask.offset;
        None
    }

    /// Whether a partition is tracked, or can be.
    pub(in crate::retry) fn has_room_for(&self, of: &TopicPartition) -> bool {
        self.windows.len() < WINDOWS_MAX || self.windows.contains_key(of)
    }

    /// Handles the first Fetch of a partition by this member, or its first one on a new connection,
    /// generation or epoch. Such a Fetch is never evidence of a failure.
    fn on_held_anew(&mut self, now: Moment, ask: &FetchPosition, holder: Holder) {
        self.own(now, &ask.partition, &holder.member);
        if let Some(known) = self.members.get_mut(&holder.member) {
            // The member fetches the record of its turn again, so the turn is decided anew.
            let is_it = |turn: &mut DeliveryRight| {
                let out = turn.out.map(|out| out.offset);
                turn.partition == ask.partition && out >= Some(ask.offset)
            };
            known.turn.take_if(is_it);
        }
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let same_member = window.is_held_by(&holder.member);
        if same_member {
            // The broker's last answer may be lost: the application still works on earlier records.
            window.from = window.from.min(ask.offset);
        } else {
            window.from = ask.offset;
        }
        window.end = ask.offset;
        window.holder = Some(holder);
        window.handed_at = now.mono;
        window.seek_backs = SeekBacks::default();
        window.passed_over = 0..0;
        if !same_member {
            (window.reached, window.uncounted, window.failed) = (0, 0, 0);
        }
        window.wait_on(now.mono);
        for (offset, suspect) in &mut window.suspects {
            match &mut suspect.phase {
                // The record was delivered after its nack, and the member goes on behind it.
                WaitPhase::Alone(_) | WaitPhase::Resting if *offset < ask.offset => {
                    suspect.phase = WaitPhase::Resting;
                }
                WaitPhase::Alone(_) | WaitPhase::Resting => suspect.phase = WaitPhase::Ready,
                WaitPhase::Held { .. } | WaitPhase::Ready => {}
            }
        }
    }

    /// Handles a member that fetches delivered records again on the same connection.
    fn on_went_back(
        &mut self,
        now: Moment,
        by: &MemberFetch,
        ask: &FetchPosition,
    ) -> Option<RefetchedRecords> {
        let window = self.windows.get_mut(&ask.partition)?;
        let offset = window.hidden.past(ask.offset);
        let lost = window.lost_from(ask.offset);
        let is_replay = window.committed.is_some_and(|committed| ask.offset < committed);
        let is_known = is_replay || window.is_settled(offset);
        window.end = ask.offset;
        window.from = window.from.min(ask.offset);
        window.reached = window.reached.min(ask.offset);
        window.wait_on(now.mono);
        self.note_seek_back(&ask.partition, offset);
        self.give_again(by, ask);
        if self.rules.on_seek_back == SignalRule::Observe || is_known {
            return None;
        }
        let lost = lost.filter(|_| !self.breaker.is_paused())?;
        let until = now.mono.plus(self.rules.interval_ms);
        if let Some(window) = self.windows.get_mut(&ask.partition) {
            window.waits_until = until;
        }
        self.waits_until = self.waits_until.max(until);
        Some((ask.partition.clone(), lost))
    }

    /// Marks the awaited records at or above the fetched offset as ready for delivery.
    fn give_again(&mut self, by: &MemberFetch, ask: &FetchPosition) {
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let mut again = false;
        for (_, suspect) in window.suspects.range_mut(ask.offset..) {
            if matches!(suspect.phase, WaitPhase::Alone(_) | WaitPhase::Resting) {
                (suspect.phase, again) = (WaitPhase::Ready, true);
            }
        }
        let known = self.members.get_mut(&by.member);
        let is_of_it = |turn: &mut DeliveryRight| turn.partition == ask.partition;
        again |= known.is_some_and(|known| known.turn.take_if(is_of_it).is_some());
        if again {
            self.changed(&ask.partition);
        }
    }

    /// Counts a return to a record that is neither committed nor settled.
    fn note_seek_back(&mut self, of: &TopicPartition, offset: i64) {
        let Some(window) = self.windows.get_mut(of) else { return };
        let is_replay = window.committed.is_some_and(|committed| offset < committed);
        if is_replay || window.is_settled(offset) {
            return;
        }
        let is_third = window.seek_backs.count(offset) == TOLD_AT;
        let is_told = is_third && !self.has_told_seek_back;
        self.has_told_seek_back |= is_told;
        self.push(DetectorOutput::SeekBack { partition: of.clone(), offset, is_told });
    }

    /// Marks awaited records of this member as ready once their interval is over.
    pub(in crate::retry) fn end_holds(&mut self, now: Moment, by: &MemberFetch) {
        for of in &self.troubled {
            let Some(window) = self.windows.get_mut(of) else { continue };
            if !window.is_held_by(&by.member) {
                continue;
            }
            for suspect in window.suspects.values_mut() {
                if matches!(suspect.phase, WaitPhase::Held { until } if until <= now.mono) {
                    suspect.phase = WaitPhase::Ready;
                    suspect.due = suspect.due.filter(|_| suspect.is_awaited);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MonoMs, WallMs};
    use crate::retry::detector::{FetchDecision, Rules};
    use crate::retry::{Policy, RetrySubscription};

    #[test]
    fn a_fetch_of_many_partitions_is_remembered_in_part() {
        let mut detector = Detector::new(Rules::from(&Policy::default()));
        let now = Moment { mono: MonoMs(0), wall: WallMs(0) };
        let by = MemberFetch {
            member: "one".into(),
            came: now.mono,
            conn: 1,
            max_wait_ms: 500,
            retries: RetrySubscription::default(),
        };
        let names = 0..i32::try_from(WINDOWS_MAX).unwrap() + 5;
        let of = |partition| TopicPartition { topic: "made-up".into(), partition };
        let asked: Vec<FetchPosition> =
            names.map(|partition| FetchPosition { partition: of(partition), offset: 0 }).collect();
        let plan = detector.asked(now, &by, &asked);
        assert!(plan.serve.iter().all(|serve| *serve == FetchDecision::Open));
        assert_eq!(plan.serve.len(), asked.len());
        assert_eq!(detector.windows.len(), WINDOWS_MAX);
    }
}
