//! Ten million waiting retries: their memory, look-ups, exact delays and restarts beside them.
//!
//! `cargo bench --bench timers` prints one JSON line a figure; `TIMERS=200000` for a quick run. A
//! missed goal is printed (`"ok":false`), never an exit code. The sidecar is a process of its own,
//! and the bench uses only its client and admin ports.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

#[path = "../../tests/support/batch.rs"]
#[expect(dead_code, unreachable_pub, clippy::panic, reason = "the tests' own, used in part")]
mod batch;
mod fill;
mod live;
#[path = "../support/member.rs"]
mod member;
#[path = "../support/sheet.rs"]
mod sheet;
#[path = "../support/sidecar.rs"]
mod sidecar;
#[path = "../support/wire.rs"]
mod wire;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use reprise::clock::Clock;

use crate::sheet::{Figure, Goal};
use crate::sidecar::Sidecar;

const GROUP: &str = "bench";
const RETRY: &str = "reprise.retry.bench";
/// Wait until all earlier requests are finished.
const SETTLED: Duration = Duration::from_secs(5);
/// Length of the window without requests and due retries.
const IDLE: Duration = Duration::from_secs(10);

fn main() {
    let count: u32 = std::env::var("TIMERS").map_or(10_000_000, |text| text.parse().unwrap());
    let base = std::env::var("BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").to_owned());
    let base = tempfile::tempdir_in(base).unwrap();
    let idle = idle(&base.path().join("idle"));
    let data = base.path().join("data");
    let server = start(&data).0;
    fill(&server, count);
    sleep(SETTLED);
    tell("timers_rss", server.resident_mib() - idle, "MiB above idle", Goal::Most(64.0));
    tell("timers_rss_most", server.resident_most_mib() - idle, "MiB above idle", Goal::None);
    quiet(&server);
    live::lookups(&server, count);
    live::exact(&server, &base.path().join("data"));
    tell("timers_rss_in_use", server.resident_mib() - idle, "MiB above idle", Goal::Most(64.0));
    restarts(server, &data, count, idle);
}

/// Resident memory of an empty, idle sidecar, in MiB.
fn idle(dir: &Path) -> f64 {
    let (server, _) = start(dir);
    sleep(SETTLED);
    let resident = server.resident_mib();
    server.stop();
    resident
}

/// Starts a sidecar whose delays are longer than the bench, so that no retry becomes due. Returns
/// the seconds until it was ready.
fn start(dir: &Path) -> (Sidecar, f64) {
    let clock = Clock::start();
    let settings = ["retry.levels=3h 4h 5h 6h", "retry.partitions=1", "log.filter=warn"];
    let server = Sidecar::start(dir, &settings);
    (server, clock.elapsed().as_secs_f64())
}

fn fill(server: &Sidecar, count: u32) {
    let (clock, cpu_s) = (Clock::start(), server.thread_cpu_s("retry-engine"));
    fill::run(server.addr, count);
    let seconds = clock.elapsed().as_secs_f64();
    let each_us = (server.thread_cpu_s("retry-engine") - cpu_s) * 1e6 / f64::from(count);
    tell("timers_filled", f64::from(count) / seconds, "nacks/s, durable", Goal::None);
    tell("timers_filled_cpu", each_us, "µs of the engine's thread per nack", Goal::None);
}

/// Counts voluntary context switches, thus wake-ups, while no retry is due.
fn quiet(server: &Sidecar) {
    let sleeps = || (server.sleeps(Some("retry-engine")), server.sleeps(None));
    let (before, cpu_s) = (sleeps(), server.cpu_s());
    sleep(IDLE);
    let (engine, all) = sleeps();
    let seconds = IDLE.as_secs_f64();
    tell("timers_idle_engine_wakes", engine - before.0, "in 10 s", Goal::Most(0.0));
    tell("timers_idle_wakes", (all - before.1) / seconds, "1/s, all threads", Goal::None);
    tell("timers_idle_cpu", (server.cpu_s() - cpu_s) / seconds, "cores", Goal::None);
}

/// Times restarts, from the start of the process to the first answer that counts every retry.
fn restarts(server: Sidecar, data: &Path, count: u32, idle: f64) {
    server.stop();
    let (server, seconds) = restart(data, count);
    tell("timers_restart", seconds, "s", Goal::Most(1.0));
    sleep(SETTLED);
    tell("timers_rss_restarted", server.resident_mib() - idle, "MiB above idle", Goal::Most(64.0));
    // about the log between two checkpoints, then SIGKILL
    fill::more(server.addr, count, fill::BETWEEN_CHECKPOINTS);
    let all = count + fill::BETWEEN_CHECKPOINTS;
    drop(server);
    let (server, seconds) = restart(data, all);
    tell("timers_restart_killed", seconds, "s", Goal::Most(1.0));
    server.stop();
}

fn restart(data: &Path, count: u32) -> (Sidecar, f64) {
    let clock = Clock::start();
    let (server, _) = start(data);
    let known = server.get(&format!("/api/v1/groups/{GROUP}"));
    let seconds = clock.elapsed().as_secs_f64();
    assert!(known.contains(&format!("\"waiting\":{count},")), "every retry is there: {known}");
    (server, seconds)
}

fn tell(metric: &'static str, value: f64, unit: &'static str, goal: Goal) {
    Figure { bench: "timers", metric, value, unit, baseline: None, goal }.print();
}
