//! Explicit evidence overrides inference: a nack names a record, and `incomplete-offsets` says that
//! a record is done.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::model::TopicPartition;
use reprise::retry::detector::{GroupObservation, OrderEffect, Rules};
use reprise::retry::{Disposition, Policies};

/// The only record of a Fetch, if any; the next Fetch is behind it.
pub(crate) fn given(world: &mut World, app: &mut App) -> Option<i64> {
    app.by.came = world.now().mono;
    let records = world.fetch(app, None).records;
    assert!(records.len() <= 1, "one by one: {records:?}");
    let (partition, offset) = records.into_iter().next()?;
    app.positions.insert(partition, offset + 1);
    Some(offset)
}

/// The next record, after any wait.
pub(crate) fn awaited(world: &mut World, app: &mut App) -> i64 {
    for _ in 0..100 {
        if let Some(offset) = given(world, app) {
            return offset;
        }
        world.pass(500);
    }
    panic!("nothing comes");
}

#[test]
fn a_record_that_is_done_is_no_suspect() {
    for (end, suspects) in [(2, 0..1), (3, 0..2)] {
        let mut world = World::new(RULES, 1, 2);
        world.commit(&of(0), 0);
        for _ in 0..RULES.suspects.crash_limit {
            let app = world.start(Commits::Never);
            assert_eq!(world.fetch(&app, None).records.len(), 2);
            world.commit(&of(0), 0);
            let now = world.now();
            let done = std::iter::once(1..2).collect();
            world.detector.handle(now, GroupObservation::Progress { partition: of(0), done, end });
            world.drain();
            world.lose(&app);
        }
        let kept = world.kept_suspects.clone().unwrap();
        let range = ("orders".to_owned(), 0, suspects.start, suspects.end);
        assert_eq!(kept.sets[0].suspects, [range], "up to {end}");
    }
}

fn fails_on_1(of: &TopicPartition, offset: i64) -> Did {
    if of.partition == 0 && offset == 1 { Did::Throw } else { Did::Well(1) }
}

/// A consumer that sought back to record 1 until three failures counted.
fn suspected(world: &mut World) -> App {
    let mut app = world.start(Commits::PerRecord);
    for _ in 0..200 {
        *world.ends.get_mut(&of(1)).unwrap() += 1;
        app.poll(world, fails_on_1);
        if world.charged() == [(0, 1, 3)] {
            return app;
        }
    }
    panic!("it is never charged");
}

#[test]
fn suspicion_ends_when_the_record_is_done() {
    let mut world = World::new(RULES, 2, 3);
    let _app = suspected(&mut world);
    let now = world.now();
    let done = std::iter::once(1..2).collect();
    world.detector.handle(now, GroupObservation::Progress { partition: of(0), done, end: 2 });
    world.drain();
    assert_eq!(world.charged(), []);
    assert!(world.detector.view(now).suspects.is_empty());
}

#[test]
fn a_nack_ends_suspicion_and_carries_the_failure_count() {
    let mut world = World::new(RULES, 2, 3);
    let mut app = suspected(&mut world);
    let carried = world.detector.charged(&of(0), 1);
    assert_eq!((carried.reconsume_times, carried.history.len()), (3, 3));
    assert!(carried.history.iter().all(|(_, word)| *word == Disposition::SeekBack));
    assert_eq!(world.detector.charged(&of(0), 2).reconsume_times, 0);

    let now = world.now();
    world.detector.handle(now, GroupObservation::Nacked { partition: of(0), offset: 1 });
    world.drain();
    assert_eq!(world.charged(), []);
    world.pass(RULES.interval_ms);
    let touched = world.touched;
    for _ in 0..100 {
        app.poll(&mut world, fails_on_1);
    }
    assert_eq!((world.charged(), world.dead.len()), (vec![], 0), "it has its entry");
    assert_eq!(world.touched, touched, "as if nobody watched");
    // the group has passed the record: a new delivery is judged anew
    world.commit(&of(0), 2);
    world.commit(&of(0), 0);
    for _ in 0..100 {
        app.poll(&mut world, fails_on_1);
    }
    assert!(world.touched > touched);
}

/// A group that keeps order: record 0 is nacked, and its member is lost.
fn said_and_lost(world: &mut World) {
    let ladder = Policies::default().ladder_of(&"shop".into(), &of(0).topic);
    let mut app = world.start(Commits::Never);
    assert_eq!(awaited(world, &mut app), 0);
    let now = world.now();
    assert_eq!(world.detector.failed_in_order(now, &of(0), 0, &ladder), OrderEffect::Waits);
    world.detector.said(&of(0));
    world.drain();
    world.lose(&app);
    world.pass(2_000);
}

#[test]
fn a_nack_before_a_lost_member_is_charged_once() {
    let mut world = World::new(Rules { in_order: true, ..RULES }, 1, 1);
    world.commit(&of(0), 0);
    for times in 1..=3 {
        said_and_lost(&mut world);
        assert_eq!(world.charged(), [(0, 0, times)]);
    }
}
