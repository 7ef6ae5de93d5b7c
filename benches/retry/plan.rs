//! The detector's cost of a healthy Fetch, its records and their commit, in a group with few
//! partitions and in one with many.

use std::hint::black_box;

use reprise::clock::Clock;
use reprise::model::{MemberId, Moment, MonoMs, OffsetRuns, TopicPartition, WallMs};
use reprise::retry::detector::{
    DeliveredRange, Detector, FetchPosition, GroupObservation, MemberFetch, Rules,
};
use reprise::retry::{Policy, RetrySubscription};

use crate::sheet::{Goal, median};
use crate::tell;

/// Partitions of one member, all of which each Fetch names.
const FETCHED: i32 = 10;
const FEW: i32 = FETCHED;
const MANY: i32 = 10_000;
const FETCHES: i64 = 20_000;
/// Records of one partition in an answer.
const RECORDS: i64 = 50;

pub(crate) fn run() {
    let few = median((0..5).map(|_| fetch_us(FEW)).collect());
    let many = median((0..5).map(|_| fetch_us(MANY)).collect());
    tell("plan_many_partitions", many, "us", Some(few), Goal::Most(1.5 * few));
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

/// Microseconds of one Fetch in a group with `partitions` partitions.
fn fetch_us(partitions: i32) -> f64 {
    let mut detector = Detector::new(Rules::from(&Policy::default()));
    let now = |ms: u64| Moment { wall: WallMs(0), mono: MonoMs(ms) };
    let mut first = None;
    for member in 0..partitions / FETCHED {
        let by = joined(&mut detector, now(1), member);
        fetch(&mut detector, now(2), &by, member * FETCHED, 0);
        first.get_or_insert(by);
    }
    let by = first.unwrap();
    let clock = Clock::start();
    for n in 1..=FETCHES {
        fetch(&mut detector, now(u64::try_from(n).unwrap()), &by, 0, n * RECORDS);
    }
    black_box(&detector);
    clock.elapsed().as_secs_f64() * 1e6 / f64::from(i32::try_from(FETCHES).unwrap())
}

fn joined(detector: &mut Detector, now: Moment, member: i32) -> MemberFetch {
    let id = MemberId::new(&format!("m{member}"));
    detector.handle(now, GroupObservation::Assigned { member: id.clone(), epoch: 1 });
    MemberFetch {
        member: id,
        came: now.mono,
        conn: 1,
        max_wait_ms: 500,
        retries: RetrySubscription::default(),
    }
}

fn fetch(detector: &mut Detector, now: Moment, by: &MemberFetch, first: i32, offset: i64) {
    let asked: Vec<FetchPosition> = (first..first + FETCHED)
        .map(|partition| FetchPosition { partition: place(partition), offset })
        .collect();
    assert!(detector.asked(now, by, &asked).is_open(), "nothing is suspected");
    let handed: Vec<DeliveredRange> = asked
        .into_iter()
        .map(|ask| DeliveredRange {
            partition: ask.partition,
            from: offset,
            end: offset + RECORDS,
            turn: None,
            hidden: OffsetRuns::default(),
            sparse: Vec::new(),
        })
        .collect();
    detector.handed(now, by, &handed);
    for DeliveredRange { partition, end, .. } in handed {
        detector.handle(now, GroupObservation::Committed { partition, offset: end });
    }
    while detector.poll_output().is_some() {}
}
