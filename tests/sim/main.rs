//! The engine and its journal in a simulation with power cuts. No acknowledged record is lost or
//! delivered again, no count falls, and no delivery is early. The state read back equals the live
//! state.
//!
//! `SIM_SEEDS=500 cargo test --release --test sim -- --nocapture` runs more seeds; `SIM_SEED=<n>`
//! runs one again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    clippy::print_stdout,
    clippy::single_match_else,
    clippy::needless_pass_by_value,
    clippy::double_ended_iterator_last,
    missing_docs,
    unreachable_pub,
    reason = "a test may stop at a surprise, and none of this is a library"
)]

mod cluster;
mod compare;
mod detector;
mod held;
mod imported;
mod invariants;
mod lost_index;
#[path = "../support/mem_disk.rs"]
mod mem_disk;
mod model;
mod nacks;
mod release;
mod script;
mod transactions;
#[path = "../detection/inference/turn.rs"]
mod turn;
mod world;
mod writer;

use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use reprise::journal::{Disk, DiskFile};
use script::{Cuts, Ran, run};

/// Events of one run.
const STEPS: u32 = 400;
/// Events of one run with transactions, which are cheaper.
const TRANSACTION_STEPS: u32 = 2_000;
/// Runs of an ordinary test.
const SEEDS: u64 = 4;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn the_same_seed_gives_the_same_run() {
    for seed in [1, 2] {
        let first = run(seed, STEPS, Cuts::Random);
        assert_eq!(run(seed, STEPS, Cuts::Random), first, "seed {seed}");
        assert!(first.crashes > 1 && first.released > 10, "too little happened: {first:?}");
        assert_ne!(run(seed + 10, STEPS, Cuts::Random).trace, first.trace);
    }
}

fn a_power_cut_at_any_write_loses_nothing() {
    let steps = 120;
    let whole = run(3, steps, Cuts::Never);
    assert!(whole.operations > 60, "{whole:?}");
    let stride = if number("SIM_SEEDS").is_some() { 1 } else { 11 };
    let failed = each(0..whole.operations.div_ceil(stride), |n| {
        let cut = 1 + n * stride;
        let survived = catch_unwind(AssertUnwindSafe(|| run(3, steps, Cuts::At(cut)))).is_ok();
        println!("power cut at operation {cut} of {}, survived: {survived}", whole.operations);
        !survived
    });
    assert!(!failed.contains(&true), "the power cuts above failed");
}

fn nothing_is_lost_for_any_seed() {
    let all = sound(seeds(), "nothing", |seed| run(seed, STEPS, Cuts::Random));
    let sum = |of: fn(&Ran) -> u32| all.iter().map(of).sum::<u32>();
    let (released, unnoted) = (sum(|ran| ran.released), sum(|ran| ran.unnoted));
    let (postponed, held) = (sum(|ran| ran.postponed), sum(|ran| ran.held.0));
    let (ended, crashes) = (sum(|ran| ran.held.1), sum(|ran| ran.crashes));
    println!("sim: {released} released, {unnoted} batches not noted, {postponed} nacks postponed");
    println!("sim: {crashes} crashes, {held} held, {ended} of them dead letters");
    println!("sim: {} seeds, 0 failed", all.len());
    let is_short = u64::try_from(all.len()).unwrap() < SEEDS;
    let counts = [released / 100, unnoted, postponed, held, ended];
    assert!(is_short || !counts.contains(&0), "too little happened: {counts:?}");
}

/// The runs of all seeds, none of which may fail.
fn sound<T: Send>(seeds: Range<u64>, test: &str, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let count = seeds.end - seeds.start;
    let ran = each(seeds, |seed| {
        let ran = catch_unwind(AssertUnwindSafe(|| run(seed))).ok();
        if ran.is_none() {
            println!("SIM_SEED={seed} cargo test --release --test sim -- {test}");
        }
        ran
    });
    let ran: Vec<T> = ran.into_iter().flatten().collect();
    assert_eq!(u64::try_from(ran.len()).unwrap(), count, "the seeds above failed");
    ran
}

/// Results of `of` for all numbers, computed on every core; in no order.
fn each<T: Send>(numbers: Range<u64>, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(numbers.start);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < numbers.end);
    let work = || std::iter::from_fn(take).map(&of).collect::<Vec<T>>();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn seeds() -> Range<u64> {
    match (number("SIM_SEED"), number("SIM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..SEEDS,
    }
}

fn transactions_are_whole_for_any_seed() {
    let all = sound(seeds(), "transactions", |seed| transactions::run(seed, TRANSACTION_STEPS));
    let crashes: usize = all.iter().map(|ran| ran.crashes as usize).sum();
    let committed: usize = all.iter().map(|ran| ran.committed).sum();
    let aborted: usize = all.iter().map(|ran| ran.aborted).sum();
    let least = all.len();
    println!(
        "sim: transactions: {least} seeds, 0 failed, {crashes} crashes, {committed} committed, \
         {aborted} aborted"
    );
    let is_enough = committed > 10 * least && aborted > 10 * least && crashes > 2 * least;
    assert!(is_enough, "too little happened: {crashes}, {committed}, {aborted}");
}

fn a_dead_letter_is_cut_or_passed_for_any_seed() {
    let seeds = match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds().end * 25,
    };
    let all = sound(seeds, "cut_or_passed", |seed| detector::run(seed, detector::Cut::Disk));
    let crashes: usize = all.iter().map(|ran| ran.crashes).sum();
    let stops: usize = all.iter().map(|ran| ran.stops).sum();
    println!("sim: detector: {} seeds, 0 failed, {crashes} crashes, {stops} stops", all.len());
    assert!(all.len() < 25 || (crashes > 0 && stops > 0), "too little happened");
}

fn a_power_cut_at_every_await_parts_nothing() {
    let seeds = number("SIM_SEEDS").unwrap_or(12);
    let runs = |seed| {
        let whole = detector::run(seed, detector::Cut::Await(u64::MAX));
        let cut = |at: &u64| {
            let ran = catch_unwind(|| detector::run(seed, detector::Cut::Await(*at)));
            let holds = ran.is_ok_and(|ran| ran.crashes == 1);
            holds || {
                println!("seed {seed}, power cut at await {at}");
                false
            }
        };
        (whole.awaits, (1..=whole.awaits).filter(|at| !cut(at)).count())
    };
    let ran = each(0..seeds, runs);
    let awaits: u64 = ran.iter().map(|(awaits, _)| awaits).sum();
    println!("sim: {awaits} power cuts at awaits of {seeds} seeds");
    assert!(ran.iter().all(|(_, failed)| *failed == 0), "the power cuts above failed");
    assert!(awaits > seeds * 20, "too few awaits");
}

fn main() {
    let checks: [(&str, fn()); 8] = [
        ("a_power_cut_at_every_await_parts_nothing", a_power_cut_at_every_await_parts_nothing),
        (
            "a_dead_letter_is_cut_or_passed_for_any_seed",
            a_dead_letter_is_cut_or_passed_for_any_seed,
        ),
        ("the_same_seed_gives_the_same_run", the_same_seed_gives_the_same_run),
        ("a_power_cut_at_any_write_loses_nothing", a_power_cut_at_any_write_loses_nothing),
        (
            "what_was_settled_leaves_the_disk_whatever_look_up_file_is_lost",
            lost_index::what_was_settled_leaves_the_disk_whatever_look_up_file_is_lost,
        ),
        (
            "power_lost_again_and_again_after_that_changes_nothing",
            lost_index::power_lost_again_and_again_after_that_changes_nothing,
        ),
        ("transactions_are_whole_for_any_seed", transactions_are_whole_for_any_seed),
        ("nothing_is_lost_for_any_seed", nothing_is_lost_for_any_seed),
    ];
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let only_seed = number("SIM_SEED").is_some();
    for (name, check) in checks {
        let wanted = filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
        if wanted && (!only_seed || name.contains("any_seed")) {
            check();
        }
    }
}
