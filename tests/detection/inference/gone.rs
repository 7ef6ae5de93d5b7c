//! Deleted and recreated topics: the detector keeps nothing it knew of them.

use reprise::model::TopicPartition;
use reprise::retry::detector::GroupObservation;

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};

fn others() -> TopicPartition {
    TopicPartition { topic: "others".into(), partition: 0 }
}

fn started(world: &mut World) -> App {
    let mut app = world.start_with(Commits::Never, &[0]);
    app.positions.insert(others(), 0);
    app.fetches_ahead = false;
    app
}

/// Two topics with ten records each, after `crash_limit` lost members, so that they are tested.
fn narrow() -> (World, App) {
    let mut world = World::new(RULES, 1, 10);
    world.ends.insert(others(), 10);
    for partition in [of(0), others()] {
        world.commit(&partition, 0);
    }
    for _ in 0..RULES.suspects.crash_limit {
        let mut app = started(&mut world);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        world.lose(&app);
    }
    let app = started(&mut world);
    (world, app)
}

fn delete(world: &mut World, app: &mut App, gone: &TopicPartition) {
    let now = world.now();
    world.detector.handle(now, GroupObservation::TopicGone { topic: gone.topic.clone() });
    world.drain();
    world.ends.remove(gone);
    app.positions.remove(gone);
}

#[test]
fn nothing_is_suspected_of_a_topic_that_is_deleted() {
    let (mut world, mut app) = narrow();
    let given = world.fetch(&app, None).records;
    assert_eq!(given.len(), 3, "an eighth of twenty");
    let gone = given[0].0.clone();
    delete(&mut world, &mut app, &gone);
    let kept = world.kept_suspects.clone().unwrap();
    let mut left = kept.sets.iter().flat_map(|set| &set.suspects);
    assert!(left.all(|(topic, ..)| *topic != gone.topic.as_str()));
    world.pass(RULES.suspects.isolation_timeout_ms);
    app.by.came = world.now().mono;
    assert!(!world.fetch(&app, None).records.is_empty(), "the other topic goes on");
}

/// Whether a settled record, which no commit passed, is delivered again after the coordinator
/// answered that the group has no committed offset.
fn is_given(has_committed: bool, restarts: bool) -> bool {
    let mut world = World::new(RULES, 1, 3);
    if has_committed {
        world.commit(&of(0), 0);
    }
    settle_first(&mut world);
    if restarts {
        world.restart();
    }
    let now = world.now();
    world.detector.handle(now, GroupObservation::Uncommitted { partition: of(0) });
    world.drain();
    world.committed.clear();
    assert_eq!(world.kept.is_empty(), has_committed, "{:?}", world.kept);
    let app = world.start(Commits::Never);
    world.fetch(&app, None).records.contains(&(of(0), 0))
}

/// Delivers the first record to a member, and settles it.
fn settle_first(world: &mut World) {
    let app = world.start(Commits::Never);
    assert!(world.fetch(&app, None).records.contains(&(of(0), 0)));
    let now = world.now();
    world.detector.settled(now, &of(0), 0..=0);
    world.drain();
}

#[test]
fn deleted_offsets_end_the_cut_of_finalized_records() {
    for restarts in [false, true] {
        assert!(is_given(true, restarts), "deleted with the topic; restarts: {restarts}");
        assert!(!is_given(false, restarts), "restarts: {restarts}");
    }
}
