//! Evidence `lost-delivery`: a record that crashes its process is isolated.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};
use reprise::model::TopicPartition;
use reprise::retry::detector::GroupObservation;
use reprise::retry::{Disposition, Policy};

/// Partition and offset of the record that kills its process.
const POISON: (i32, i64) = (3, 57);
/// The most restarts until the record is a dead letter. Isolation takes 4 + log₈ N. Without another
/// record to commit, no failure counts, and `give_up_after` withholds the record: 20 restarts.
const RESTARTS_MAX: u32 = 11 + 20;

/// Runs the application until all is committed, with a restart after each crash. Returns the number
/// of crashes.
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
        if world.is_all_committed() || deaths > 2 * RESTARTS_MAX {
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
fn a_record_crashing_at_once_becomes_a_dead_letter() {
    for commits in [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)] {
        judge(commits, 0);
    }
}

#[test]
fn a_record_crashing_after_three_seconds_becomes_a_dead_letter() {
    for commits in [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)] {
        judge(commits, 3_000);
    }
}

#[test]
fn a_replayed_crashing_record_becomes_a_dead_letter_again() {
    let give_up_after_ms = RULES.suspects.give_up_after_ms;
    let policy = Policy { max_reconsume_times: 0, give_up_after_ms, ..Policy::default() };
    let mut world = World::new(RULES, 4, 0).with_retries(policy);
    let (partition, poison) = (of(POISON.0), POISON.1);
    world.ends.insert(partition.clone(), 100);
    world.commit(&partition, poison);
    assert!(!world.nack(&partition, poison), "its first failure is its last one");
    world.commit(&partition, 60);
    let mut app = world.start(Commits::Never);
    app.seeks(&partition, 50);
    world.fetch(&app, None);
    world.lose(&app);
    // The commit goes back below the dead letter, so the record counts as new.
    world.commit(&partition, 55);
    let deaths = run(&mut world, Commits::PerRecord, 0);
    assert!(deaths <= RESTARTS_MAX, "{deaths} restarts");
    let dead: Vec<i64> = world.dead.iter().map(|dead| dead.offset).collect();
    assert_eq!(dead, [poison]);
}

#[test]
fn losses_below_the_crash_limit_change_no_delivery() {
    let mut world = World::committed(RULES, 2, 100);
    for _ in 1..RULES.suspects.crash_limit {
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
fn a_pending_fetch_of_a_lost_member_adds_no_loss() {
    let mut world = World::committed(RULES, 1, 10);
    let mut app = world.start(Commits::PerBatch);
    assert!(!app.poll(&mut world, |_, _| Did::Die(0)));
    world.lose(&app);
    let brought = world.fetch(&app, None);
    assert!(brought.records.is_empty(), "its last Fetch, looked at again");
    let mut next = world.start(Commits::PerBatch);
    assert!(!next.poll(&mut world, |_, _| Did::Die(0)));
    assert_eq!(world.losses(), 1, "the second one is not lost yet");
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
    // From its first commit on, the group is like any other.
    world.commit(&of(0), 0);
    world.commit(&of(1), 0);
    for _ in 0..RULES.suspects.crash_limit {
        let app = world.start(Commits::Never);
        world.fetch(&app, None);
        world.lose(&app);
    }
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    assert_eq!(world.losses(), RULES.suspects.crash_limit);
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

/// Loses all members `times` times, with all the records they got.
fn outage(world: &mut World, times: u32) {
    for _ in 0..times {
        let mut app = world.start(Commits::PerBatch);
        while app.poll(world, |_, _| Did::Die(0)) {}
        world.lose(&app);
        world.pass(3_000);
    }
}

#[test]
fn a_consumer_flows_again_once_it_has_recovered() {
    let mut world = World::committed(RULES, 4, 5_000);
    outage(&mut world, 6);
    let (began, mut app) = (world.at, world.start(Commits::PerBatch));
    while !world.is_all_committed() {
        assert!(app.poll(&mut world, |_, _| Did::Well(0)));
    }
    let took_ms = world.at - began;
    assert!(took_ms < 10_000, "20 000 records after an outage: {took_ms} ms");
    assert_eq!((world.dead.len(), world.kept_suspects.clone()), (0, None));
}

#[test]
fn a_consumer_with_timed_commits_flows_after_an_outage() {
    let mut world = World::committed(RULES, 4, 5_000);
    outage(&mut world, 6);
    let (began, mut app) = (world.at, world.start(Commits::Every(60_000)));
    while !world.is_all_committed() {
        assert!(app.poll(&mut world, |_, _| Did::Well(0)));
    }
    assert!(world.at - began < 200_000, "{} ms", world.at - began);
    assert_eq!((world.dead.len(), world.charged()), (0, vec![]));
}

#[test]
fn an_outage_of_an_hour_makes_no_dead_letter() {
    let mut world = World::committed(RULES, 3, 100);
    let ends = world.at + 3_600_000;
    while world.at < ends {
        outage(&mut world, 1);
    }
    assert_eq!(world.dead, []);
    let mut app = world.start(Commits::PerRecord);
    while !world.is_all_committed() {
        assert!(app.poll(&mut world, |_, _| Did::Well(1)));
    }
    assert_eq!((world.dead.len(), world.kept_suspects.clone()), (0, None));
}

#[test]
fn a_withheld_record_is_dead_before_a_commit_passes_it() {
    let mut world = World::committed(RULES, 1, 20);
    let mut app = world.start(Commits::PerRecord);
    let (mut deaths, began) = (0, world.at);
    while !world.is_all_committed() {
        if !app.poll(&mut world, |_, at| if at == 0 { Did::Die(0) } else { Did::Well(1) }) {
            deaths += 1;
            assert!(deaths < 200, "{:?}", world.kept_suspects);
            world.lose(&app);
            world.pass(3_000);
            app = world.start(Commits::PerRecord);
        }
        assert!(world.committed[&of(0)] == 0 || world.dead.len() == 1, "it is lost");
    }
    let took_ms = world.at - began;
    let given_up_ms = RULES.suspects.give_up_after_ms.unwrap();
    assert!((given_up_ms..3 * given_up_ms).contains(&took_ms), "{took_ms} ms");
    assert_eq!(world.dead[0].offset, 0);
}

#[test]
fn with_the_retry_topic_the_second_failure_makes_an_entry() {
    let mut world = World::committed(RULES, 2, 50).with_retries(Policy::default());
    let mut app = world.start(Commits::PerRecord);
    let mut deaths = 0;
    while world.dead.is_empty() {
        if !app.poll(&mut world, |of, at| match (of.partition, at) {
            (1, 7) => Did::Die(0),
            _ => Did::Well(1),
        }) {
            deaths += 1;
            assert!(deaths < 30, "{:?}", world.kept_suspects);
            world.lose(&app);
            world.pass(1_000);
            for partition in 0..2 {
                *world.ends.get_mut(&of(partition)).unwrap() += 10;
            }
            app = world.start(Commits::PerRecord);
        }
    }
    let settled = &world.dead[0];
    assert_eq!((settled.offset, settled.is_retried, settled.reconsume_times), (7, true, 1));
}

#[test]
fn suspects_survive_a_restart_of_the_sidecar() {
    let mut world = World::committed(RULES, 2, 200);
    outage(&mut world, RULES.suspects.crash_limit);
    let before = world.kept_suspects.clone();
    assert!(before.is_some());
    world.restart();
    let app = world.start(Commits::PerRecord);
    assert_eq!(world.fetch(&app, None).records.len(), 50, "an eighth of 400");
    assert_eq!(world.kept_suspects, before);
}

#[test]
fn a_deploy_writes_nothing() {
    let mut world = World::committed(RULES, 2, 200);
    for _ in 0..20 {
        let mut app = world.start(Commits::PerBatch);
        world.fetch(&app, None);
        world.lose(&app);
        assert_eq!(world.kept_suspects, None);
        app = world.start(Commits::PerBatch);
        assert!(app.poll(&mut world, |_, _| Did::Well(1)));
        world.lose(&app);
        for partition in 0..2 {
            *world.ends.get_mut(&of(partition)).unwrap() += 10;
        }
    }
    assert_eq!(world.touched, 0);
}

#[test]
fn an_offset_that_an_administrator_sets_ends_the_suspicion() {
    for to in [0, 3] {
        let mut world = World::narrow(RULES);
        assert_eq!(world.losses(), RULES.suspects.crash_limit);
        let (now, partition) = (world.now(), of(0));
        world.detector.handle(now, GroupObservation::Reset { partition, offset: to });
        world.drain();
        assert_eq!((world.losses(), world.kept_suspects.clone()), (0, None), "to {to}");
    }
}

#[test]
fn a_refused_commit_and_its_member_are_one_loss() {
    let mut world = World::committed(RULES, 1, 10);
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    let (now, member) = (world.now(), app.by.member.clone());
    let refused =
        GroupObservation::CommitRefused { member: member.clone(), partitions: vec![of(0)] };
    world.detector.handle(now, refused);
    world.detector.handle(now, GroupObservation::Lost { member, left: false });
    world.drain();
    assert_eq!(world.losses(), 1);
}

/// Java's `commitSync()` after each poll repeats commits.
#[test]
fn an_outage_with_repeated_commits_kills_no_record() {
    let mut world = World::committed(RULES, 1, 1);
    let outage = RULES.suspects.give_up_after_ms.unwrap();
    while world.at < outage && world.dead.is_empty() {
        let mut app = world.start(Commits::Never);
        while world.dead.is_empty() && app.poll(&mut world, |_, _| Did::Die(1_000)) {
            world.commit(&of(0), 0);
        }
        world.lose(&app);
        world.pass(3_000);
    }
    assert_eq!(world.dead, []);
}
