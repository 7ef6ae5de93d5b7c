//! Retries of a topic that is read, beside due retries of another one that nobody reads.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Rec, plain};
use crate::member::Member;
use crate::sheet::Goal;
use crate::sidecar::Sidecar;
use crate::wire::Wire;
use crate::{GROUP, number, p99, start, tell};

/// Due retries without a reader, and those of one Produce.
const UNREAD: (usize, usize) = (300_000, 1_000);
/// Retries of the topic that is read, one each 10 ms.
const TIMED: usize = 1_000;
const READ: &str = "reprise.retry.bench--payments";
const OTHER: &str = "reprise.retry.bench--orders";

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let server = start(dir, "beside", 1);
    let mut member = Member::subscribe(server.addr, GROUP, READ);
    member.beat();
    let (mut alone, _) = late(&server, &mut member, 0);
    let mut wire = Wire::connect(server.addr);
    for batch in 0..UNREAD.0 / UNREAD.1 {
        let of = |n| nack("orders", batch * UNREAD.1 + n, 1);
        wire.out.produce(OTHER, 0, plain(&(0..UNREAD.1).map(of).collect::<Vec<_>>()));
        wire.back.produced();
    }
    sleep(Duration::from_secs(5));
    let (mut beside, cores) = late(&server, &mut member, TIMED);
    let unit = "ms, 300 000 without a reader";
    tell("beside_late_p99", p99(&mut beside), unit, Some(p99(&mut alone)), Goal::None);
    let (half, half_alone) = (beside[TIMED / 2], alone[TIMED / 2]);
    tell("beside_late_p50", half, unit, Some(half_alone), Goal::None);
    tell("beside_cpu", cores, "cores of the engine's thread", None, Goal::None);
    member.leave();
}

/// The times from due to arrival in ms, and the cores that the engine's thread takes.
fn late(server: &Sidecar, member: &mut Member, from: usize) -> (Vec<f64>, f64) {
    let mut wire = Wire::connect(server.addr);
    let (clock, cpu_s) = (Clock::start(), server.thread_cpu_s("retry-engine"));
    let mut late_ms = Vec::new();
    for n in from..from + TIMED {
        wire.out.produce(READ, 0, plain(&[nack("payments", n, 100)]));
        wire.back.produced();
        take(member, 10, &mut late_ms);
    }
    while late_ms.len() < TIMED {
        take(member, 100, &mut late_ms);
    }
    let cores = (server.thread_cpu_s("retry-engine") - cpu_s) / clock.elapsed().as_secs_f64();
    (late_ms, cores)
}

fn take(member: &mut Member, wait_ms: i32, late_ms: &mut Vec<f64>) {
    let got = member.fetch(wait_ms);
    let now = Clock::start().now().wall.0;
    late_ms.extend(got.iter().map(|one| {
        let late = now - one.number("x-retry-due-ms");
        number(usize::try_from(late.max(0)).unwrap())
    }));
    if !got.is_empty() {
        member.commit();
    }
}

fn nack(topic: &str, n: usize, delay_ms: u64) -> Rec {
    let record = Rec::new("0123456789").header("x-retry-origin", format!("{topic}-0@{n}"));
    record.header("x-retry-delay-ms", delay_ms.to_string())
}
