//! Journalled windows: enough for a restart, and small.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::retry::detector::GroupObservation;

#[test]
fn nothing_of_a_consumer_that_flows_is_journalled() {
    let mut world = World::new(RULES, 1, 100_000);
    let mut app = world.start(Commits::PerBatch);
    let began = world.at;
    while world.at < began + 10_000 {
        app.poll(&mut world, |_, _| Did::Well(1));
        assert!(world.kept.is_empty(), "{:?}", world.kept);
    }
}

#[test]
fn a_finalized_record_stays_cut_over_a_restart_until_committed() {
    let mut world = World::new(RULES, 1, 10);
    let mut app = world.start(Commits::PerRecord);
    world.commit(&of(0), 0);
    while world.dead.is_empty() {
        app.poll(&mut world, |_, offset| if offset == 4 { Did::Throw } else { Did::Well(1) });
    }
    world.restart();
    let before = world.deliveries[&(of(0), 4)];
    let mut app = world.start(Commits::PerBatch);
    while !world.is_all_committed() {
        app.poll(&mut world, |_, _| Did::Well(1));
    }
    assert_eq!(world.deliveries[&(of(0), 4)], before, "not handed out again");
    world.pass(2_000);
    assert!(world.kept.is_empty(), "{:?}", world.kept);
}

#[test]
fn a_member_with_only_finalized_records_loses_none() {
    for both_go in [false, true] {
        let mut world = World::new(RULES, 2, 10);
        world.commit(&of(0), 9);
        let mut app = world.start(Commits::PerRecord);
        while world.dead.is_empty() {
            *world.ends.get_mut(&of(1)).unwrap() += 1;
            app.poll(&mut world, |of, _| if of.partition == 0 { Did::Throw } else { Did::Well(1) });
        }
        for _ in 0..5 {
            app.poll(&mut world, |_, _| Did::Well(1));
            if both_go {
                world.restart();
            } else {
                world.lose(&app);
            }
            world.pass(3_000);
            app = world.start(Commits::Never);
        }
        app.poll(&mut world, |_, _| Did::Well(1));
        assert_eq!((world.losses(), world.committed[&of(0)]), (0, 9), "both go: {both_go}");
    }
}

/// Deliveries counted as lost, of five that were outstanding before `ends`.
fn lost(ends: impl Fn(&mut World, &App)) -> u32 {
    let mut world = World::new(RULES, 1, 100);
    let mut app = world.start(Commits::Never);
    world.commit(&of(0), 0);
    for _ in 0..5 {
        app.poll(&mut world, |_, _| Did::Well(1));
        ends(&mut world, &app);
        world.pass(3_000);
        app = world.start(Commits::Never);
    }
    app.poll(&mut world, |_, _| Did::Well(1));
    world.losses()
}

#[test]
fn a_delivery_lost_with_the_sidecar_is_not_counted() {
    assert_eq!(lost(|world, _| world.stop()), 0);
    assert_eq!(lost(|world, _| world.restart()), 0);
    assert_eq!(lost(World::lose), 5);
}

/// Whether a consumer that keeps seeking back to record 1 is suspected after a restart. `told`: the
/// observations after the restart.
fn is_suspected(told: impl Fn(&mut World)) -> bool {
    let mut world = World::new(RULES, 1, 5);
    world.commit(&of(0), 0);
    world.restart();
    told(&mut world);
    let mut app = world.start(Commits::PerRecord);
    for _ in 0..20 {
        app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
    }
    let told = world.detector.view(world.now()).suspects;
    told.iter().flat_map(|set| &set.suspects).any(|(_, range)| range.contains(&1))
}

#[test]
fn entries_and_finished_records_are_no_suspects_after_a_restart() {
    assert!(is_suspected(|_| {}));
    assert!(!is_suspected(|world| world.detector.known(&of(0), [1, 3])));
    assert!(is_suspected(|world| world.detector.known(&of(0), [3])));
    let reads = |done: std::ops::Range<i64>| {
        move |world: &mut World| {
            let now = world.now();
            let (partition, done) = (of(0), std::iter::once(done.clone()).collect());
            world.detector.handle(now, GroupObservation::Read { partition, offset: 1, done });
            world.committed.insert(of(0), 1);
        }
    };
    assert!(!is_suspected(reads(1..2)), "one that is done");
    assert!(is_suspected(reads(2..4)), "and one that is not");
}
