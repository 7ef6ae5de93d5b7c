//! Groups that have committed, groups whose members were lost, and starts of the sidecar.

use crate::inference::app::{Commits, Did, World, of};
use reprise::retry::detector::{Detector, Rules};

impl World {
    /// Ten records of a group that lost `crash_limit` members, so that its records are tested.
    pub(crate) fn narrow(rules: Rules) -> Self {
        let mut world = Self::new(rules, 1, 10);
        world.commit(&of(0), 0);
        for _ in 0..rules.suspects.crash_limit {
            let mut app = world.start(Commits::Never);
            assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
            world.lose(&app);
        }
        world
    }

    /// A group with a committed offset in each partition.
    pub(crate) fn committed(rules: Rules, partitions: i32, records: i64) -> Self {
        let mut world = Self::new(rules, partitions, records);
        for partition in 0..partitions {
            world.commit(&of(partition), 0);
        }
        world
    }

    /// Kills the sidecar, and starts it from its journal.
    pub(crate) fn restart(&mut self) {
        self.detector = Detector::new(self.rules);
        let now = self.now();
        for (partition, window) in self.kept.clone() {
            self.detector.restore(now, partition, window);
        }
        if let Some(record) = self.kept_suspects.clone() {
            self.detector.restore_suspects(now, record);
        }
        self.restart_retries();
    }

    /// Stops the sidecar, and starts it from its journal.
    pub(crate) fn stop(&mut self) {
        self.detector.close();
        self.drain();
        self.restart();
    }
}
