//! A live member that does not commit is observed, and no failure of its records counts.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::model::MonoMs;
use reprise::retry::detector::Rules;

const T_MS: u64 = 60_000;
const SHORT: Rules = Rules { consume_timeout_ms: T_MS, ..RULES };

/// One Fetch of all available records.
fn fetch(world: &mut World, app: &mut App) {
    app.by.came = MonoMs(world.at);
    for (partition, offset) in world.fetch(app, None).records {
        app.positions.insert(partition, offset + 1);
    }
}

fn stalled(world: &World) -> u64 {
    world.detector.stalled(world.now())
}

#[test]
fn a_record_is_stalled_until_its_commit() {
    let mut world = World::new(SHORT, 2, 3);
    world.commit(&of(0), 0);
    world.commit(&of(1), 0);
    let mut app = world.start(Commits::Never);
    fetch(&mut world, &mut app);
    world.pass(T_MS - 1);
    assert_eq!(stalled(&world), 0);
    world.pass(1);
    assert_eq!(stalled(&world), 2, "one of each partition");
    world.commit(&of(0), 3);
    assert_eq!(stalled(&world), 1);
    world.commit(&of(1), 1);
    assert_eq!(stalled(&world), 0, "the next one has its own time");
    world.pass(10 * T_MS);
    assert_eq!((world.touched, world.charged(), world.dead.len()), (0, vec![], 0));
    assert!(world.kept.is_empty(), "nothing is journalled");
}

#[test]
fn only_a_group_that_stops_committing_has_a_stalled_record() {
    let mut world = World::new(SHORT, 1, 3);
    let mut app = world.start(Commits::Never);
    fetch(&mut world, &mut app);
    world.pass(10 * T_MS);
    assert_eq!(stalled(&world), 0);
    for commits in [Commits::PerRecord, Commits::Every(5_000)] {
        let mut world = World::new(SHORT, 1, 300);
        world.commit(&of(0), 0);
        let mut app = world.start(commits);
        while !world.is_all_committed() {
            assert!(app.poll(&mut world, |_, _| Did::Well(2_000)));
            assert_eq!(stalled(&world), 0);
        }
    }
}
