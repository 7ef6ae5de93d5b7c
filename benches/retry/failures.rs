//! Ten thousand failures a second for half a minute, each delivered again after one second.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Got, Rec, plain};
use crate::member::Member;
use crate::sheet::Goal;
use crate::wire::Wire;
use crate::{GROUP, RETRY, disk, healthy, number, p99, start, tell};

const PER_S: usize = 10_000;
const LENGTH: Duration = Duration::from_secs(30);
/// Interval of the Produces with nacks: librdkafka's default `linger.ms`.
const EVERY: Duration = Duration::from_millis(5);
/// Length of the windows without failures, before and after.
const QUIET: Duration = Duration::from_secs(10);
/// Wait until the disk has written back the data of the failures.
const SETTLED: Duration = Duration::from_secs(20);
/// Members that fetch due retries.
const MEMBERS: usize = 8;
/// Longest wait for retries after the last failure.
const PATIENCE: Duration = Duration::from_secs(30);
const DELAY_MS: f64 = 1000.0;

/// One delivered retry.
struct Back {
    /// Number of the failure, in the order of the nacks.
    number: u32,
    /// From the due time in its header until it was fetched.
    late_ms: f64,
    /// From the send of its nack until it was fetched.
    after_ms: f64,
}

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let server = start(dir, "failures", MEMBERS);
    let mut syncs = disk::syncs_ms(dir, Duration::from_secs(2));
    let mut quiet = healthy::run(server.addr, QUIET);
    let cpu_s = server.cpu_s();
    let (mut beside, back) = thread::scope(|scope| {
        let beside = scope.spawn(|| healthy::run(server.addr, LENGTH));
        let back = failures(server.addr);
        (beside.join().unwrap(), back)
    });
    let failed = number(back.len());
    let each_us = (server.cpu_s() - cpu_s) * 1e6 / failed;
    thread::sleep(SETTLED);
    let mut after = healthy::run(server.addr, QUIET);
    syncs.extend(disk::syncs_ms(dir, Duration::from_secs(2)));
    // wall time has whole milliseconds, so it may lag by one
    let is_early = |back: &&Back| back.late_ms < 0.0 || back.after_ms < DELAY_MS - 1.0;
    let early = number(back.iter().filter(is_early).count());
    let mut late: Vec<f64> = back.iter().map(|back| back.late_ms).collect();
    // the lower of the two, since the disk may still be busy in one of them
    let (quiet, sync) = (p99(&mut quiet).min(p99(&mut after)), p99(&mut syncs));
    tell("failures", failed / LENGTH.as_secs_f64(), "1/s", None, Goal::Least(number(PER_S)));
    tell("failures_late_p99", p99(&mut late), "ms", Some(sync), Goal::Most(20.0));
    tell("failures_late_p50", late[late.len() / 2], "ms", None, Goal::None);
    tell("failures_early", early, "", None, Goal::Most(0.0));
    let goal = Goal::Most(quiet * 1.5);
    tell("failures_healthy_p99", p99(&mut beside), "ms", Some(quiet), goal);
    tell("failures_cpu", each_us, "CPU µs of the sidecar per failure", None, Goal::None);
}

/// Nacks the records and fetches their retries; each must come back exactly once.
fn failures(addr: SocketAddr) -> Vec<Back> {
    let (clock, taken) = (Clock::start(), AtomicUsize::new(0));
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| Member::join(addr, GROUP)).collect();
    Member::settle(&mut members);
    let all = PER_S * usize::try_from(LENGTH.as_secs()).unwrap();
    let back: Vec<Back> = thread::scope(|scope| {
        scope.spawn(|| offer(addr, clock));
        let taken = &taken;
        let of = |member| scope.spawn(move || take(member, clock, all, taken));
        let threads: Vec<_> = members.into_iter().map(of).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: BTreeSet<u32> = back.iter().map(|back| back.number).collect();
    assert_eq!((back.len(), distinct.len()), (all, all), "each came back, once");
    back
}

/// Nacks at a steady rate, independent of the latency of the answers.
fn offer(addr: SocketAddr, clock: Clock) {
    let each = PER_S * usize::try_from(EVERY.as_millis()).unwrap() / 1000;
    let rounds = u32::try_from(LENGTH.as_millis() / EVERY.as_millis()).unwrap();
    let Wire { out: mut asking, back: mut answers } = Wire::connect(addr);
    let began = clock.elapsed();
    thread::scope(|scope| {
        scope.spawn(move || (0..rounds).for_each(|_| answers.produced()));
        for round in 0..rounds {
            thread::sleep((began + EVERY * round).saturating_sub(clock.elapsed()));
            let now = clock.elapsed().as_micros();
            let numbers = (usize::try_from(round).unwrap() * each)..;
            let records: Vec<Rec> = numbers
                .take(each)
                .map(|n| {
                    let origin = format!("orders-{}@{}", n % 12, n / 12);
                    Rec::new(&format!("{n} {now}")).header("x-retry-origin", origin)
                })
                .collect();
            asking.produce(RETRY, 0, plain(&records));
        }
    });
}

/// Fetches and commits until all members together have fetched all retries.
fn take(mut member: Member, clock: Clock, all: usize, taken: &AtomicUsize) -> Vec<Back> {
    let mut back = Vec::new();
    let patience = clock.elapsed() + LENGTH + PATIENCE;
    while taken.load(Ordering::Relaxed) < all && clock.elapsed() < patience {
        let got = member.fetch(100);
        let (now, wall_ms) = (clock.elapsed(), clock.now().wall.0);
        back.extend(got.iter().map(|got| of(got, now, wall_ms)));
        taken.fetch_add(got.len(), Ordering::Relaxed);
        if !got.is_empty() {
            member.commit();
        }
    }
    back
}

fn of(got: &Got, now: Duration, wall_ms: i64) -> Back {
    let text = got.text();
    let (number, micros) = text.split_once(' ').unwrap();
    let sent_ms = micros.parse::<f64>().unwrap() / 1e3;
    let late_ms = i32::try_from(wall_ms - got.number("x-retry-due-ms")).unwrap();
    Back {
        number: number.parse().unwrap(),
        late_ms: f64::from(late_ms),
        after_ms: now.as_secs_f64() * 1e3 - sent_ms,
    }
}
