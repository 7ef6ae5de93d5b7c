//! Latency that the sidecar adds: round trips with all processes on one core, and records at a
//! steady rate, from produce to consume.

use std::process::Command;
use std::time::Duration;

use reprise::clock::Clock;

use crate::flow::Flow;
use crate::load::{Load, read_answer};
use crate::proxy::Proxy;
use crate::sheet::{Goal, quantile};
use crate::{broker, rank, storing, tell};

/// The first argument of a process that is pinned to one core.
pub(crate) const WORD: &str = "on-one-core";
/// Round trips of a window, and windows of each way.
const TRIPS: usize = 3_000;
const ROUNDS: usize = 10;
/// 5 000 records of 1 KiB a second.
const FLOW: Flow =
    Flow { topic: "flow", partition: 0, every: Duration::from_micros(200), value_bytes: 1 << 10 };
const WINDOW: Duration = Duration::from_secs(5);
const WINDOWS: usize = 4;

/// Measures and prints.
pub(crate) fn run() {
    let one_core = Command::new("taskset")
        .args(["--cpu-list", &last_core()])
        .arg(std::env::current_exe().unwrap())
        .arg(WORD)
        .status();
    assert!(one_core.unwrap().success(), "round trips on one core");
    flows();
}

/// Client, broker and proxies share one core, so a proxy adds exactly its own work.
pub(crate) fn on_one_core() {
    let broker = broker::start(None);
    let ways =
        [Proxy::none(broker), Proxy::bare(broker), Proxy::sidecar(broker), Proxy::floor(broker)];
    let mut took: [Vec<f64>; 4] = Default::default();
    for way in &ways {
        trips(way);
    }
    for _ in 0..ROUNDS {
        for (took, way) in took.iter_mut().zip(&ways) {
            took.extend(trips(way));
        }
    }
    let [mut direct, mut bare, mut ours, mut floor] = took;
    let shares = [
        (50, ["one_core_added_p50", "one_core_added_p50_floor"], 12.0),
        (99, ["one_core_added_p99", "one_core_added_p99_floor"], 16.0),
    ];
    for (share, metrics, goal) in shares {
        let direct = quantile(&mut direct, share);
        let bare = quantile(&mut bare, share) - direct;
        let ours = quantile(&mut ours, share) - direct;
        let floor = quantile(&mut floor, share) - direct;
        tell(metrics[0], ours, "µs", Some(bare), Goal::Most(goal));
        tell(metrics[1], floor, "µs", None, Goal::Most(goal));
    }
    tell("one_core_direct_p50", quantile(&mut direct, 50), "µs", None, Goal::None);
}

/// Microseconds of each round trip, one after the other.
fn trips(way: &Proxy) -> Vec<f64> {
    let (mut stream, frame, clock) = (way.connect(), Load::SMALL.frame(), Clock::start());
    let mut answer = [0; 4096];
    let mut trip = || {
        let began = clock.elapsed();
        stream.write_all(&frame).unwrap();
        read_answer(&mut stream, &mut answer);
        clock.elapsed().saturating_sub(began).as_secs_f64() * 1e6
    };
    (0..TRIPS).map(|_| trip()).collect()
}

/// Times records from produce to consume: direct, through both relays, through the sidecar, in
/// turns.
fn flows() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = storing(dir.path(), "{name: flow, partitions: 1}");
    let addr = broker.addr;
    let ways = [Proxy::none(addr), Proxy::bare(addr), Proxy::sidecar(addr), Proxy::floor(addr)];
    let mut took: [Vec<f64>; 4] = Default::default();
    let mut cpu_s = [0.0; 4];
    for way in &ways {
        FLOW.run(way.addr, Duration::from_secs(1));
    }
    for _ in 0..WINDOWS {
        for (n, way) in ways.iter().enumerate() {
            let before = way.cpu_s();
            took[n].extend(FLOW.run(way.addr, WINDOW));
            cpu_s[n] += way.cpu_s() - before;
        }
    }
    let records = f64::from(u32::try_from(took[2].len()).unwrap());
    let [_, bare, ours, floor] = cpu_s.map(|cpu_s| cpu_s * 1e6 / records);
    tell("flow_cpu", ours, "CPU µs/record", Some(bare), Goal::Most(20.0));
    tell("flow_cpu_floor", floor, "CPU µs/record", None, Goal::Most(20.0));
    let [mut direct, _, mut ours, floor] = took;
    let (greater, deviations) = rank::greater(&ours, &direct);
    let (floor_greater, _) = rank::greater(&floor, &direct);
    for (share, metric) in [(50, "flow_p50"), (99, "flow_p99")] {
        let direct = quantile(&mut direct, share);
        tell(metric, quantile(&mut ours, share), "ms", Some(direct), Goal::None);
    }
    let unit = "of pairs (one half: no difference)";
    tell("flow_later", greater, unit, None, Goal::None);
    tell("flow_later_floor", floor_greater, unit, None, Goal::None);
    tell("flow_later_deviations", deviations, "standard deviations", None, Goal::None);
}

/// The last core this process may run on.
fn last_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    cores.rsplit([',', '-']).next().unwrap().trim().to_owned()
}
