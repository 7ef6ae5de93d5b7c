//! A dependency of the handler fails for ten minutes, in virtual time: each record handled
//! meanwhile fails. Afterwards no record may be a dead letter, and all must be handled.
//!
//! `cargo test --test detection outage -- --nocapture` prints a line for each case;
//! `OUTAGE_RECORDS=<n>` sets the number of records.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test"
)]

mod member;
mod world;

use world::{Fails, Ran, RetryWay, World};

/// Seconds for which the handler fails.
const OUTAGE_S: u64 = 600;

fn records() -> i64 {
    let told = std::env::var("OUTAGE_RECORDS").ok().map(|n| n.parse().unwrap());
    told.unwrap_or(100_000)
}

fn run(place: RetryWay, partitions: i32, fails: Fails) -> Ran {
    let records = match fails {
        Fails::InTheOutage => records(),
        // Each record that always fails is tested by itself.
        Fails::OneOf(_) => records() / 10,
    };
    let ran = World::new(place, partitions, records, OUTAGE_S, fails).run();
    let Ran { records, dead, lost, tested, charged, most, .. } = ran;
    println!(
        "outage: {records} records, {partitions} partitions, {place}, {OUTAGE_S} s{fails}: \
         {dead} dead letters, {lost} lost, {tested} tested; {charged} records charged, \
         {most} times at most"
    );
    assert_eq!(lost, 0);
    ran
}

#[test]
fn no_nack_in_an_outage_becomes_a_dead_letter() {
    for partitions in [1, 3, 8, 64] {
        let ran = run(RetryWay::Retries, partitions, Fails::InTheOutage);
        assert_eq!(ran.dead, 0, "{partitions} partitions");
        assert!((100..400).contains(&ran.tested), "test batches of 20: {}", ran.tested);
        let (enough, in_hand) = (51, 100);
        assert!(ran.charged <= enough + in_hand + ran.tested, "{ran:?}");
        // A retry may be a record of a later test batch.
        assert!(ran.most <= 2, "{ran:?}");
    }
}

#[test]
fn no_sought_back_record_of_an_outage_is_lost() {
    for partitions in [1, 3, 8, 64] {
        let ran = run(RetryWay::InPlace, partitions, Fails::InTheOutage);
        assert_eq!(ran.dead, 0, "{ran:?}");
    }
}

#[test]
fn only_permanently_failing_records_become_dead_letters() {
    let ran = run(RetryWay::InPlace, 8, Fails::OneOf(100));
    assert_eq!(ran.dead, ran.poisonous, "{ran:?}");
}
