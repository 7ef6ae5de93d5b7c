//! A topic is deleted, or made anew, while it is watched: nothing that was known of it is left.

use reprise::model::{Slot, TopicPartition};
use reprise::retry::watch::{LaneGiven, Seen};

use crate::RULES;
use crate::app::{App, Commits, Did, World, of};

fn others() -> TopicPartition {
    TopicPartition { topic: "others".into(), partition: 0 }
}

fn started(world: &mut World) -> App {
    let mut app = world.start_with(Commits::Never, &[0]);
    app.positions.insert(others(), 0);
    app.fetches_ahead = false;
    app
}

/// Two topics with ten records, that were lost so often that their records go one by one.
fn narrow() -> (World, App) {
    let mut world = World::new(RULES, 1, 10);
    world.ends.insert(others(), 10);
    for partition in [of(0), others()] {
        world.commit(&partition, 0);
    }
    for _ in 0..RULES.crash_limit {
        let mut app = started(&mut world);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        world.lose(&app);
    }
    let app = started(&mut world);
    (world, app)
}

fn delete(world: &mut World, app: &mut App, gone: &TopicPartition) {
    let now = world.now();
    world.watch.handle(now, Seen::TopicGone { topic: gone.topic.clone() });
    world.drain();
    world.ends.remove(gone);
    app.positions.remove(gone);
}

#[test]
fn whose_turn_it_is_when_its_topic_is_deleted_gives_it_to_the_next() {
    let (mut world, mut app) = narrow();
    let given = world.fetch(&app, None).records;
    assert_eq!(given.len(), 1, "one at a time");
    let gone = given[0].0.clone();
    delete(&mut world, &mut app, &gone);
    let given = world.fetch(&app, None).records;
    assert_eq!(given.len(), 1, "the other topic's");
    assert_ne!(given[0].0, gone);
}

#[test]
fn nor_do_retries_wait_for_a_turn_on_a_topic_that_is_deleted() {
    let (mut world, mut app) = narrow();
    let (member, slot) = (app.by.member.clone(), Slot(0));
    let told = LaneGiven { member, slot, out: Vec::new(), waits: false, single: None };
    let now = world.now();
    world.watch.handle(now, Seen::LaneGiven(told));
    let gone = world.fetch(&app, None).records[0].0.clone();
    assert_eq!(world.watch.lane_turn(now, slot).0, Some(0), "it is the record's");
    delete(&mut world, &mut app, &gone);
    assert_eq!(world.watch.lane_turn(now, slot).0, Some(1));
}

/// Whether the first record, which is at its end and not passed, is given again once the
/// coordinator has said that the group has committed nothing.
fn is_given(has_committed: bool, restarts: bool) -> bool {
    let mut world = World::new(RULES, 1, 3);
    if has_committed {
        world.commit(&of(0), 0);
        crash_until_dead(&mut world);
    } else {
        settle_first(&mut world);
    }
    if restarts {
        world.restart();
    }
    let now = world.now();
    world.watch.handle(now, Seen::Uncommitted { partition: of(0) });
    world.drain();
    world.committed.clear();
    assert_eq!(world.kept.is_empty(), has_committed, "{:?}", world.kept);
    let app = world.start(Commits::Never);
    world.fetch(&app, None).records.contains(&(of(0), 0))
}

/// Each process dies of the first record.
fn crash_until_dead(world: &mut World) {
    for _ in 0..50 {
        let mut app = world.start(Commits::Never);
        app.fetches_ahead = false;
        for _ in 0..50 {
            let handle = |offset| if offset == 0 { Did::Die(0) } else { Did::Well(1) };
            if !app.poll(world, |_, offset| handle(offset)) || !world.dead.is_empty() {
                break;
            }
        }
        world.lose(&app);
        world.pass(1_000);
        if !world.dead.is_empty() {
            return;
        }
    }
    panic!("the first record never ends");
}

/// A member has the first record and says that it has failed for good.
fn settle_first(world: &mut World) {
    let app = world.start(Commits::Never);
    assert!(world.fetch(&app, None).records.contains(&(of(0), 0)));
    let now = world.now();
    world.watch.settled(now, &of(0), 0..=0);
    world.drain();
}

#[test]
fn what_was_cut_is_given_where_the_offsets_of_a_group_were_deleted_and_not_where_it_never_had_any()
{
    for restarts in [false, true] {
        assert!(is_given(true, restarts), "deleted with the topic; restarts: {restarts}");
        assert!(!is_given(false, restarts), "restarts: {restarts}");
    }
}
