//! Groups that have committed, groups whose members were lost, and starts of the sidecar.

use crate::app::{Commits, Did, World, of};
use reprise::retry::detector::{Detector, Rules};

impl World {
    /// Ten records of a group whose members were lost so often that they go one by one.
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

    /// A group that has committed in each partition.
    pub(crate) fn committed(rules: Rules, partitions: i32, records: i64) -> Self {
        let mut world = Self::new(rules, partitions, records);
        for partition in 0..partitions {
            world.commit(&of(partition), 0);
        }
        world
    }

    /// The sidecar is killed and starts anew with what it has journalled.
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

    /// The sidecar is stopped as it should be, and starts anew.
    pub(crate) fn stop(&mut self) {
        self.detector.close();
        self.drain();
        self.restart();
    }
}
