//! When most records fail it is not the records.

use crate::WITH_BREAKER as RULES;
use crate::app::{App, Commits, Did, World, of};
use reprise::model::{EntryId, LaneOffset, Slot};
use reprise::retry::watch::{BreakerView, Rules, Seen};

fn is_held(world: &World) -> bool {
    matches!(world.watch.breaker(world.now()), BreakerView::Held { .. })
}

/// One Fetch; what it brings is nacked where `fails`, and all of it committed.
fn handle(world: &mut World, app: &mut App, fails: impl Fn(i64) -> bool) -> Vec<i64> {
    app.by.came = world.now().mono;
    let records = world.fetch(app, None).records;
    let now = world.now();
    for (partition, offset) in &records {
        app.positions.insert(partition.clone(), offset + 1);
        if fails(*offset) {
            let (partition, offset) = (partition.clone(), *offset);
            world.watch.handle(now, Seen::Nacked { partition, offset });
        }
    }
    for (partition, position) in app.positions.clone() {
        if world.committed.get(&partition) != Some(&position) {
            world.commit(&partition, position);
        }
    }
    records.into_iter().map(|(_, offset)| offset).collect()
}

/// How long it takes until something is given.
fn waits(world: &mut World, app: &mut App, fails: bool) -> (u64, usize) {
    let began = world.at;
    loop {
        let given = handle(world, app, |_| fails).len();
        if given > 0 || world.at > began + 600_000 {
            return (world.at - began, given);
        }
        world.pass(100);
    }
}

#[test]
fn probes_go_one_by_one_ever_more_seldom_until_one_succeeds_and_then_everything_flows() {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::Never);
    assert_eq!(handle(&mut world, &mut app, |_| true).len(), 30);
    assert!(is_held(&world));
    world.ends.insert(of(0), 100);
    assert_eq!(waits(&mut world, &mut app, true), (1_000, 1));
    assert_eq!(waits(&mut world, &mut app, true), (2_000, 1));
    assert_eq!(waits(&mut world, &mut app, true), (4_000, 1));
    assert!(world.watch.is_held());
    assert_eq!(waits(&mut world, &mut app, false), (8_000, 1));
    assert_eq!(world.watch.breaker(world.now()), BreakerView::Ramping);
    for _ in 0..10 {
        assert_eq!(waits(&mut world, &mut app, false).1, 1);
    }
    assert_eq!(world.watch.breaker(world.now()), BreakerView::Closed);
    assert_eq!(handle(&mut world, &mut app, |_| false).len(), 56);
}

#[test]
fn on_the_way_up_more_than_the_ratio_holds_again_for_longer() {
    let mut world = World::new(RULES, 1, 100);
    let mut app = world.start(Commits::Never);
    handle(&mut world, &mut app, |_| true);
    world.ends.insert(of(0), 200);
    waits(&mut world, &mut app, false);
    for n in 0..10 {
        assert_eq!(waits(&mut world, &mut app, n % 2 == 0).1, 1);
    }
    assert_eq!(world.watch.breaker(world.now()), BreakerView::Closed, "half of them failed");

    let mut world = World::new(RULES, 1, 100);
    let mut app = world.start(Commits::Never);
    handle(&mut world, &mut app, |_| true);
    world.ends.insert(of(0), 200);
    waits(&mut world, &mut app, false);
    for _ in 0..6 {
        assert!(!is_held(&world));
        assert_eq!(waits(&mut world, &mut app, true).1, 1);
    }
    assert!(is_held(&world));
    assert_eq!(waits(&mut world, &mut app, true), (2_000, 1));
}

#[test]
fn a_probe_nothing_is_heard_of_is_followed_by_another_one() {
    let mut world = World::new(RULES, 1, 100);
    let mut app = world.start(Commits::Never);
    handle(&mut world, &mut app, |_| true);
    world.ends.insert(of(0), 200);
    world.pass(RULES.interval_ms);
    for _ in 0..3 {
        let records = world.fetch(&app, None).records;
        assert_eq!(records.len(), 1);
        app.positions.insert(of(0), records[0].1 + 1);
        assert_eq!(world.fetch(&app, None).records.len(), 0, "one for now");
        world.pass(RULES.isolation_timeout_ms);
    }
    assert!(is_held(&world));
    world.commit(&of(0), 103);
    assert!(!is_held(&world));
}

#[test]
fn a_third_of_failures_is_no_outage_however_they_come() {
    let mut world = World::new(RULES, 3, 1_000);
    let mut app = world.start(Commits::Never);
    for _ in 0..20 {
        handle(&mut world, &mut app, |offset| offset % 3 == 0);
        world.pass(100);
    }
    assert_eq!((world.touched, world.is_all_committed()), (0, true));
}

#[test]
fn a_return_while_the_group_is_held_is_no_failure() {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::Never);
    handle(&mut world, &mut app, |_| true);
    world.ends.insert(of(0), 100);
    let from = world.at;
    while world.at < from + 600_000 {
        app.poll(&mut world, |_, _| Did::Throw);
        assert!(is_held(&world));
        world.pass(100);
    }
    assert_eq!((world.dead.len(), world.kept_suspects.clone()), (0, None));
}

/// The first hand-outs of one member's lane.
fn lane(sequence: u64) -> LaneOffset {
    LaneOffset { slot: Slot(0), sequence }
}

/// Its connection.
const CONN: u64 = 7;

/// Gives the retry with that number, if it may be given now.
fn gives_retry(world: &mut World, sequence: u64) -> bool {
    let now = world.now();
    let may = world.watch.lane_room(now, CONN) == Some(1);
    if may {
        world.watch.lane_given(now, CONN, lane(sequence), EntryId(sequence));
    }
    may
}

#[test]
fn retries_are_held_too_and_one_that_succeeds_ends_it() {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::Never);
    assert_eq!(world.watch.lane_room(world.now(), CONN), None);
    handle(&mut world, &mut app, |_| true);
    assert!(!gives_retry(&mut world, 0));
    world.pass(1_000);
    assert!(gives_retry(&mut world, 0));
    assert!(!gives_retry(&mut world, 1));
    let now = world.now();
    world.watch.handle(now, Seen::LaneFailed { lane: lane(0) });
    world.pass(1_999);
    assert!(!gives_retry(&mut world, 1), "twice as long");
    world.pass(1);
    assert!(gives_retry(&mut world, 1));
    let now = world.now();
    world.watch.handle(now, Seen::LaneDone { up_to: lane(1) });
    assert!(is_held(&world), "a commit of what had failed");
    world.watch.handle(now, Seen::LaneDone { up_to: lane(2) });
    assert!(!is_held(&world));
    for n in 2..12 {
        assert_eq!(world.watch.lane_room(now, CONN), Some(1));
        world.watch.handle(now, Seen::LaneDone { up_to: lane(n + 1) });
    }
    assert_eq!(world.watch.lane_room(now, CONN), None);
}

#[test]
fn switched_off_nothing_is_ever_held() {
    let mut world = World::new(Rules { breaker: None, ..RULES }, 1, 200);
    let mut app = world.start(Commits::Never);
    assert_eq!(handle(&mut world, &mut app, |_| true).len(), 200);
    assert_eq!(world.watch.breaker(world.now()), BreakerView::Off);
    assert_eq!((world.watch.lane_room(world.now(), CONN), world.touched), (None, 0));
}
