//! Transaction markers and aborted records. No application sees them, and many never commit past
//! them: they count as no failure and delay nothing.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::retry::detector::Rules;

const T_MS: u64 = 60_000;
const SHORT: Rules = Rules { consume_timeout_ms: T_MS, ..RULES };

/// One partition with `end` offsets, the `hidden` ranges without records, and a member of a group
/// that commits.
fn group(end: i64, hidden: &[(i64, i64)]) -> (World, App) {
    let mut world = World::new(SHORT, 1, end);
    let runs = hidden.iter().map(|(from, to)| *from..*to).collect();
    world.hidden.insert(of(0), runs);
    world.commit(&of(0), 0);
    let app = world.start(Commits::Never);
    (world, app)
}

/// One Fetch, at `from` or at the position behind the last one.
fn fetch(world: &mut World, app: &mut App, from: Option<i64>) -> Vec<i64> {
    app.by.came = world.now().mono;
    if let Some(from) = from {
        app.positions.insert(of(0), from);
    }
    let records = world.fetch(app, None).records;
    let end = world.detector.explain(world.now())[0].end;
    app.positions.insert(of(0), end);
    records.into_iter().map(|(_, offset)| offset).collect()
}

fn hang(world: &mut World, ms: u64) {
    for _ in 0..ms / 1_000 {
        world.pass(1_000);
    }
}

#[test]
fn trailing_markers_do_not_make_a_committed_group_suspect() {
    let (mut world, mut app) = group(6, &[(3, 6)]);
    assert_eq!(fetch(&mut world, &mut app, None), [0, 1, 2]);
    fetch(&mut world, &mut app, None);
    world.commit(&of(0), 3);
    hang(&mut world, 20 * T_MS);
    assert_eq!((world.charged(), world.dead.len(), world.touched), (vec![], 0, 0));
    assert!(world.detector.explain(world.now())[0].suspects.is_empty());
}

#[test]
fn hidden_records_are_never_stalled() {
    let (mut world, mut app) = group(6, &[(1, 4), (5, 6)]);
    assert_eq!(fetch(&mut world, &mut app, None), [0, 4]);
    fetch(&mut world, &mut app, None);
    world.commit(&of(0), 1);
    hang(&mut world, T_MS);
    assert_eq!(world.detector.stalled(world.now()), 1, "the record behind them");
    world.commit(&of(0), 5);
    hang(&mut world, T_MS);
    assert_eq!(world.detector.stalled(world.now()), 0, "the hidden one is nobody's record");
}

#[test]
fn lost_members_with_only_hidden_offsets_count_no_loss() {
    let (mut world, mut app) = group(6, &[(2, 6)]);
    for _ in 0..RULES.suspects.crash_limit + 2 {
        fetch(&mut world, &mut app, None);
        world.commit(&of(0), 2);
        world.lose(&app);
        app = world.start(Commits::Never);
    }
    fetch(&mut world, &mut app, None);
    assert_eq!((world.losses(), world.touched), (0, 0));
}

#[test]
fn lost_deliveries_end_with_the_commit_of_the_last_record() {
    let (mut world, app) = group(6, &[(4, 6)]);
    let mut app = Some(app);
    for _ in 0..RULES.suspects.crash_limit {
        let mut dying = app.take().unwrap_or_else(|| world.start(Commits::Never));
        while fetch(&mut world, &mut dying, None).is_empty() {
            world.pass(100);
        }
        world.lose(&dying);
    }
    let mut next = world.start(Commits::PerRecord);
    let mut rounds = 0;
    while world.committed[&of(0)] < 4 {
        rounds += 1;
        assert!(rounds < 100, "{:?}", world.committed);
        next.poll(&mut world, |_, _| Did::Well(1));
    }
    assert_eq!(world.losses(), 0, "nothing of the lost hand-outs is left");
}

#[test]
fn a_seek_to_hidden_offsets_suspects_only_the_next_record() {
    let (mut world, mut app) = group(6, &[(1, 4), (5, 6)]);
    fetch(&mut world, &mut app, None);
    world.commit(&of(0), 1);
    fetch(&mut world, &mut app, Some(5));
    assert!(world.detector.view(world.now()).suspects.is_empty(), "there is no record");
    fetch(&mut world, &mut app, Some(1));
    let told = world.detector.view(world.now()).suspects;
    assert_eq!(told[0].suspects, [(of(0), 4..5)]);
}

#[test]
fn hidden_ones_are_passed_over_at_once() {
    let (mut world, mut app) = group(8, &[(0, 6), (7, 8)]);
    for _ in 0..RULES.suspects.crash_limit {
        while fetch(&mut world, &mut app, None).is_empty() {
            world.pass(100);
        }
        world.lose(&app);
        app = world.start(Commits::Never);
    }
    let began = world.at;
    while fetch(&mut world, &mut app, None) != [6] {
        world.pass(10);
        assert!(world.at < began + RULES.isolation_timeout_ms, "it waits for hidden records");
    }
}
