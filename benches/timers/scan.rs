//! A scan of all waiting retries in due order, compared with a `BTreeSet` in memory.

use std::collections::BTreeSet;
use std::hint::black_box;

use reprise::clock::Clock;

use crate::RETRY;
use crate::sheet::{Figure, Goal, median};
use crate::sidecar::Sidecar;
use crate::wire::Wire;

const ROUNDS: usize = 3;

/// Fetches the last record of the retry topic's snapshot. The engine walks all retries before it
/// in due order; the CPU time of its one thread is measured.
pub(crate) fn run(server: &Sidecar, count: u32) {
    let mut wire = Wire::connect(server.addr);
    let plain: BTreeSet<(i64, u64)> =
        (0..u64::from(count)).map(|n| (in_some_order(n), n)).collect();
    let (mut scanned, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = server.thread_cpu_s("retry-engine");
        let last = wire.fetch(RETRY, 0, i64::from(count) - 1, 0);
        assert!(last.records.is_some_and(|records| !records.is_empty()), "the last one is there");
        scanned.push(f64::from(count) / (server.thread_cpu_s("retry-engine") - before));
        let clock = Clock::start();
        black_box(plain.iter().filter(|(due, _)| black_box(*due) >= 0).count());
        bare.push(f64::from(count) / clock.elapsed().as_secs_f64());
    }
    Figure {
        bench: "timers",
        metric: "timers_scan",
        value: median(scanned),
        unit: "due/s on one core",
        baseline: Some(median(bare)),
        goal: Goal::Least(1e6),
    }
    .print();
}

/// Due times in the order of `fill.rs`: four delays, in turn.
fn in_some_order(n: u64) -> i64 {
    let (delay, at) = (n % 4, n / 4);
    i64::try_from(delay * 3_600_000 + at).unwrap()
}
