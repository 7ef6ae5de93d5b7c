//! E7 and single file: a record that kills its process is found among the others.

use crate::RULES;
use crate::app::{App, Commits, Did, World, of};
use crate::spoken::{awaited, given};
use reprise::model::{OrderKey, TopicPartition};
use reprise::retry::watch::{Asked, Seen, Serve};
use reprise::retry::{Disposition, OrderMode, Policy};

/// The poison.
const POISON: (i32, i64) = (3, 57);
/// Dead after as many restarts at most.
const RESTARTS_MAX: u32 = RULES.crash_limit + RULES.in_place_limit + 4;

/// Runs the application, started anew whenever it dies, until all is committed; how often it died.
fn run(world: &mut World, commits: Commits, kills_after_ms: u64) -> u32 {
    let mut deaths = 0;
    let mut app: App = world.start(commits);
    for _ in 0..200_000 {
        let lives = app.poll(world, |partition, offset| {
            if (partition.partition, offset) == POISON {
                Did::Die(kills_after_ms)
            } else {
                Did::Well(1)
            }
        });
        if !lives {
            deaths += 1;
            world.lose(&app);
            world.pass(3_000);
            app = world.start(commits);
        }
        if world.is_all_committed() || deaths > 3 * RESTARTS_MAX {
            return deaths;
        }
    }
    panic!("it never ends; committed {:?}, dead {:?}", world.committed, world.dead);
}

fn judge(commits: Commits, kills_after_ms: u64) {
    let what = format!("{commits:?}, killed after {kills_after_ms} ms");
    let mut world = World::committed(RULES, 10, 50);
    world.ends.insert(of(POISON.0), 100);
    let deaths = run(&mut world, commits, kills_after_ms);
    assert!(deaths <= RESTARTS_MAX, "{what}: {deaths} restarts");
    let dead: Vec<(i32, i64)> =
        world.dead.iter().map(|dead| (dead.partition.partition, dead.offset)).collect();
    assert_eq!(dead, [POISON], "{what}");
    assert_eq!(world.dead[0].disposition, Disposition::Crashed, "{what}");
    assert_eq!(world.charged(), [], "{what}: bystanders are not charged");
}

#[test]
fn a_record_that_kills_its_process_at_once_ends_in_the_dead_letters() {
    for commits in [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)] {
        judge(commits, 0);
    }
}

#[test]
fn one_that_kills_three_seconds_later_does_too() {
    for commits in [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)] {
        judge(commits, 3_000);
    }
}

#[test]
fn and_when_it_was_one_before_and_is_read_once_more() {
    let order = OrderMode::Key;
    let policy = Policy { order, max_reconsume_times: 0, ..Policy::default() };
    let mut world = World::new(RULES, 4, 0).with_retries(policy);
    let (partition, poison) = (of(POISON.0), POISON.1);
    world.ends.insert(partition.clone(), 100);
    world.commit(&partition, poison);
    let retries = world.retries.as_mut().unwrap();
    retries.keys.insert((partition.clone(), poison), OrderKey([7; 16]));
    assert!(!world.nack(&partition, poison), "its first failure is its last one");
    world.commit(&partition, 60);
    let mut app = world.start(Commits::Never);
    app.seeks(&partition, 50);
    let given = world.fetch(&app, None).records;
    assert!(!given.contains(&(partition.clone(), poison)), "it is a dead letter");
    world.lose(&app);
    // That one no longer answers for it.
    world.commit(&partition, 55);
    let deaths = run(&mut world, Commits::PerRecord, 0);
    assert!(deaths <= RESTARTS_MAX, "{deaths} restarts");
    let dead: Vec<i64> = world.dead.iter().map(|dead| dead.offset).collect();
    assert_eq!(dead, [poison]);
}

#[test]
fn partitions_at_their_end_hold_up_nobody() {
    let mut world = World::committed(RULES, 40, 0);
    world.ends.insert(of(POISON.0), 100);
    let deaths = run(&mut world, Commits::PerRecord, 0);
    let dead: Vec<i64> = world.dead.iter().map(|dead| dead.offset).collect();
    assert_eq!(dead, [POISON.1]);
    let took = world.at - 3_000 * u64::from(deaths);
    // It is held for a second after each of its six failures.
    assert!(took < 8_000, "{took} ms besides the deaths");
}

#[test]
fn a_turn_nothing_comes_of_goes_on_to_the_next_broker() {
    let mut world = World::committed(RULES, 3, 20);
    for _ in 0..RULES.crash_limit {
        let mut app = world.start_with(Commits::PerRecord, &[0]);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        world.lose(&app);
    }
    let app = world.start(Commits::PerRecord);
    let here = app.by.clone();
    let there = reprise::retry::watch::Fetching { conn: here.conn + 100, ..here.clone() };
    let ask = |partition| Asked { partition: of(partition), offset: 0 };
    let turns = |world: &mut World, by, asked: &[Asked]| {
        let plan = world.watch.asked(world.now(), by, asked);
        let place = |serve: &Serve| match serve {
            Serve::Turn { place, .. } => Some(*place),
            Serve::Nothing => None,
            other => panic!("{other:?}"),
        };
        plan.serve.iter().map(place).collect::<Vec<_>>()
    };
    let (suspect, others) = ([ask(0)], [ask(1), ask(2)]);
    assert_eq!(turns(&mut world, &here, &suspect), [Some(0)]);
    assert_eq!(turns(&mut world, &there, &others), [None, None], "it is not theirs");
    let now = world.now();
    world.watch.nothing_came(now, &there, &others);
    assert_eq!(turns(&mut world, &there, &others), [None, None], "nor theirs to give away");
    world.pass(1);
    let now = world.now();
    world.watch.nothing_came(now, &here, &suspect);
    assert_eq!(turns(&mut world, &there, &others), [Some(0), Some(1)], "both had waited longer");
    assert_eq!(turns(&mut world, &here, &suspect), [None]);
    world.pass(1);
    let now = world.now();
    world.watch.nothing_came(now, &there, &others);
    assert_eq!(turns(&mut world, &there, &others), [None, None], "neither has, any more");
    assert_eq!(turns(&mut world, &here, &suspect), [Some(0)]);
}

#[test]
fn below_the_limit_lost_hand_outs_come_again_as_they_would() {
    let mut world = World::committed(RULES, 2, 100);
    for _ in 1..RULES.crash_limit {
        let mut app = world.start(Commits::PerRecord);
        assert!(!app.poll(&mut world, |_, offset| {
            if offset == 7 { Did::Die(0) } else { Did::Well(1) }
        }));
        world.lose(&app);
    }
    assert_eq!(world.touched, 0, "as if nobody watched");
    let mut app = world.start(Commits::PerRecord);
    while !world.is_all_committed() {
        assert!(app.poll(&mut world, |_, _| Did::Well(1)));
    }
    assert_eq!(world.dead, []);
    assert_eq!(world.kept, std::collections::BTreeMap::new(), "nothing is remembered");
}

#[test]
fn a_fetch_that_waits_when_its_member_goes_takes_no_loss_with_it() {
    let mut world = World::committed(RULES, 1, 10);
    let mut app = world.start(Commits::PerBatch);
    assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
    world.lose(&app);
    let brought = world.fetch(&app, None);
    assert!(brought.records.is_empty(), "its last Fetch, looked at again");
    let mut next = world.start(Commits::PerBatch);
    assert!(!next.poll(&mut world, |_, _| Did::Die(0)));
    assert_eq!(world.kept[&of(0)].losses, 1);
}

#[test]
fn whoever_commits_past_the_lost_window_flows_again() {
    let mut world = World::committed(RULES, 1, 20);
    for _ in 0..RULES.crash_limit {
        let mut app = world.start(Commits::PerRecord);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        world.lose(&app);
    }
    world.ends.insert(of(0), 500);
    let mut app = world.start(Commits::PerRecord);
    while !world.is_all_committed() {
        assert!(app.poll(&mut world, |_, _| Did::Well(1)));
    }
    let one_by_one = world.touched;
    assert!((20..=80).contains(&one_by_one), "only the lost ones go one by one: {one_by_one}");
    assert_eq!((world.dead.len(), world.charged()), (0, vec![]));
}

/// A consumer that fetches ahead, and works on record 0 until it is gone after so long, whatever
/// else it has in its buffer. `waits`: it has room for one record more, as the Java client;
/// otherwise for all.
fn hangs(world: &mut World, lasts_ms: u64, waits: bool) {
    for _ in 0..40 {
        let mut app = world.start(Commits::PerRecord);
        let ends = world.at + lasts_ms;
        while world.at < ends {
            app.by.came = world.now().mono;
            let is_full = waits && app.positions.values().sum::<i64>() > 1;
            let brought = if is_full { Vec::new() } else { world.fetch(&app, None).records };
            for (partition, offset) in &brought {
                app.positions.insert(partition.clone(), offset + 1);
            }
            if brought.is_empty() {
                world.pass(100);
            }
        }
        world.lose(&app);
        if world.is_all_committed() || !world.dead.is_empty() {
            return;
        }
    }
}

#[test]
fn what_lies_in_a_buffer_is_not_blamed_for_a_record_that_takes_long_to_kill() {
    for (lasts_ms, waits) in [1_500, 3_500, 9_000, 25_000, 40_000, 300_000]
        .into_iter()
        .flat_map(|ms| [(ms, true), (ms, false)])
    {
        let mut world = World::new(RULES, 1, 50);
        world.commit(&of(0), 0);
        hangs(&mut world, lasts_ms, waits);
        let what = format!("{lasts_ms} ms, waits: {waits}");
        let dead: Vec<i64> = world.dead.iter().map(|dead| dead.offset).collect();
        assert!(dead.iter().all(|offset| *offset == 0), "{what}: {dead:?}");
        assert!(world.charged().iter().all(|(_, offset, _)| *offset == 0), "{what}");
        assert_eq!(dead.is_empty(), lasts_ms > 30_000, "{what}: longer than anybody waits");
    }
}

#[test]
fn a_member_that_begins_anew_is_given_the_record_whose_turn_it_was_at_once() {
    let mut world = World::narrow(RULES);
    let mut app = world.start(Commits::Never);
    assert_eq!(awaited(&mut world, &mut app), 0);
    for epoch in 100..110 {
        let (now, member) = (world.now(), app.by.member.clone());
        world.watch.handle(now, Seen::Assigned { member, epoch });
        app.positions.insert(of(0), 0);
        assert_eq!(given(&mut world, &mut app), Some(0), "its generation is another one");
    }
    assert_eq!((world.charged(), world.losses()), (vec![], RULES.crash_limit));
}

/// What comes next, of whichever partition.
fn next(world: &mut World, app: &mut App) -> (i32, i64) {
    for _ in 0..100 {
        app.by.came = world.now().mono;
        if let Some((partition, offset)) = world.fetch(app, None).records.into_iter().next() {
            app.positions.insert(partition.clone(), offset + 1);
            return (partition.partition, offset);
        }
        world.pass(500);
    }
    panic!("nothing comes");
}

#[test]
fn who_was_alone_once_and_then_the_last_of_several_is_not_charged_yet() {
    let mut world = World::committed(RULES, 2, 10);
    for _ in 0..RULES.crash_limit {
        let mut app = world.start(Commits::Never);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        world.lose(&app);
    }
    let mut app = world.start(Commits::Never);
    let suspect = next(&mut world, &mut app);
    world.lose(&app);
    let mut charged = Vec::new();
    for _ in 0..3 {
        let mut app = world.start(Commits::Never);
        assert_ne!(next(&mut world, &mut app), suspect, "others take turns");
        // What went with the one before counts when it is given anew.
        assert_eq!(next(&mut world, &mut app), suspect, "the last of two");
        charged.push(world.charged());
        world.lose(&app);
    }
    let (partition, offset) = suspect;
    assert_eq!(
        charged,
        [vec![], vec![], vec![(partition, offset, 2)]],
        "not without more patience"
    );
}

#[test]
fn whoever_was_lost_before_an_administrator_sets_the_offset_counts_no_more() {
    for to in [0, 3] {
        let mut world = World::narrow(RULES);
        let mut app = world.start(Commits::Never);
        assert_eq!((awaited(&mut world, &mut app), world.losses()), (0, RULES.crash_limit));
        world.lose(&app);
        let (now, partition) = (world.now(), of(0));
        world.watch.handle(now, Seen::Reset { partition, offset: to, before: Some(0) });
        world.committed.insert(of(0), to);
        let mut app = world.start(Commits::Never);
        assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
        assert_eq!((world.losses(), world.charged()), (0, vec![]), "to {to}");
    }
}

#[test]
fn a_loader_without_commits_gets_everything_at_each_start() {
    let mut world = World::new(RULES, 2, 100);
    for start in 0..20 {
        let app = world.start(Commits::Never);
        assert_eq!(world.fetch(&app, None).records.len(), 200, "start {start}");
        world.lose(&app);
    }
    assert_eq!((world.touched, world.dead.len()), (0, 0));
    assert!(world.kept.is_empty(), "nothing is journalled");
    // Once it commits it is a group like any other.
    world.commit(&of(0), 0);
    world.commit(&of(1), 0);
    for _ in 0..RULES.crash_limit {
        let app = world.start(Commits::Never);
        world.fetch(&app, None);
        world.lose(&app);
    }
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    assert_eq!(world.losses(), RULES.crash_limit);
}

#[test]
fn a_topic_without_commits_is_given_whole_at_each_start() {
    let mut world = World::new(RULES, 1, 20);
    let settings = TopicPartition { topic: "settings".into(), partition: 0 };
    world.ends.insert(settings.clone(), 30);
    for start in 0..10 {
        let mut app = world.start(Commits::Never);
        app.positions.insert(settings.clone(), 0);
        let given = world.fetch(&app, None).records;
        let of_settings = given.iter().filter(|(partition, _)| *partition == settings).count();
        assert_eq!(of_settings, 30, "start {start}");
        world.commit(&of(0), 20);
        world.lose(&app);
    }
    assert_eq!((world.touched, world.dead.len()), (0, 0));
}
