//! Healthy consumers, whose deliveries the detector never changes.

use crate::inference::WITH_BREAKER as RULES;
use crate::inference::app::{Commits, Did, World, of};
use reprise::retry::SignalRule;
use reprise::retry::detector::Rules;

#[test]
fn a_committing_consumer_is_never_disturbed() {
    for commits in [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)] {
        let mut world = World::new(RULES, 5, 2_000);
        let mut app = world.start(commits);
        while !world.is_all_committed() {
            assert!(app.poll(&mut world, |_, _| Did::Well(3)));
        }
        assert_eq!(world.touched, 0, "{commits:?}");
    }
}

#[test]
fn an_observed_group_that_never_commits_gets_its_records() {
    let rules = Rules { on_seek_back: SignalRule::Observe, ..RULES };
    let mut world = World::new(rules, 2, 30);
    let mut app = world.start(Commits::Never);
    for _ in 0..50 {
        app.poll(&mut world, |_, offset| if offset == 5 { Did::Throw } else { Did::Well(1) });
    }
    assert_eq!((world.touched, world.dead.len()), (0, 0));
}

#[test]
fn a_replay_below_the_committed_offset_is_no_failure() {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::PerBatch);
    for _ in 0..10 {
        while !world.is_all_committed() {
            app.poll(&mut world, |_, _| Did::Well(1));
        }
        app.positions.insert(of(0), 3);
        app.poll(&mut world, |_, _| Did::Well(1));
        app.poll(&mut world, |_, _| Did::Well(1));
    }
    assert_eq!((world.touched, world.dead.len()), (0, 0));
}

#[test]
fn fully_committed_members_leave_no_state() {
    let mut world = World::new(RULES, 3, 30);
    for round in 1..20 {
        let mut app = world.start(Commits::PerBatch);
        while !world.is_all_committed() {
            assert!(app.poll(&mut world, |_, _| Did::Well(1)));
        }
        world.lose(&app);
        for end in world.ends.values_mut() {
            *end = 30 + round * 10;
        }
    }
    world.pass(5_000);
    assert_eq!((world.touched, world.dead.len()), (0, 0));
    assert_eq!(world.kept, std::collections::BTreeMap::new());
}
