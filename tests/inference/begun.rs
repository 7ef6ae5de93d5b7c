//! Groups that have committed, and groups whose members were lost.

use crate::app::{Commits, Did, World, of};
use reprise::retry::watch::Rules;

impl World {
    /// Ten records of a group whose members were lost so often that they go one by one.
    pub(crate) fn narrow(rules: Rules) -> Self {
        let mut world = Self::new(rules, 1, 10);
        world.commit(&of(0), 0);
        for _ in 0..rules.crash_limit {
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
}
