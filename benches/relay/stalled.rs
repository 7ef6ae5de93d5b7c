//! Memory and healthy clients beside a thousand consumers that fetch 1 MiB and never read it.

use std::thread;
use std::time::Duration;

use reprise::clock::Clock;

use crate::load::{Load, read_answer};
use crate::proxy::{Proxy, Stream};
use crate::sheet::{Goal, quantile};
use crate::{broker, tell};

const STALLED: usize = 1_000;
/// Healthy clients, each with a request of 1 KiB every [`EVERY`].
const HEALTHY: usize = 8;
const EVERY: Duration = Duration::from_millis(5);
const WINDOW: Duration = Duration::from_secs(5);
/// Wait until every socket buffer is full.
const SETTLED: Duration = Duration::from_secs(3);
/// Bound of the memory of all connections together.
const BUDGET_MIB: f64 = 64.0;

/// Measures and prints.
pub(crate) fn run() {
    let broker = broker::start(None);
    let proxy = Proxy::sidecar(broker);
    let mut quiet = healthy(&proxy);
    let before = proxy.resident_mib();
    let stalled: Vec<Box<dyn Stream>> = (0..STALLED).map(|_| stalled(&proxy)).collect();
    thread::sleep(SETTLED);
    let grown = proxy.resident_mib() - before;
    let mut beside = healthy(&proxy);
    let most = proxy.resident_mib() - before;
    drop(stalled);
    let goal = Goal::Most(BUDGET_MIB * 1.1);
    tell("stalled_rss", grown.max(most), "MiB above before", None, goal);
    let quiet = quantile(&mut quiet, 99);
    let goal = Goal::Most(quiet * 1.5);
    tell("stalled_healthy_p99", quantile(&mut beside, 99), "ms", Some(quiet), goal);
}

fn stalled(proxy: &Proxy) -> Box<dyn Stream> {
    let mut stream = proxy.connect();
    stream.write_all(&Load::CONSUME.frame()).unwrap();
    stream
}

/// Milliseconds of each round trip, from its scheduled start.
pub(crate) fn healthy(proxy: &Proxy) -> Vec<f64> {
    let one = || {
        let (mut stream, frame) = (proxy.connect(), Load::SMALL.frame());
        let (clock, mut answer) = (Clock::start(), [0; 4096]);
        let rounds = u32::try_from(WINDOW.as_millis() / EVERY.as_millis()).unwrap();
        let mut trip = |n| {
            thread::sleep((EVERY * n).saturating_sub(clock.elapsed()));
            stream.write_all(&frame).unwrap();
            read_answer(&mut stream, &mut answer);
            clock.elapsed().saturating_sub(EVERY * n).as_secs_f64() * 1e3
        };
        (0..rounds).map(&mut trip).collect::<Vec<f64>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..HEALTHY).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
