//! Seek backs (`lost-delivery`): the handler throws and the client seeks back, as with Spring's
//! error handler.

use std::collections::BTreeMap;

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::model::TopicPartition;
use reprise::retry::Disposition;
use reprise::retry::SignalRule;
use reprise::retry::detector::Rules;

/// Deliveries after which Spring's error handler gives up.
const SPRING: usize = 10;

/// Runs until all is committed. The handler throws on each record of `failing` for the given number
/// of deliveries.
fn run(world: &mut World, failing: &BTreeMap<(i32, i64), usize>) {
    let app = world.start(Commits::PerBatch);
    run_as(app, world, failing);
}

fn run_as(mut app: App, world: &mut World, failing: &BTreeMap<(i32, i64), usize>) {
    for _ in 0..10_000 {
        if world.is_all_committed() {
            return;
        }
        if world.dead.is_empty() {
            *world.ends.get_mut(&of(0)).unwrap() += 1;
        }
        let given = world.deliveries.clone();
        let _alive = app.poll(world, |partition, offset| {
            let times = given.get(&(partition.clone(), offset)).copied().unwrap_or(0);
            match failing.get(&(partition.partition, offset)) {
                Some(until) if times <= *until => Did::Throw,
                _ => Did::Well(1),
            }
        });
    }
    panic!("it never ends; committed {:?}", world.committed);
}

#[test]
fn a_record_sought_repeatedly_becomes_the_only_dead_letter() {
    let mut world = World::new(RULES, 10, 30);
    run(&mut world, &BTreeMap::from([((3, 7), 1_000)]));
    let dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    assert_eq!(dead, [(3, 7)]);
    assert_eq!(world.dead[0].disposition, Disposition::SeekBack);
    assert_eq!(world.dead[0].reconsume_times, RULES.suspects.in_place_limit - 1);
    let deliveries = world.deliveries[&(of(3), 7)];
    assert!(deliveries < SPRING, "{deliveries} deliveries");
    assert_eq!(world.charged(), []);
}

#[test]
fn a_repeated_seek_without_prefetch_also_becomes_a_dead_letter() {
    let mut world = World::new(RULES, 10, 30);
    let mut app = world.start(Commits::PerBatch);
    app.fetches_ahead = false;
    run_as(app, &mut world, &BTreeMap::from([((3, 7), 1_000)]));
    let dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    assert_eq!(dead, [(3, 7)]);
    assert_eq!(world.dead[0].disposition, Disposition::SeekBack);
    let deliveries = world.deliveries[&(of(3), 7)];
    assert!(deliveries < SPRING, "{deliveries} deliveries");
    assert_eq!(world.charged(), []);
}

#[test]
fn two_failing_records_take_turns() {
    let mut world = World::new(RULES, 4, 30);
    run(&mut world, &BTreeMap::from([((1, 5), 1_000), ((2, 9), 1_000)]));
    let mut dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    dead.sort_unstable();
    assert_eq!(dead, [(1, 5), (2, 9)]);
    assert_eq!(world.charged(), []);
}

#[test]
fn a_record_succeeding_in_time_is_forgotten() {
    let mut world = World::new(RULES, 3, 30);
    run(&mut world, &BTreeMap::from([((1, 5), 3)]));
    assert_eq!(world.dead, []);
    assert_eq!(world.charged(), []);
    world.pass(5_000);
    assert_eq!(world.kept, BTreeMap::new());
}

#[test]
fn between_two_deliveries_lies_the_interval() {
    let mut world = World::new(Rules { interval_ms: 700, ..RULES }, 1, 3);
    let mut app = world.start(Commits::PerRecord);
    let mut given = Vec::new();
    while given.len() < 5 {
        let at = world.at;
        app.poll(&mut world, |_, offset| {
            if offset == 1 {
                given.push(at);
                Did::Throw
            } else {
                Did::Well(1)
            }
        });
    }
    for pair in given.windows(2) {
        assert!(pair[1] - pair[0] >= 700, "{given:?}");
    }
}

#[test]
fn a_restart_of_the_sidecar_keeps_the_count() {
    let mut world = World::new(RULES, 2, 3);
    let mut app = world.start(Commits::PerRecord);
    let fails = |of: &TopicPartition, offset: i64| {
        if of.partition == 0 && offset == 1 { Did::Throw } else { Did::Well(1) }
    };
    let poll = |world: &mut World, app: &mut App| {
        *world.ends.get_mut(&of(1)).unwrap() += 1;
        app.poll(world, fails);
    };
    let failures = |world: &World| {
        let sets = world.kept_suspects.iter().flat_map(|record| &record.sets);
        sets.map(|set| set.failures).max().unwrap_or(0)
    };
    for _ in 0..200 {
        poll(&mut world, &mut app);
        if failures(&world) == 2 {
            break;
        }
    }
    assert_eq!(failures(&world), 2);
    world.restart();
    let mut app = world.start(Commits::PerRecord);
    while world.dead.is_empty() {
        poll(&mut world, &mut app);
    }
    assert_eq!(world.dead[0].history.len(), 4);
}

#[test]
fn an_observed_group_gets_all_it_seeks_back_to() {
    let rules = Rules { on_seek_back: SignalRule::Observe, ..RULES };
    let mut world = World::new(rules, 2, 30);
    run(&mut world, &BTreeMap::from([((1, 5), 40)]));
    assert_eq!((world.dead.len(), world.touched), (0, 0));
    assert!(world.kept.is_empty(), "nothing is journalled");
}
