//! Evidence `lost-delivery`: a member ends or may no longer commit with records outstanding.

use crate::model::{MemberId, Moment, TopicPartition};
use crate::retry::detector::{Detector, FetchPosition};
use crate::retry::suspects::LostMember;

impl Detector {
    /// `lost-delivery`: the outstanding records of a member are lost with it.
    pub(in crate::retry) fn on_member_gone(&mut self, now: Moment, member: &MemberId, left: bool) {
        let known = self.members.get(member).filter(|_| !left);
        let until = known.map_or(now.mono, |known| known.lived_until(now.mono));
        let held = self.held_by(member);
        let end = if left { LostMember::Left } else { LostMember::Expired };
        self.lose(now, member, &held, (until, end));
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

    /// A member rejoins without being told to, as sarama does when its handler returns an error.
    /// Its outstanding records are lost if it fetches them again.
    pub(in crate::retry) fn on_gave_up(&mut self, member: &MemberId) {
        let held = self.held_by(member);
        if let Some(known) = self.members.get_mut(member) {
            known.turn = None;
        }
        for partition in held {
            if let Some(window) = self.windows.get_mut(&partition) {
                window.given_up = window.lost();
            }
            self.changed(&partition);
        }
    }

    /// Counts the records that a member gave up as lost, once it fetches from the first one on.
    pub(in crate::retry) fn lose_given_up(
        &mut self,
        now: Moment,
        member: &MemberId,
        asked: &[FetchPosition],
    ) {
        let mut lost = Vec::new();
        for ask in asked {
            let window = self.windows.get_mut(&ask.partition);
            let given_up = window.and_then(|window| window.given_up.take());
            if given_up.is_some_and(|given_up| ask.offset <= given_up.start) {
                lost.push(ask.partition.clone());
            }
        }
        self.lose_partitions(now, member, lost);
    }

    /// `lost-delivery`: the records that a refused commit would have covered, in one loss.
    pub(in crate::retry) fn on_commit_refused(
        &mut self,
        now: Moment,
        member: &MemberId,
        mut partitions: Vec<TopicPartition>,
    ) {
        let is_held = |of: &TopicPartition| {
            self.windows.get(of).is_some_and(|window| window.is_held_by(member))
        };
        partitions.retain(is_held);
        self.lose_partitions(now, member, partitions);
    }

    /// The outstanding records of a live member in these partitions are lost.
    fn lose_partitions(&mut self, now: Moment, member: &MemberId, lost: Vec<TopicPartition>) {
        if lost.is_empty() {
            return;
        }
        self.lose(now, member, &lost, (now.mono, LostMember::Lives));
        for partition in lost {
            self.begin_after_loss(now, member, &partition);
        }
    }

    pub(in crate::retry) fn held_by(&self, member: &MemberId) -> Vec<TopicPartition> {
        let held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        held.map(|(partition, _)| partition.clone()).collect()
    }

    /// After a loss, the records count as outstanding at a live member only when delivered again.
    fn begin_after_loss(&mut self, now: Moment, member: &MemberId, of: &TopicPartition) {
        if let Some(window) = self.windows.get_mut(of) {
            window.from = window.end;
            window.wait_on(now.mono);
        }
        self.own(now, of, member);
    }
}
