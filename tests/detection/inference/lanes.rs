//! Retries that are outstanding at a member: no other record of it counts as isolated.

use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World};
use reprise::model::{LaneOffset, RetryPartition};
use reprise::retry::detector::{GroupObservation, LaneGiven};

const SLOT: RetryPartition = RetryPartition(3);

fn lane(sequence: u64) -> LaneOffset {
    LaneOffset { slot: SLOT, sequence }
}

/// Answers a Fetch of the retry topic with these retries. `waits`: a retry is due, but had no turn.
fn lane_gives(world: &mut World, app: &App, out: &[u64], waits: bool) {
    let out = out.iter().map(|sequence| lane(*sequence)).collect();
    let member = app.by.member.clone();
    let told = LaneGiven { member, slot: SLOT, out, waits, single: None };
    seen(world, GroupObservation::LaneGiven(told));
}

fn seen(world: &mut World, seen: GroupObservation) {
    let now = world.now();
    world.detector.handle(now, seen);
    world.drain();
}

fn turn(world: &mut World) -> Option<usize> {
    let now = world.now();
    world.detector.lane_turn(now, SLOT).0
}

#[test]
fn a_seek_during_an_open_retry_is_no_failure() {
    let mut world = World::new(RULES, 1, 3);
    let mut app = world.start(Commits::PerRecord);
    lane_gives(&mut world, &app, &[4], false);
    for is_out in [true, false] {
        for _ in 0..100 {
            app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
        }
        assert_eq!(world.charged().is_empty() && world.dead.is_empty(), is_out);
        seen(&mut world, GroupObservation::LaneBelow { up_to: lane(5) });
    }
}

/// Number of crashes by record 17 until it is a dead letter and all else is committed. Retries are
/// always due; `late`: they are acknowledged with the next poll.
fn deaths_among_retries(late: bool) -> u32 {
    let mut world = World::committed(RULES, 3, 30);
    let mut app = world.start(Commits::PerRecord);
    let (mut deaths, mut retries) = (0, 0);
    for _ in 0..20_000 {
        if turn(&mut world) == Some(0) {
            lane_gives(&mut world, &app, &[], true);
        } else {
            lane_gives(&mut world, &app, &[retries], false);
            retries += 1;
            world.pass(2);
        }
        let done = GroupObservation::LaneBelow { up_to: lane(retries) };
        if !late {
            seen(&mut world, done.clone());
        }
        let lives = app.poll(&mut world, |of, offset| {
            if (of.partition, offset) == (1, 17) { Did::Die(0) } else { Did::Well(1) }
        });
        if lives {
            seen(&mut world, done);
        } else {
            deaths += 1;
            world.lose(&app);
            world.pass(3_000);
            app = world.start(Commits::PerRecord);
        }
        if world.is_all_committed() {
            let dead: Vec<i64> = world.dead.iter().map(|dead| dead.offset).collect();
            assert_eq!((dead, world.charged()), (vec![17], vec![]));
            assert!(retries > 20, "they had their turns: {retries}");
            return deaths;
        }
    }
    panic!("it never ends: {:?}, {deaths} deaths", world.committed);
}

#[test]
fn a_crashing_record_is_found_among_retries() {
    let most = 7 + 4 * RULES.suspects.in_place_limit;
    for late in [false, true] {
        let deaths = deaths_among_retries(late);
        assert!((RULES.suspects.crash_limit..=most).contains(&deaths), "{deaths}, late: {late}");
    }
}
