//! E5: a consumer that throws and seeks back, as Spring's error handler does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::RULES;
use crate::app::{App, Commits, Did, WAIT_MS, World, of};
use reprise::retry::Disposition;
use reprise::retry::OnSeekBack;
use reprise::retry::watch::{Asked, Rules, Serve};

/// Runs until all is committed, with a handler that throws on these records until it has been
/// given them so often.
fn run(world: &mut World, failing: &BTreeMap<(i32, i64), usize>) {
    let app = world.start(Commits::PerBatch);
    run_as(app, world, failing);
}

fn run_as(mut app: App, world: &mut World, failing: &BTreeMap<(i32, i64), usize>) {
    for _ in 0..10_000 {
        if world.is_all_committed() {
            return;
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
fn a_record_that_is_sought_again_and_again_is_a_dead_letter_and_nothing_else_is_charged() {
    let mut world = World::new(RULES, 10, 30);
    run(&mut world, &BTreeMap::from([((3, 7), 1_000)]));
    let dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    assert_eq!(dead, [(3, 7)]);
    assert_eq!(world.dead[0].disposition, Disposition::SeekBack);
    assert_eq!(world.dead[0].reconsume_times, RULES.in_place_limit);
    // One unproven return more where others were sought back too.
    let deliveries = world.deliveries[&(of(3), 7)];
    let most = usize::try_from(RULES.in_place_limit).unwrap() + 2;
    assert!(deliveries <= most, "{deliveries} deliveries");
    assert_eq!(world.charged(), []);
}

/// Polls with a handler that throws on one record, and stands still before some of its returns.
fn stand_still(world: &mut World, still: impl Fn(usize) -> bool) {
    let mut app = world.start(Commits::PerRecord);
    while world.dead.is_empty() && world.deliveries.get(&(of(0), 1)).is_none_or(|n| *n < 10) {
        let mut thrown = false;
        app.poll(world, |_, offset| {
            thrown |= offset == 1;
            if offset == 1 { Did::Throw } else { Did::Well(1) }
        });
        if thrown && still(world.deliveries[&(of(0), 1)]) {
            world.pass(2 * WAIT_MS + 1);
        }
    }
}

#[test]
fn a_process_that_stood_still_once_is_judged_all_the_same() {
    for once in 1..=4 {
        let mut world = World::new(RULES, 1, 3);
        stand_still(&mut world, |delivery| delivery == once);
        assert_eq!(world.dead.len(), 1, "it stood still after delivery {once}");
        assert!(world.deliveries[&(of(0), 1)] < 10, "Spring gives up after ten");
    }
}

#[test]
fn whoever_goes_back_after_silences_is_not_judged() {
    let mut world = World::new(RULES, 1, 3);
    stand_still(&mut world, |delivery| delivery == 2 || delivery == 4);
    assert_eq!((world.dead.len(), world.charged()), (0, vec![]));
}

#[test]
fn so_is_one_of_a_consumer_that_fetches_only_when_it_has_nothing_left() {
    let mut world = World::new(RULES, 10, 30);
    let mut app = world.start(Commits::PerBatch);
    app.fetches_ahead = false;
    run_as(app, &mut world, &BTreeMap::from([((3, 7), 1_000)]));
    let dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    assert_eq!(dead, [(3, 7)]);
    assert_eq!(world.dead[0].disposition, Disposition::SeekBack);
    let deliveries = world.deliveries[&(of(3), 7)];
    let most = usize::try_from(RULES.in_place_limit).unwrap() + 2;
    assert!(deliveries <= most, "{deliveries} deliveries");
    assert_eq!(world.charged(), []);
}

/// A member throws on record 300 of the first partition and is lost, and a log cleaner takes some
/// out; what the next member is given of that partition, poll by poll.
fn begun_in_front_of_a_suspect(world: &mut World, cleaned: Range<i64>) -> Vec<Vec<i64>> {
    let mut first = world.start(Commits::Never);
    let suspect = (of(0), 300);
    first.poll(
        world,
        |of, offset| {
            if (of.clone(), offset) == suspect { Did::Throw } else { Did::Well(0) }
        },
    );
    first.poll(world, |_, _| Did::Well(0));
    world.lose(&first);
    // It is held no more when the next one begins.
    world.pass(5 * RULES.interval_ms);
    world.hidden.insert(of(0), std::iter::once(cleaned).collect());
    let mut next = world.start(Commits::PerBatch);
    let mut polls = Vec::new();
    while !world.is_all_committed() && polls.len() < 1_000 {
        let mut given = Vec::new();
        next.poll(world, |of, offset| {
            given.extend((of.partition == 0).then_some(offset));
            Did::Well(0)
        });
        polls.push(given);
    }
    polls
}

#[test]
fn what_lies_in_front_of_a_suspect_flows_and_the_suspect_goes_alone() {
    let mut world = World::new(RULES, 2, 400);
    (0..2).for_each(|partition| world.commit(&of(partition), 0));
    let polls = begun_in_front_of_a_suspect(&mut world, 0..0);
    assert!(world.is_all_committed() && polls.len() < 20, "{} polls", polls.len());
    assert!(polls.contains(&(0..300).collect()) && polls.contains(&vec![300]), "{polls:?}");
    assert_eq!((world.dead.len(), world.charged()), (0, vec![]));
}

#[test]
fn where_nothing_can_be_given_in_front_of_a_suspect_it_is_the_next_one() {
    let mut world = World::new(RULES, 2, 400);
    world.commit(&of(0), 200);
    world.commit(&of(1), 0);
    let polls = begun_in_front_of_a_suspect(&mut world, 200..300);
    assert!(world.is_all_committed() && polls.len() < 20, "{} polls", polls.len());
    assert!(polls.contains(&vec![300]), "{polls:?}");
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
fn one_that_succeeds_in_time_is_forgotten() {
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
    let mut world = World::new(RULES, 1, 3);
    let mut app = world.start(Commits::PerRecord);
    for _ in 0..200 {
        app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
        if world.charged() == [(0, 1, 6)] {
            break;
        }
    }
    assert_eq!(world.charged(), [(0, 1, 6)]);
    world.restart();
    let mut app = world.start(Commits::PerRecord);
    while world.dead.is_empty() {
        app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
    }
    assert_eq!(world.dead[0].reconsume_times, RULES.in_place_limit);
    assert_eq!(world.dead[0].history.len(), 7);
}

#[test]
fn an_observed_group_gets_all_it_seeks_back_to() {
    let rules = Rules { on_seek_back: OnSeekBack::Observe, ..RULES };
    let mut world = World::new(rules, 2, 30);
    run(&mut world, &BTreeMap::from([((1, 5), 40)]));
    assert_eq!((world.dead.len(), world.touched), (0, 0));
    assert!(world.kept.is_empty(), "nothing is journalled");
}

#[test]
fn a_suspect_is_given_to_a_fetch_that_has_just_come() {
    let mut world = World::new(RULES, 1, 3);
    let mut app = world.start(Commits::PerRecord);
    app.fetches_ahead = false;
    app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
    let asked = [Asked { partition: of(0), offset: 1 }];
    let mut ask = |world: &mut World, waits: bool| {
        let now = world.now();
        if !waits {
            app.by.came = now.mono;
        }
        world.watch.asked(now, &app.by, &asked).serve
    };
    assert_eq!(ask(&mut world, false), [Serve::Nothing], "held");
    world.pass(RULES.interval_ms);
    assert_eq!(ask(&mut world, true), [Serve::Again], "it waited while the record was held");
    let given = Serve::Turn { without: Vec::new(), place: 0 };
    assert_eq!(ask(&mut world, false), [given]);
}

#[test]
fn who_leaves_its_partition_out_meanwhile_may_only_have_paused_it() {
    for pauses in [false, true] {
        let mut world = World::new(RULES, 2, 3);
        let mut app = world.start(Commits::PerRecord);
        app.fetches_ahead = false;
        app.poll(&mut world, |partition, offset| match (partition.partition, offset) {
            (0, 1) => Did::Throw,
            _ => Did::Well(1),
        });
        for _ in 0..100 {
            app.by.came = world.now().mono;
            let given = world.fetch(&app, Some(&BTreeSet::from([of(0)]))).records;
            if pauses && given == [(of(0), 1)] {
                world.fetch(&app, Some(&BTreeSet::from([of(1)])));
            }
            world.pass(100);
        }
        let is_charged = !world.charged().is_empty() || !world.dead.is_empty();
        assert_eq!(is_charged, !pauses, "pauses: {pauses}");
    }
}
