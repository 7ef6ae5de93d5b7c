//! How a process of a script ends, or its membership, or the sidecar: E7 and E8. Whatever of that
//! is seen of one hand-out, it is lost once.

use reprise::model::{MemberId, TopicPartition};
use reprise::retry::detector::Seen;

use crate::app::{App, World, of};
use crate::world::Script;

impl World {
    fn refuse(&mut self, member: &MemberId, of: &TopicPartition) {
        let (now, member, partition) = (self.now(), member.clone(), of.clone());
        self.detector.handle(now, Seen::CommitRefused { member, partition });
        self.drain();
    }

    /// It is a member still, of another generation, and goes on where the group is; `gave_up`:
    /// nobody asked it to join anew.
    fn rejoin(&mut self, app: &mut App, gave_up: bool) {
        let (now, member) = (self.now(), app.by.member.clone());
        if gave_up {
            self.detector.handle(now, Seen::GaveUp { member: member.clone() });
        }
        self.joins += 1;
        self.detector.handle(now, Seen::Assigned { member, epoch: 1_000_000 + self.joins });
        self.drain();
        let partitions: Vec<TopicPartition> = app.positions.keys().cloned().collect();
        app.begins(partitions.into_iter().map(|of| (of.clone(), self.goes_on(&of))));
    }
}

impl Script {
    /// The sidecar ends, well or not, and starts; the wall clock is another one by then.
    pub(crate) fn restart(&mut self) {
        for partition in self.world.ends.keys() {
            let in_hand = self.world.detector.in_hand(partition);
            self.in_hand.extend(in_hand.map(|offset| (partition.clone(), offset)));
        }
        self.world.ahead_ms += match self.rng.u8(..4) {
            0 => -self.rng.i64(0..4_000_000),
            1 => self.rng.i64(0..4_000_000),
            _ => 0,
        };
        if self.rng.bool() {
            self.world.stop();
        } else {
            self.world.restart();
        }
        for n in 0..self.apps.len() {
            if self.rng.u8(..3) == 0 {
                self.replaced(n);
            } else {
                self.world.reconnect(&mut self.apps[n].0);
            }
        }
    }

    /// A process ends, whatever it has in hand, and another one takes its place.
    pub(crate) fn replace(&mut self) {
        let n = self.rng.usize(..self.apps.len());
        self.replaced(n);
    }

    pub(crate) fn replaced(&mut self, n: usize) {
        self.loses(n);
        self.dies(n);
    }

    /// What it has in hand is lost, and nobody has failed.
    pub(crate) fn loses(&mut self, n: usize) {
        let mut lost = Vec::new();
        for partition in self.partitions(n) {
            let in_hand = self.world.detector.in_hand(&partition);
            let end = in_hand.end.max(in_hand.start);
            let (from, to) = ((partition.clone(), in_hand.start), (partition, end));
            lost.extend(self.handler.truths.range(from..to).map(|(place, _)| place.clone()));
        }
        // What has an entry is cut, or nobody's loss.
        let queued = self.world.queued();
        let is_alone = lost.iter().filter(|place| !queued.contains(*place)).count() == 1;
        for place in &lost {
            let truth = self.handler.truths.get_mut(place).unwrap();
            truth.lost += 1;
            truth.lost_alone += u32::from(is_alone);
            let was_last = self.apps[n].0.last.as_ref() == Some(place);
            truth.lost_last += u32::from(was_last || is_alone);
        }
    }

    pub(crate) fn partitions(&self, n: usize) -> Vec<TopicPartition> {
        self.apps[n].1.iter().map(|index| of(*index)).collect()
    }

    pub(crate) fn dies(&mut self, n: usize) {
        let own = self.apps[n].1.clone();
        self.world.lose(&self.apps[n].0);
        self.world.pass(self.rng.u64(1..3_000));
        self.apps[n].0 = self.start(&own);
    }

    /// Its batch took too long: its commit is refused for good, and it joins anew; or it was missed
    /// besides; or it gives up what it holds by itself; or its next commit is heard after all.
    pub(crate) fn refuse(&mut self) {
        let n = self.rng.usize(..self.apps.len());
        let (way, member) = (self.rng.u8(..4), self.apps[n].0.by.member.clone());
        self.loses(n);
        if way > 0 {
            for partition in self.partitions(n) {
                self.world.refuse(&member, &partition);
            }
        }
        self.ran.refused += 1;
        match way {
            3 => {}
            2 => self.dies(n),
            _ => self.world.rejoin(&mut self.apps[n].0, way == 0),
        }
    }
}
