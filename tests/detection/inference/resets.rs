//! Offset resets: an operator sets the group's offsets while no member is active, or a member seeks
//! below its commits. Records delivered again begin anew, and none counts as failed.

use reprise::model::TopicPartition;
use reprise::retry::detector::GroupObservation;

use crate::inference::app::{World, of};
use crate::inference::law::Law;
use crate::inference::world::Script;

impl World {
    /// A commit by a client that is no member. Returns the group's offset afterwards.
    fn reset(&mut self, of: &TopicPartition, offset: i64) -> i64 {
        let offset = self.held_back(of, offset);
        let (now, partition) = (self.now(), of.clone());
        self.committed.insert(partition.clone(), offset);
        self.passes(of, offset);
        self.detector.handle(now, GroupObservation::Reset { partition, offset });
        self.drain();
        offset
    }
}

impl Law {
    /// Checks a reset: no entry from the offset on is passed, unless it is superseded.
    fn is_reset(&self, of: &TopicPartition, offset: i64) {
        let ended = self.origins_from(of, offset).filter(|entry| entry.passed.is_some());
        let mut known = ended.filter(|entry| !entry.superseded);
        assert_eq!(known.next(), None, "{of} was reset to {offset}");
    }
}

impl Script {
    /// Stops all processes, sets the offset of one partition, and starts all processes.
    pub(crate) fn reset(&mut self) {
        for n in 0..self.apps.len() {
            self.loses(n);
            self.world.lose(&self.apps[n].0);
        }
        let index = self.rng.usize(..self.world.ends.len());
        let partition = of(i32::try_from(index).unwrap());
        let (end, before) = (self.world.ends[&partition], self.world.committed[&partition]);
        let wanted = if self.rng.u8(..4) == 0 { end } else { before };
        let offset = self.rng.i64(0..=wanted);
        let offset = self.world.reset(&partition, offset);
        self.ran.resets += 1;
        self.world.retries.as_ref().unwrap().law.is_reset(&partition, offset);
        let skipped = (partition.clone(), before)..(partition.clone(), offset.max(before));
        for (_, truth) in self.handler.truths.range_mut(skipped) {
            truth.is_skipped = true;
        }
        self.begins_anew(&partition, offset);
        for n in 0..self.apps.len() {
            let own = self.apps[n].1.clone();
            self.apps[n].0 = self.start(&own);
        }
    }

    /// Marks records from the offset on as delivered again. A record that ended by a failure is not
    /// done.
    fn begins_anew(&mut self, of: &TopicPartition, offset: i64) {
        let law = &mut self.world.retries.as_mut().unwrap().law;
        let from = (of.clone(), offset);
        for (place, truth) in self.handler.truths.range_mut(from..(of.clone(), i64::MAX)) {
            truth.is_replayed = true;
            if law.of(place).is_none() {
                law.dead.remove(place);
                (truth.done, truth.is_skipped) = (0, false);
            }
        }
    }

    /// A member seeks to an offset below its commit.
    pub(crate) fn seek(&mut self) {
        let n = self.rng.usize(..self.apps.len());
        let partitions = self.partitions(n);
        let partition = partitions[self.rng.usize(..partitions.len())].clone();
        let committed = self.world.committed[&partition];
        let to = self.rng.i64(committed.saturating_sub(20).max(0)..=committed);
        if to == committed {
            return;
        }
        self.ran.seeks += 1;
        let from = (partition.clone(), to);
        for (_, truth) in self.handler.truths.range_mut(from..(partition.clone(), i64::MAX)) {
            truth.is_replayed = true;
        }
        self.apps[n].0.seeks(&partition, to);
    }
}
