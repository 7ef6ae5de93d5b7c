//! What it costs to stand in front of a cluster: CPU time of the sidecar's process, held against a
//! relay that does nothing but copy, both in front of the same broker, in turns within one run.
//!
//! `cargo bench --bench relay [-- produce|consume|small]` prints one JSON line a figure. A missed
//! goal is printed (`"ok":false`), never an exit code. The broker is a program that reads and
//! answers what it must and keeps nothing, so that the relay is what is measured.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

mod bare;
mod broker;
mod load;
mod proxy;
#[path = "../support/sheet.rs"]
#[expect(dead_code, reason = "the figures of the journal use the rest")]
mod sheet;

use crate::load::Load;
use crate::proxy::Proxy;
use crate::sheet::{Figure, Goal, median};

/// Windows of each proxy; they take turns.
const ROUNDS: usize = 5;

fn main() {
    // cargo itself adds `--bench`
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if words.first().is_some_and(|word| word == bare::WORD) {
        return bare::run(&words[1]);
    }
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let broker = broker::start();
    let proxies = [Proxy::bare(broker), Proxy::sidecar(broker)];
    for load in [Load::PRODUCE, Load::CONSUME] {
        if wants(load.name) {
            bytes(&proxies, &load);
        }
    }
    if wants(Load::SMALL.name) {
        trips(&proxies, &Load::SMALL);
    }
}

/// CPU seconds per GB.
fn bytes(proxies: &[Proxy; 2], load: &Load) {
    let windows = windows(proxies, load);
    let cost = |n: usize| median(windows.iter().map(|w| w[n].cpu_s / w[n].gigabytes).collect());
    let speed = |n: usize| median(windows.iter().map(|w| w[n].megabytes_per_s()).collect());
    let (bare, ours) = (cost(0), cost(1));
    Figure {
        bench: "relay",
        metric: load.metric,
        value: ours,
        unit: "CPU s/GB",
        baseline: Some(bare),
        goal: Goal::Most(bare * 1.2),
    }
    .print();
    Figure {
        bench: "relay",
        metric: load.speed_metric,
        value: speed(1),
        unit: "MB/s",
        baseline: Some(speed(0)),
        goal: Goal::None,
    }
    .print();
}

/// CPU microseconds per round trip.
fn trips(proxies: &[Proxy; 2], load: &Load) {
    let windows = windows(proxies, load);
    let cost = |n: usize| median(windows.iter().map(|w| w[n].cpu_s * 1e6 / w[n].trips).collect());
    Figure {
        bench: "relay",
        metric: load.metric,
        value: cost(1),
        unit: "CPU µs/round trip",
        baseline: Some(cost(0)),
        goal: Goal::Most(9.0),
    }
    .print();
}

fn windows(proxies: &[Proxy; 2], load: &Load) -> Vec<[load::Window; 2]> {
    // The first round of each warms up.
    for proxy in proxies {
        load.run(proxy);
    }
    (0..ROUNDS).map(|_| [load.run(&proxies[0]), load.run(&proxies[1])]).collect()
}
