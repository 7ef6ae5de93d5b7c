//! The breaker: most records of a group fail.

use crate::inference::WITH_BREAKER as RULES;
use crate::inference::app::{App, Commits, World, of};
use reprise::retry::Policies;
use reprise::retry::detector::{
    BreakerView, Detector, DetectorOutput, GroupObservation, OrderEffect, Rules,
};

/// The records of a test batch.
const MIN: usize = 20;

fn is_open(world: &World) -> bool {
    world.detector.is_held()
}

/// One Fetch: nacks the records for which `fails` holds, and commits all.
fn handle(world: &mut World, app: &mut App, fails: impl Fn(i64) -> bool) -> Vec<i64> {
    app.by.came = world.now().mono;
    let records = world.fetch(app, None).records;
    let now = world.now();
    for (partition, offset) in &records {
        app.positions.insert(partition.clone(), offset + 1);
        if fails(*offset) {
            let (partition, offset) = (partition.clone(), *offset);
            world.detector.handle(now, GroupObservation::Nacked { partition, offset });
        }
    }
    for (partition, position) in app.positions.clone() {
        if world.committed.get(&partition) != Some(&position) {
            world.commit(&partition, position);
        }
    }
    records.into_iter().map(|(_, offset)| offset).collect()
}

/// The time until records are delivered, and their number.
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

/// A group that is paused after 30 failures, with 200 records more.
fn paused() -> (World, App) {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::Never);
    assert_eq!(handle(&mut world, &mut app, |_| true).len(), 30);
    assert!(world.detector.is_paused());
    world.ends.insert(of(0), 230);
    (world, app)
}

#[test]
fn test_batches_come_more_seldom_until_one_succeeds() {
    let (mut world, mut app) = paused();
    for pause_ms in [1_000, 2_000, 4_000, 8_000] {
        assert_eq!(waits(&mut world, &mut app, true), (pause_ms, 1));
        for _ in 0..MIN / 2 {
            assert!(!world.detector.is_paused());
            assert_eq!(waits(&mut world, &mut app, true), (0, 1));
        }
        assert!(world.detector.is_paused(), "more than half of them failed");
    }
    assert_eq!(waits(&mut world, &mut app, false), (16_000, 1));
    for _ in 1..MIN {
        assert_eq!(waits(&mut world, &mut app, false), (0, 1));
    }
    assert_eq!(world.detector.breaker(world.now()), BreakerView::Closed);
    assert_eq!(handle(&mut world, &mut app, |_| false).len(), 200 - 44 - MIN);
}

#[test]
fn half_of_a_test_batch_may_fail() {
    let (mut world, mut app) = paused();
    for n in 0..MIN {
        waits(&mut world, &mut app, n % 2 == 0);
    }
    assert!(!is_open(&world));
}

#[test]
fn a_test_batch_without_an_outcome_is_followed_by_another() {
    let (mut world, mut app) = paused();
    world.pass(RULES.interval_ms);
    for _ in 0..3 {
        for _ in 0..MIN {
            let records = world.fetch(&app, None).records;
            assert_eq!(records.len(), 1);
            app.positions.insert(of(0), records[0].1 + 1);
        }
        assert_eq!(world.fetch(&app, None).records.len(), 0, "the batch has left");
        world.pass(RULES.isolation_timeout_ms);
    }
    assert!(is_open(&world));
    world.commit(&of(0), 90);
    assert!(!is_open(&world));
}

#[test]
fn partitions_take_turns_in_a_test_batch() {
    let mut world = World::committed(RULES, 2, 40);
    let mut app = world.start(Commits::Never);
    handle(&mut world, &mut app, |_| true);
    assert!(world.detector.is_paused());
    world.ends = [(of(0), 200), (of(1), 200)].into();
    world.pass(1_000);
    let mut given = Vec::new();
    for _ in 0..6 {
        let records = world.fetch(&app, None).records;
        app.positions.extend(records.iter().map(|(of, offset)| (of.clone(), offset + 1)));
        given.extend(records.into_iter().map(|(of, _)| of.partition));
        world.pass(1);
    }
    assert_eq!(given.iter().filter(|partition| **partition == 0).count(), 3, "{given:?}");
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
fn nacks_behind_their_commit_take_successes_back() {
    let mut world = World::new(RULES, 1, 200);
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    world.commit(&of(0), 30);
    let now = world.now();
    for offset in 0..20 {
        assert!(!is_open(&world), "{offset} of 30");
        world.detector.handle(now, GroupObservation::Nacked { partition: of(0), offset });
    }
    assert!(is_open(&world), "20 of 30");
}

#[test]
fn records_that_a_reset_skips_are_no_success() {
    let mut world = World::new(RULES, 1, 200);
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    let now = world.now();
    world.detector.handle(now, GroupObservation::Reset { partition: of(0), offset: 180 });
    for offset in 180..200 {
        assert!(!is_open(&world));
        world.detector.handle(now, GroupObservation::Nacked { partition: of(0), offset });
        world.commit(&of(0), offset + 1);
    }
    assert!(is_open(&world), "20 of 20");
}

#[test]
fn a_nack_counts_no_failure_while_paused() {
    let (mut world, _) = paused();
    assert!(world.detector.charged(&of(0), 30).spared);
    world.pass(RULES.interval_ms);
    assert!(!world.detector.charged(&of(0), 30).spared, "a test batch is delivered");
}

#[test]
fn no_member_is_slow_while_nothing_is_delivered() {
    let rules = Rules { consume_timeout_ms: 90_000, ..RULES };
    let mut world = World::committed(rules, 2, 100);
    let slow = world.start_with(Commits::Never, &[1]);
    world.fetch(&slow, None);
    world.pass(50_000);
    let mut app = world.start_with(Commits::Never, &[0]);
    handle(&mut world, &mut app, |_| true);
    assert!(is_open(&world));
    for _ in 0..600 {
        world.pass(1_000);
    }
    assert_eq!(world.detector.stalled(world.now()), 0, "ten minutes");
    world.ends.insert(of(0), 200);
    for _ in 0..MIN {
        assert_eq!(handle(&mut world, &mut app, |_| false).len(), 1);
    }
    assert!(!is_open(&world));
    world.pass(39_000);
    assert_eq!(world.detector.stalled(world.now()), 0, "89 s of its own");
    world.pass(2_000);
    assert_eq!(world.detector.stalled(world.now()), 1, "91 s of its own");
}

#[test]
fn a_breaker_that_is_off_pauses_nothing() {
    let mut world = World::new(Rules { breaker: None, ..RULES }, 1, 200);
    let mut app = world.start(Commits::Never);
    assert_eq!(handle(&mut world, &mut app, |_| true).len(), 200);
    assert_eq!(world.detector.breaker(world.now()), BreakerView::Off);
    assert_eq!(world.touched, 0);
}

/// The time and the failures until the first record leaves its waiting partition. `others`: a
/// record of another partition is handled after each failure.
fn leaves_in_order(rules: Rules, others: bool) -> (u64, usize) {
    let mut world = World::committed(Rules { in_order: true, ..rules }, 2, 1_000);
    let mut app = world.start_with(Commits::Never, &[0]);
    let mut other = world.start_with(Commits::Never, &[1]);
    let ladder = Policies::default().ladder_of(&"shop".into(), &"orders".into());
    let (began, mut failures) = (world.at, 0);
    loop {
        app.positions.insert(of(0), 0);
        (app.by.conn, app.by.came) = (app.by.conn + 1, world.now().mono);
        if !world.fetch(&app, None).records.is_empty() {
            failures += 1;
            let now = world.now();
            if world.detector.failed_in_order(now, &of(0), 0, &ladder) == OrderEffect::Leaves {
                return (world.at - began, failures);
            }
            world.detector.said(&of(0));
        }
        if others {
            world.ends.insert(of(1), 1_000 + i64::try_from(failures).unwrap());
            handle(&mut world, &mut other, |_| false);
        }
        world.pass(500);
        assert!(world.at < began + 3_600_000, "never");
    }
}

#[test]
fn an_ordered_record_dies_once_another_was_handled() {
    let off = Rules { breaker: None, ..RULES };
    assert_eq!(leaves_in_order(off, false).1, 17, "16 retries");
    assert_eq!(leaves_in_order(RULES, true).1, 17, "others are handled");
    let (after_ms, failures) = leaves_in_order(RULES, false);
    assert!((60_000..62_000).contains(&after_ms), "give_up_after is 60 s: {after_ms}");
    assert!(failures > 17, "{failures}");
}

#[test]
fn a_batch_of_failures_is_kept_once() {
    let mut detector = Detector::new(Rules { in_order: true, breaker: None, ..RULES });
    let ladder = Policies::default().ladder_of(&"shop".into(), &"orders".into());
    let now = World::new(RULES, 1, 1).now();
    for offset in 0..500 {
        detector.failed_in_order(now, &of(0), offset, &ladder);
    }
    detector.said(&of(0));
    let kept = std::iter::from_fn(|| detector.poll_output()).filter_map(|output| match output {
        DetectorOutput::Window { window, .. } => window,
        _ => None,
    });
    let sizes: Vec<usize> = kept.map(|window| window.suspects.len()).collect();
    assert_eq!(sizes, [500]);
}
