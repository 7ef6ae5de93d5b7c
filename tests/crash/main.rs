//! Kills the real process at random moments under produce, nack and commit load. No acknowledged
//! record is lost, no count falls, no delivery is early, and no final record comes again.
//! Transactions are visible whole, with their offsets, or not at all.
//!
//! `CRASH_CYCLES=2000 cargo test --release --test crash -- --nocapture` is the full run;
//! `CRASH_SEED=<n>` chooses another one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a test may stop at a surprise, and none of this is a library"
)]

mod application;
mod ledger;
mod payments;
mod sidecar;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use application::Application;
use ledger::Verdict;
use payments::Payments;
use sidecar::Sidecar;

/// Acknowledged operations in every life before it may end.
const OPERATIONS: u64 = 100;
/// One life of this many is long enough for retention and compaction.
const LONG_LIFE_EVERY: u64 = 200;
const LONG_LIFE: Duration = Duration::from_secs(7);
/// After this time, records that are not drained count as lost.
const DRAIN: Duration = Duration::from_secs(30);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if !filters.is_empty() && !filters.iter().any(|filter| "crash".contains(filter.as_str())) {
        return;
    }
    let cycles = number("CRASH_CYCLES").unwrap_or(20);
    let seed = number("CRASH_SEED").unwrap_or(1);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut sidecar = Sidecar::new(dir.path());
    let mut application = Application::new(seed);
    let mut payments = Payments::new(seed);
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xdead);
    let mut least = u64::MAX;
    for cycle in 1..=cycles {
        let load = (&mut application, &mut payments);
        least = least.min(life(&mut sidecar, load, &mut rng, cycle));
        if cycle % 100 == 0 {
            println!("{cycle} cycles, {} records", application.ledger.items.len());
        }
    }
    assert!(cycles == 0 || least >= OPERATIONS, "{least} operations in a life");
    let address = sidecar.start();
    application.draining = true;
    let began = Instant::now();
    let until = |app: &Application| app.ledger.is_done() || began.elapsed() > DRAIN;
    application.live(address, until).unwrap();
    application.bury(address).unwrap();
    let paid = payments.close(address).unwrap();
    println!("crash: transactions: {paid:?}");
    assert!(cycles == 0 || paid.committed as u64 > cycles, "too little was committed");
    assert!(cycles == 0 || paid.not_committed as u64 > cycles, "too little was not");
    application.ledger.close();
    let ledger = &application.ledger;
    println!("crash: {} records, {} redeliveries", ledger.items.len(), ledger.redelivered);
    assert!(cycles == 0 || ledger.redelivered > cycles, "too little came back");
    let Verdict { lost, early, fell, duplicates } = ledger.verdict;
    if ledger.verdict != Verdict::default() {
        println!("{}", std::fs::read_to_string(sidecar.log()).unwrap_or_default());
    }
    println!(
        "crash: {cycles} cycles, {lost} lost, {early} early, {fell} counts fell, \
         {duplicates} duplicates beyond those in flight"
    );
    assert_eq!(ledger.verdict, Verdict::default());
}

/// One life: start, load, kill −9 at a random moment. Returns the acknowledged operations.
fn life(
    sidecar: &mut Sidecar,
    (application, payments): (&mut Application, &mut Payments),
    rng: &mut fastrand::Rng,
    cycle: u64,
) -> u64 {
    let address = sidecar.start();
    let mut child = sidecar.take();
    let acknowledged = Arc::clone(&application.acknowledged);
    let before = acknowledged.load(Ordering::Relaxed);
    let killed = Arc::new(AtomicBool::new(false));
    let long = cycle.is_multiple_of(LONG_LIFE_EVERY);
    let enough = before + OPERATIONS + rng.u64(..30);
    let pause = Duration::from_micros(rng.u64(..5_000));
    let killer = {
        let (killed, acknowledged) = (Arc::clone(&killed), Arc::clone(&acknowledged));
        thread::spawn(move || {
            let began = Instant::now();
            while acknowledged.load(Ordering::Relaxed) < enough
                || (long && began.elapsed() < LONG_LIFE)
            {
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(pause);
            killed.store(true, Ordering::Release);
            child.kill().unwrap();
            child.wait().unwrap();
        })
    };
    thread::scope(|scope| {
        let paid = scope.spawn(|| payments.live(address));
        let ended = application.live(address, |_| false);
        assert!(killed.load(Ordering::Acquire), "the connection broke by itself: {ended:?}");
        let paid = paid.join().unwrap();
        assert!(killed.load(Ordering::Acquire), "the connection broke by itself: {paid:?}");
    });
    killer.join().unwrap();
    acknowledged.load(Ordering::Relaxed) - before
}
