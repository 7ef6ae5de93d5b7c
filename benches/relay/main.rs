//! CPU cost of the sidecar in front of a cluster, compared with a relay that only copies. Both
//! relay to the same broker and take turns within one run.
//!
//! `cargo bench --bench relay [-- PART]` prints one JSON line a figure; PART is one of `produce`,
//! `consume`, `small`, `pipelined`, `writes`, `latency`, `members`, `tls`, `idle`, `stalled`,
//! `slow`. A missed goal is printed (`"ok":false`), never an exit code. The broker is a stub that
//! stores nothing, so that the relay dominates. Parts that read records back use another `reprise`
//! without an upstream.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

#[path = "../../tests/operator/tls/authority.rs"]
#[expect(dead_code, reason = "the tests' own, used in part")]
mod authority;
mod bare;
#[path = "../../tests/support/batch.rs"]
#[expect(dead_code, unreachable_pub, clippy::panic, reason = "the tests' own, used in part")]
mod batch;
mod broker;
mod floor;
#[path = "../support/flow.rs"]
mod flow;
mod idle;
mod latency;
mod load;
#[path = "../support/member.rs"]
mod member;
mod members;
mod proxy;
mod rank;
#[path = "../support/sheet.rs"]
mod sheet;
#[path = "../support/sidecar.rs"]
mod sidecar;
mod slow;
mod stalled;
mod tls;
#[path = "../support/wire.rs"]
mod wire;
mod writes;

/// The items that the tests' `Authority` imports from their `support` module.
mod support {
    /// A client's trusted roots and its own certificate.
    pub(crate) type Trust = std::sync::Arc<tokio_rustls::rustls::ClientConfig>;
}

use std::path::Path;

use crate::load::{Load, Window};
use crate::proxy::Proxy;
use crate::sheet::{Figure, Goal, median};
use crate::sidecar::Sidecar;

/// Windows of each proxy; they take turns.
const ROUNDS: usize = 5;

fn main() {
    // cargo itself adds `--bench`
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    match words.first().map(String::as_str) {
        Some(bare::WORD) => return bare::run(&words[1]),
        Some(floor::WORD) => return floor::run(&words[1]),
        Some(latency::WORD) => return latency::on_one_core(),
        _ => {}
    }
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let loads = [Load::PRODUCE, Load::CONSUME, Load::SMALL, Load::PIPELINED];
    if wants("writes") || loads.iter().any(|load| wants(load.name)) {
        copying(&loads, &wants);
    }
    if wants("latency") {
        latency::run();
    }
    if wants("members") {
        members::run();
    }
    if wants("tls") {
        tls::run();
    }
    if wants("idle") {
        idle::run();
    }
    if wants("stalled") {
        stalled::run();
    }
    if wants("slow") {
        slow::run();
    }
}

/// Compares the sidecar with the relay that only copies.
fn copying(loads: &[Load; 4], wants: &dyn Fn(&str) -> bool) {
    let broker = broker::start(None);
    let proxies = [Proxy::bare(broker), Proxy::sidecar(broker)];
    for load in &loads[..2] {
        if wants(load.name) {
            bytes(&proxies, load);
        }
    }
    let [.., small, pipelined] = loads;
    if wants(small.name) {
        let goal = Goal::Most(9.0);
        trips(&proxies, small, goal);
        let floor = windows(&[Proxy::floor(broker)], small, ROUNDS);
        let of = floor.iter().map(|[window]| window.cpu_s / window.trips).collect();
        let metric = "round_trip_1kib_64_connections_floor";
        tell(metric, median(of) * 1e6, "CPU µs/round trip", None, goal);
    }
    if wants(pipelined.name) {
        trips(&proxies, pipelined, Goal::None);
    }
    if wants("writes") {
        writes::run(&proxies);
    }
}

/// CPU seconds per GB.
fn bytes(proxies: &[Proxy; 2], load: &Load) {
    let windows = windows(proxies, load, ROUNDS);
    let cost = |n: usize| median(windows.iter().map(|w| w[n].cpu_s / w[n].gigabytes).collect());
    let speed = |n: usize| median(windows.iter().map(|w| w[n].megabytes_per_s()).collect());
    let (bare, ours) = (cost(0), cost(1));
    tell(load.metric, ours, "CPU s/GB", Some(bare), Goal::Most(bare * 1.2));
    tell(load.speed_metric, speed(1), "MB/s", Some(speed(0)), Goal::None);
}

/// CPU microseconds per request and its answer.
fn trips(proxies: &[Proxy; 2], load: &Load, goal: Goal) {
    let windows = windows(proxies, load, ROUNDS);
    let tell_cost = |metric, spent: fn(&Window) -> f64, goal| {
        let of = |n: usize| median(windows.iter().map(|w| spent(&w[n]) / w[n].trips).collect());
        tell(metric, of(1) * 1e6, "CPU µs/round trip", Some(of(0) * 1e6), goal);
    };
    tell_cost(load.metric, |window| window.cpu_s, goal);
    tell_cost(load.system_metric, |window| window.system_s, Goal::None);
}

fn windows<const N: usize>(proxies: &[Proxy; N], load: &Load, rounds: usize) -> Vec<[Window; N]> {
    // The first round of each warms up.
    for proxy in proxies {
        load.run(proxy);
    }
    (0..rounds).map(|_| proxies.each_ref().map(|proxy| load.run(proxy))).collect()
}

fn tell(metric: &'static str, value: f64, unit: &'static str, baseline: Option<f64>, goal: Goal) {
    Figure { bench: "relay", metric, value, unit, baseline, goal }.print();
}

/// A `reprise` without an upstream that stores records of these topics without fdatasync.
fn storing(dir: &Path, topics: &str) -> Sidecar {
    let settings = [
        &format!("topics.list=[{topics}]"),
        "topics.durability=os",
        "topics.retention=unlimited",
        "names.retry=not-here.{group}",
        "names.dead_letters=nor-here.{group}",
    ];
    Sidecar::start(&dir.join("broker"), &settings)
}
