//! Failures at a steady rate, and overdue retries: the lateness of retries, the speed of the
//! drain, and the latency of partitions without failures.
//!
//! `cargo bench --bench retry [-- failures|drain|beside|plan|redrive|lists|librdkafka]` prints one
//! JSON line a figure. A missed goal is printed (`"ok":false`), never an exit code. The sidecar is
//! a process of its own; deliveries, nacks and commits are all durable before they are answered.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

#[path = "../../tests/support/batch.rs"]
#[expect(dead_code, unreachable_pub, clippy::panic, reason = "the tests' own, used in part")]
mod batch;
mod beside;
mod disk;
mod drain;
mod failures;
#[path = "../support/flow.rs"]
mod flow;
mod healthy;
mod librdkafka;
mod lists;
#[path = "../support/member.rs"]
mod member;
mod plan;
mod redrive;
#[path = "../support/sheet.rs"]
mod sheet;
#[path = "../support/sidecar.rs"]
mod sidecar;
#[path = "../support/wire.rs"]
mod wire;

use std::path::{Path, PathBuf};

use crate::sheet::{Figure, Goal};
use crate::sidecar::Sidecar;

const GROUP: &str = "bench";
const RETRY: &str = "reprise.retry.bench";

fn main() {
    // cargo itself adds `--bench`
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let base = std::env::var_os("BENCH_DIR");
    let base = base.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let dir = tempfile::tempdir_in(base).unwrap();
    if wants("failures") {
        failures::run(dir.path());
    }
    if wants("drain") {
        drain::run(dir.path());
    }
    if wants("beside") {
        beside::run(dir.path());
    }
    if wants("plan") {
        plan::run();
    }
    if wants("redrive") {
        redrive::run(dir.path());
    }
    if wants("lists") {
        lists::run(dir.path());
    }
    if wants("librdkafka") {
        librdkafka::run(dir.path());
    }
}

/// Starts a sidecar whose retry topics have so many partitions, and whose first retry comes after
/// one second.
fn start(dir: &Path, name: &str, partitions: usize) -> Sidecar {
    let partitions = format!("retry.partitions={partitions}");
    let healthy =
        format!("topics.list=[{{name: {}, partitions: {}}}]", healthy::TOPIC, healthy::PARTITIONS);
    // the breaker would open at this many failures
    let all_count = "retry.breaker=off";
    let unlimited = "topics.retention=unlimited";
    let settings =
        ["retry.levels=1s", "log.filter=warn", unlimited, all_count, &healthy, &partitions];
    Sidecar::start(&dir.join(name), &settings)
}

fn tell(metric: &'static str, value: f64, unit: &'static str, baseline: Option<f64>, goal: Goal) {
    Figure { bench: "retry", metric, value, unit, baseline, goal }.print();
}

/// The value below which 99 % of the values lie.
fn p99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * 99 / 100).min(values.len() - 1)]
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}
