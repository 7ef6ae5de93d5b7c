//! Ends of a script's processes, memberships and sidecars (evidence `lost-delivery`). Each delivery
//! is lost once, however many signs of its loss the detector gets.

use reprise::model::{MemberId, TopicPartition};
use reprise::retry::detector::GroupObservation;

use crate::inference::RULES;
use crate::inference::app::{App, Commits, World, of};
use crate::inference::retries::retry_partition;
use crate::inference::world::Script;

impl World {
    fn refuse(&mut self, member: &MemberId, partitions: Vec<TopicPartition>) {
        let (now, member) = (self.now(), member.clone());
        self.detector.handle(now, GroupObservation::CommitRefused { member, partitions });
        self.drain();
    }

    /// The member rejoins in a new generation and goes on at the committed offset. `gave_up`: no
    /// answer told it to rejoin.
    fn rejoin(&mut self, app: &mut App, gave_up: bool) {
        let (now, member) = (self.now(), app.by.member.clone());
        if gave_up {
            self.detector.handle(now, GroupObservation::GaveUp { member: member.clone() });
        }
        self.joins += 1;
        self.detector
            .handle(now, GroupObservation::Assigned { member, epoch: 1_000_000 + self.joins });
        self.drain();
        let partitions: Vec<TopicPartition> = app.positions.keys().cloned().collect();
        app.begins(partitions.into_iter().map(|of| (of.clone(), self.goes_on(&of))));
    }
}

/// librdkafka: a Fetch waits at the sidecar when its process is killed.
#[test]
fn a_fetch_planned_again_is_no_sign_of_life() {
    let mut world = World::new(RULES, 1, 0);
    let mut app = world.start(Commits::Never);
    let plan = |world: &mut World, app: &App| {
        world.fetch(app, None);
        world.detector.disconnected().contains(&app.by.member)
    };
    assert!(!plan(&mut world, &app));
    world.pass(100);
    let (now, member) = (world.now(), app.by.member.clone());
    world.detector.handle(now, GroupObservation::Disconnected { member });
    world.pass(100);
    assert!(plan(&mut world, &app), "it is the Fetch of before");
    app.by.came = world.now().mono;
    assert!(!plan(&mut world, &app), "a new one has arrived");
}

impl Script {
    /// Kills or stops the sidecar and starts it again; the wall clock jumps.
    pub(crate) fn restart(&mut self) {
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

    /// Ends a process, whatever is outstanding at it, and starts another one.
    pub(crate) fn replace(&mut self) {
        let n = self.rng.usize(..self.apps.len());
        self.replaced(n);
    }

    pub(crate) fn replaced(&mut self, n: usize) {
        self.loses(n);
        self.dies(n);
    }

    /// Notes the outstanding records of a process as lost; none of them failed.
    pub(crate) fn loses(&mut self, n: usize) {
        let mut lost = Vec::new();
        let retry = self.apps[n].0.positions.keys().find(|of| **of == retry_partition()).cloned();
        for partition in self.partitions(n).into_iter().chain(retry) {
            let in_hand = self.world.detector.in_hand(&partition);
            let end = in_hand.end.max(in_hand.start);
            let (from, to) = ((partition.clone(), in_hand.start), (partition, end));
            if from.0 == retry_partition() {
                lost.extend((from.1..end).map(|offset| self.world.produced(&from.0, offset)));
            } else {
                lost.extend(self.handler.truths.range(from..to).map(|(place, _)| place.clone()));
            }
        }
        // A record with an entry is cut, so no loss concerns it.
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

    /// A batch takes too long: the commit is refused for good, and the member rejoins. At random
    /// the process dies after the refusal, or goes on, or the member rejoins by itself instead.
    pub(crate) fn refuse(&mut self) {
        let n = self.rng.usize(..self.apps.len());
        let (way, member) = (self.rng.u8(..4), self.apps[n].0.by.member.clone());
        self.loses(n);
        if way > 0 {
            self.world.refuse(&member, self.partitions(n));
        }
        self.ran.refused += 1;
        match way {
            3 => {}
            2 => self.dies(n),
            _ => self.world.rejoin(&mut self.apps[n].0, way == 0),
        }
    }
}
