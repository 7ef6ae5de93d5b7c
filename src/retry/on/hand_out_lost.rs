//! E7, E8: hand-outs of real partitions that went with their member, or with its right to commit.
//!
//! Nothing is charged by that alone; see [`judge_loss`].

use std::collections::BTreeSet;

use crate::model::{MemberId, MonoMs, Now, TopicName, TopicPartition};
use crate::retry::verdict::{Known, LastOut, Loss, LossVerdict, judge_loss};
use crate::retry::watch::{Asked, Fetching, Lost, OutRecord, Phase, Rules, Suspect, Watch, Window};
use crate::retry::{Disposition, Evidence};

/// A member that lived so long without a commit lives without: 15 min.
const LIFETIME_MS_MAX: u64 = 15 * 60 * 1000;

impl Watch {
    /// E7: whatever a member had open is lost, once what it had is handed out anew.
    pub(in crate::retry) fn on_member_gone(&mut self, now: Now, member: &MemberId, left: bool) {
        let known = self.members.get(member).filter(|_| !left);
        let until = known.map_or(now.mono, |known| known.lived_until(now.mono));
        self.on_prober_gone(now, member);
        self.note_lived(member, until, left);
        let held = self.lose_all(until, member);
        self.lanes.gone(member);
        self.aparts.remove(member);
        self.members.remove(member);
        self.gone.note(member);
        for partition in held {
            if let Some(window) = self.windows.get_mut(&partition) {
                window.holder = None;
                (window.reached, window.awaited) = (0, None);
            }
            self.changed(&partition);
        }
    }

    /// E7: the same of one that stays a member, and begins anew with what is uncommitted.
    pub(in crate::retry) fn on_gave_up(&mut self, now: Now, member: &MemberId) {
        self.on_prober_gone(now, member);
        let held = self.lose_all(now.mono, member);
        if let Some(known) = self.members.get_mut(member) {
            (known.turn, known.last) = (None, None);
        }
        for partition in held {
            self.changed(&partition);
        }
    }

    /// Whether no loss is counted: the group never commits the topic, as a state loader does.
    fn is_exempt(&self, topic: &TopicName) -> bool {
        self.exempt.contains(topic) && !self.has_committed(topic)
    }

    fn has_committed(&self, topic: &TopicName) -> bool {
        let mut of_topic = self.windows.iter().filter(|(of, _)| of.topic == *topic);
        of_topic.any(|(_, window)| window.has_committed())
    }

    /// A member ends that never committed a topic: by itself, or after a long life, it lived
    /// without.
    fn note_lived(&mut self, member: &MemberId, until: MonoMs, has_left: bool) {
        let Some(known) = self.members.get(member) else { return };
        if !has_left && until.since(known.since) < LIFETIME_MS_MAX {
            return;
        }
        let held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        let topics: BTreeSet<TopicName> = held.map(|(of, _)| of.topic.clone()).collect();
        for topic in topics {
            if !self.has_committed(&topic) && self.exempt.insert(topic.clone()) {
                self.forget_losses(&topic);
            }
        }
    }

    fn forget_losses(&mut self, topic: &TopicName) {
        let of_topic = self.windows.keys().filter(|of| of.topic == *topic);
        let partitions: Vec<TopicPartition> = of_topic.cloned().collect();
        for partition in partitions {
            if let Some(window) = self.windows.get_mut(&partition) {
                window.lost = None;
                window.clear();
                window.suspects.retain(|_, suspect| suspect.is_awaited);
            }
            self.changed(&partition);
        }
    }

    /// Whatever a member has open is lost; the partitions it holds. `until`: when it may have lived
    /// last.
    fn lose_all(&mut self, until: MonoMs, member: &MemberId) -> Vec<TopicPartition> {
        let held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        let held: Vec<TopicPartition> = held.map(|(partition, _)| partition.clone()).collect();
        let lost: Vec<Option<Lost>> =
            held.iter().map(|of| self.lost(until, of, Evidence::MemberLost)).collect();
        for (partition, lost) in held.iter().zip(lost) {
            if let Some(window) = self.windows.get_mut(partition) {
                window.lost = lost.or(window.lost);
            }
        }
        held
    }

    /// E8: what the commit would have covered is handed out again, to whoever comes next.
    pub(in crate::retry) fn on_commit_refused(
        &mut self,
        now: Now,
        member: &MemberId,
        of: &TopicPartition,
    ) {
        let lost = self.lost(now.mono, of, Evidence::CommitRefused);
        let Some(window) = self.windows.get_mut(of) else { return };
        if window.is_held_by(member) {
            window.lost = lost.or(window.lost);
            self.keep(of);
        }
    }

    fn lost(&self, until: MonoMs, of: &TopicPartition, evidence: Evidence) -> Option<Lost> {
        let is_counted = |window: &&Window| window.is_open() && !self.is_exempt(&of.topic);
        let window = self.windows.get(of).filter(is_counted)?;
        let out = self.out_in(of, window);
        let patience_ms = window.holder.as_ref().map_or(0, |h| self.patience_ms(&h.member));
        let outlived = until.since(window.handed_at) >= patience_ms;
        let (first, end) = (window.first_open(), window.data_end());
        Some(Lost { first, end, out, outlived, evidence })
    }

    /// A partition is held anew: if that begins at or below what was lost, the loss counts.
    pub(in crate::retry) fn count_loss(&mut self, now: Now, by: &Fetching, ask: &Asked) {
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let Some(lost) = window.lost.take() else { return };
        let first = window.committed.map_or(lost.first, |committed| committed.max(lost.first));
        // What is settled is nobody's loss.
        let Some(first) = window.unsettled(first..lost.end) else { return };
        if ask.offset > first {
            return;
        }
        let was_narrow = window.is_narrow(&self.rules);
        let verdict = judge_loss(Loss {
            was_narrow,
            out: lost.out.map(|out| LastOut {
                alone: out.alone,
                outlived: lost.outlived,
                known: window.known(&self.rules, out.offset),
            }),
        });
        // Whoever gets on between two losses is no victim of one record.
        if !was_narrow && first > window.lost_from {
            window.clear();
        }
        window.lost_from = first;
        if window.losses == 0 {
            window.suspects_end = lost.end;
        } else if !was_narrow {
            window.suspects_end = window.suspects_end.min(lost.end);
        }
        window.losses = window.losses.saturating_add(1);
        window.lost_at = now.mono;
        let disposition = match lost.evidence {
            Evidence::CommitRefused => Disposition::CommitFailed,
            _ => Disposition::Crashed,
        };
        let cause = (disposition, lost.evidence);
        if let Some(OutRecord { offset, .. }) = lost.out {
            let is_first = window.reconsume_times(offset) == 0;
            match verdict {
                LossVerdict::Nothing => {}
                LossVerdict::Wait => self.doubt(&ask.partition, None),
                LossVerdict::Doubt => self.doubt(&ask.partition, Some(offset)),
                LossVerdict::Suspect => self.suspect(&ask.partition, offset),
                LossVerdict::Charge => {
                    self.stay_patient(&ask.partition);
                    let times = if is_first { 2 } else { 1 };
                    self.charge(now, &ask.partition, offset, cause, times, by.has_lane);
                }
            }
        }
        self.changed(&ask.partition);
    }

    /// What was found with the patience of another window is waited for as long from now on.
    fn stay_patient(&mut self, of: &TopicPartition) {
        let doublings = self.most_doublings();
        if let Some(window) = self.windows.get_mut(of) {
            window.doublings = doublings;
        }
    }

    /// The next loss tells.
    fn suspect(&mut self, of: &TopicPartition, offset: i64) {
        if let Some(window) = self.unless_settled(of, Some(offset)) {
            window.last = Some(offset);
        }
    }

    fn most_doublings(&self) -> u32 {
        self.windows.values().map(|window| window.doublings).max().unwrap_or(0)
    }

    /// The last one handed out is the suspect, or nobody; more patience than anywhere will tell.
    fn doubt(&mut self, of: &TopicPartition, last: Option<i64>) {
        let doublings = self.most_doublings();
        if let Some(window) = self.unless_settled(of, last) {
            window.last = last;
            window.doublings = doublings.saturating_add(1);
        }
    }

    /// The window, unless it is about a record that is settled.
    fn unless_settled(&mut self, of: &TopicPartition, offset: Option<i64>) -> Option<&mut Window> {
        let window = self.windows.get_mut(of)?;
        let is_settled = offset.is_some_and(|offset| window.is_settled(offset));
        (!is_settled).then_some(window)
    }

    /// Charges a record: it is held and served alone again, or at its end here.
    pub(in crate::retry) fn charge(
        &mut self,
        now: Now,
        of: &TopicPartition,
        offset: i64,
        (disposition, evidence): (Disposition, Evidence),
        times: u32,
        has_lane: bool,
    ) {
        let (limit, interval_ms) = (self.rules.limit(), self.rules.interval_ms);
        if self.windows.get(of).is_none_or(|window| window.is_settled(offset)) {
            return;
        }
        if !self.counts(now, of, offset) {
            return;
        }
        let may_end = has_lane || self.may_end(now, (of, offset), limit, times);
        let Some(window) = self.windows.get_mut(of) else { return };
        let suspect = window.suspects.entry(offset).or_insert_with(Suspect::new);
        suspect.since.get_or_insert(now.mono);
        for charged in 1..=times {
            let is_last = charged == times;
            let is_over = suspect.reconsume_times >= limit;
            if (is_over && may_end) || (has_lane && is_last) {
                suspect.phase = Phase::Ending { disposition, evidence };
                return self.changed(of);
            }
            if is_over {
                // Its last failure is not charged: the group is held.
                break;
            }
            suspect.failed(now.wall, disposition);
        }
        // Going back has been held already.
        if disposition == Disposition::SeekBack {
            suspect.phase = Phase::Ready;
        } else {
            suspect.hold(now, interval_ms, None);
        }
        self.changed(of);
    }
}

impl Window {
    /// Failures of a record, charged so far.
    fn reconsume_times(&self, offset: i64) -> u32 {
        self.suspects.get(&offset).map_or(0, |suspect| suspect.reconsume_times)
    }

    /// What the losses before say of a record.
    fn known(&self, rules: &Rules, offset: i64) -> Known {
        match self.last == Some(offset) {
            true if self.has_grown_patient(rules) => Known::WithLessPatience,
            false if self.reconsume_times(offset) == 0 => Known::Nothing,
            _ => Known::Suspect,
        }
    }
}
