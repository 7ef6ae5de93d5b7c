//! E9: a member that lives and does not commit.

use crate::RULES;
use crate::app::{App, Commits, Did, World, of};
use reprise::model::MonoMs;
use reprise::retry::Disposition;
use reprise::retry::watch::Rules;

const T_MS: u64 = 60_000;
const SHORT: Rules = Rules { consume_timeout_ms: T_MS, ..RULES };

/// One Fetch of all there is; how many records it brings.
fn fetch(world: &mut World, app: &mut App) -> usize {
    app.by.came = MonoMs(world.at);
    let records = world.fetch(app, None).records;
    for (partition, offset) in &records {
        app.positions.insert(partition.clone(), offset + 1);
    }
    records.len()
}

/// A group that has committed, and a member of it.
fn group(partitions: i32, records: i64) -> (World, App) {
    ruled(SHORT, partitions, records)
}

fn ruled(rules: Rules, partitions: i32, records: i64) -> (World, App) {
    let mut world = World::new(rules, partitions, records);
    for partition in 0..partitions {
        world.commit(&of(partition), 0);
    }
    let app = world.start(Commits::Never);
    (world, app)
}

/// The handler does not come back; the sidecar looks once a second.
fn hang(world: &mut World, ms: u64) {
    for _ in 0..ms / 1_000 {
        world.pass(1_000);
    }
}

#[test]
fn one_that_is_out_alone_has_failed_after_the_timeout_once_and_a_late_commit_takes_it_back() {
    let (mut world, mut app) = group(1, 1);
    assert_eq!(fetch(&mut world, &mut app), 1);
    assert_eq!(fetch(&mut world, &mut app), 0, "the client asks for more, and hangs");
    hang(&mut world, T_MS - 1_000);
    assert_eq!(world.charged(), [], "never early");
    hang(&mut world, 1_000);
    assert_eq!(world.charged(), [(0, 0, 1)]);
    hang(&mut world, 10 * T_MS);
    assert_eq!((world.charged(), world.dead.len()), (vec![(0, 0, 1)], 0), "of one delivery");
    world.commit(&of(0), 1);
    assert_eq!(world.charged(), []);
}

#[test]
fn with_a_way_back_it_leaves_its_hand_and_a_commit_before_it_left_again_is_told() {
    let (mut world, mut app) = group(1, 1);
    app.by.has_lane = true;
    fetch(&mut world, &mut app);
    fetch(&mut world, &mut app);
    hang(&mut world, T_MS);
    let dead = &world.dead[0];
    assert_eq!((dead.offset, dead.reconsume_times, dead.is_retried), (0, 0, true));
    assert_eq!(dead.disposition, Disposition::Timeout);
    hang(&mut world, 5 * T_MS);
    assert_eq!((world.dead.len(), world.withdrawn.len()), (1, 0));
    world.commit(&of(0), 1);
    assert_eq!(world.withdrawn, [(of(0), 0)]);
    world.commit(&of(0), 1);
    assert_eq!(world.withdrawn.len(), 1, "told once");
}

#[test]
fn whoever_gets_its_partition_next_commits_past_what_it_never_had() {
    for is_lost in [true, false] {
        let (mut world, mut app) = group(1, 1);
        app.by.has_lane = true;
        fetch(&mut world, &mut app);
        fetch(&mut world, &mut app);
        hang(&mut world, T_MS);
        if is_lost {
            world.lose(&app);
        }
        world.ends.insert(of(0), 2);
        let mut next = world.start(Commits::PerRecord);
        next.by.has_lane = true;
        while !world.is_all_committed() {
            next.poll(&mut world, |_, offset| {
                assert_eq!(offset, 1, "it waits in the queue");
                Did::Well(1)
            });
        }
        assert_eq!((world.dead.len(), world.withdrawn), (1, vec![]), "lost: {is_lost}");
    }
}

#[test]
fn of_several_the_first_is_suspected_served_alone_and_charged_when_it_hangs_again() {
    let (mut world, mut app) = group(1, 5);
    assert_eq!(fetch(&mut world, &mut app), 5);
    hang(&mut world, 3 * T_MS);
    assert_eq!(world.charged(), [], "it may be any of them");
    world.lose(&app);
    let mut app = world.start(Commits::Never);
    assert_eq!(fetch(&mut world, &mut app), 1, "alone");
    assert_eq!(fetch(&mut world, &mut app), 0);
    world.pass(RULES.narrow_patience_ms);
    while fetch(&mut world, &mut app) > 0 {}
    assert_eq!(world.deliveries[&(of(0), 4)], 2, "the others go on");
    hang(&mut world, T_MS);
    assert_eq!(world.charged(), [(0, 0, 1)]);
}

#[test]
fn each_delivery_counts_once_also_when_its_member_is_lost_in_the_end() {
    let (mut world, app) = group(1, 1);
    world.lose(&app);
    for failures in 1..=SHORT.seek_back_limit {
        let mut app = world.start(Commits::Never);
        while fetch(&mut world, &mut app) == 0 {
            world.pass(100);
        }
        fetch(&mut world, &mut app);
        hang(&mut world, T_MS);
        assert_eq!(world.charged(), [(0, 0, failures)]);
        world.lose(&app);
    }
    let mut app = world.start(Commits::Never);
    while fetch(&mut world, &mut app) == 0 {
        world.pass(100);
    }
    hang(&mut world, T_MS);
    let dead = &world.dead[0];
    assert_eq!((dead.reconsume_times, dead.is_retried), (SHORT.seek_back_limit, false));
    assert_eq!(dead.disposition, Disposition::Timeout);
}

#[test]
fn a_group_that_never_commits_is_never_judged() {
    let mut world = World::new(SHORT, 1, 1);
    let mut app = world.start(Commits::Never);
    fetch(&mut world, &mut app);
    fetch(&mut world, &mut app);
    hang(&mut world, 10 * T_MS);
    assert_eq!((world.charged(), world.touched), (vec![], 0));
}

#[test]
fn whoever_is_slow_and_goes_on_is_never_judged() {
    for commits in [Commits::PerRecord, Commits::Every(5_000)] {
        let mut world = World::new(SHORT, 1, 300);
        world.commit(&of(0), 0);
        let mut app = world.start(commits);
        while !world.is_all_committed() {
            assert!(app.poll(&mut world, |_, _| Did::Well(2_000)));
        }
        assert_eq!((world.touched, world.dead.len(), world.charged()), (0, 0, vec![]));
    }
}

#[test]
fn one_that_lies_in_the_buffer_of_a_paused_partition_has_not_failed() {
    for pauses in [true, false] {
        let (mut world, mut app) = group(2, 1);
        world.ends.insert(of(1), 0);
        assert_eq!(fetch(&mut world, &mut app), 1);
        for _ in 0..2 * T_MS / 1_000 {
            world.pass(1_000);
            let only = pauses.then(|| std::iter::once(of(1)).collect());
            world.fetch(&app, only.as_ref());
        }
        assert_eq!(world.charged().is_empty(), pauses, "pauses: {pauses}");
    }
}

#[test]
fn a_pool_whose_last_commit_goes_backwards_has_done_what_it_has_committed() {
    let (mut world, mut app) = group(1, 3);
    fetch(&mut world, &mut app);
    fetch(&mut world, &mut app);
    world.commit(&of(0), 3);
    world.commit(&of(0), 2);
    hang(&mut world, 3 * T_MS);
    assert_eq!(world.charged(), []);
    assert!(world.watch.explain(world.now())[0].suspects.is_empty());
}

/// Nothing is a dead letter without a last try, and nothing is charged for the time in which its
/// member was at another record.
#[test]
fn one_beside_which_others_were_out_has_its_time_from_when_they_were_done() {
    for max_reconsume_times in [16, 0] {
        let (mut world, mut app) = ruled(Rules { max_reconsume_times, ..SHORT }, 2, 1);
        assert_eq!(fetch(&mut world, &mut app), 2);
        fetch(&mut world, &mut app);
        hang(&mut world, T_MS - 5_000);
        world.commit(&of(1), 1);
        hang(&mut world, T_MS - 1_000);
        assert_eq!((world.charged(), world.dead.len()), (vec![], 0), "its member was busy");
        hang(&mut world, 1_000);
        let is_last = max_reconsume_times == 0;
        assert_eq!(world.charged().len(), usize::from(!is_last));
        assert_eq!(world.dead.len(), usize::from(is_last), "alone for the timeout, and no retry");
    }
}

#[test]
fn one_of_several_is_no_dead_letter_though_there_are_no_retries() {
    for has_lane in [false, true] {
        let none = Rules { max_reconsume_times: 0, seek_back_limit: 0, ..SHORT };
        let (mut world, mut app) = ruled(none, 2, 3);
        app.by.has_lane = has_lane;
        assert_eq!(fetch(&mut world, &mut app), 6);
        fetch(&mut world, &mut app);
        hang(&mut world, 5 * T_MS);
        assert_eq!((world.charged(), world.dead.len()), (vec![], 0), "others are out");
        world.commit(&of(0), 2);
        hang(&mut world, T_MS - 1_000);
        world.commit(&of(1), 3);
        hang(&mut world, T_MS - 1_000);
        assert_eq!(world.dead.len(), 0);
        hang(&mut world, 1_000);
        let dead: Vec<i64> = world.dead.iter().map(|settling| settling.offset).collect();
        assert_eq!(dead, [2], "the only one that is out, for all of the timeout");
    }
}

#[test]
fn a_restart_in_between_puts_nobody_else_in_the_place_of_the_one_that_hangs() {
    let (mut world, mut app) = group(1, 1);
    assert_eq!(fetch(&mut world, &mut app), 1);
    world.restart();
    world.reconnect(&mut app);
    world.ends.insert(of(0), 2);
    assert_eq!(fetch(&mut world, &mut app), 1, "its client asks for more, and is given it");
    assert_eq!(fetch(&mut world, &mut app), 0);
    hang(&mut world, 3 * T_MS);
    let charged = world.charged();
    assert!(charged.iter().all(|(_, offset, _)| *offset == 0), "{charged:?}");
}
