//! Requests beside the waiting retries: look-ups by origin and by number, and exact delays.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Got, Rec, plain};
use crate::member::Member;
use crate::sheet::Goal;
use crate::sidecar::Sidecar;
use crate::wire::Wire;
use crate::{GROUP, RETRY, fill, tell};

/// Look-ups by origin in all, and in one Produce.
const ORIGINS: (u32, usize) = (50_000, 500);
/// Look-ups by number: few, since each answers a page of the list.
const NUMBERS: u32 = 200;
/// Retries with exact delays that become due, and the longest delay in ms.
const EXACT: (u32, u64) = (10_000, 4_000);
/// Longest wait for the last of them.
const PATIENCE: Duration = Duration::from_mins(1);

/// Looks up random entries.
pub(crate) fn lookups(server: &Sidecar, count: u32) {
    let (mut wire, mut places) = (Wire::connect(server.addr), fastrand::Rng::with_seed(11));
    let before = server.thread_cpu_s("retry-engine");
    for _ in 0..ORIGINS.0 / u32::try_from(ORIGINS.1).unwrap() {
        let numbers: Vec<u32> = (0..ORIGINS.1).map(|_| places.u32(0..count)).collect();
        wire.out.produce(RETRY, 0, fill::again(&numbers));
        wire.back.produced();
    }
    let spent = server.thread_cpu_s("retry-engine") - before;
    let micros = spent * 1e6 / f64::from(ORIGINS.0);
    tell("timers_origin_known", micros, "µs of the engine's thread", Goal::None);
    let clock = Clock::start();
    for _ in 0..NUMBERS {
        let id = 1 + places.u32(0..count - 1);
        let page = format!("/api/v1/retries?group={GROUP}&limit=1&after={id}:{GROUP}");
        let page = server.get(&page);
        assert!(page.contains("\"items\":[{"), "{page}");
    }
    let millis = clock.elapsed().as_secs_f64() * 1e3 / f64::from(NUMBERS);
    tell("timers_found_by_number", millis, "ms over HTTP", Goal::None);
}

/// Nacks with exact delays while the others wait. Each retry must come, and none early.
pub(crate) fn exact(server: &Sidecar, log: &Path) {
    let mut member = Member::join(server.addr, GROUP);
    member.beat();
    // From then on somebody reads the topic.
    assert!(member.fetch(0).is_empty());
    let addr = server.addr;
    let nacks = std::thread::spawn(move || nack_exact(addr));
    let clock = Clock::start();
    let mut late_ms = Vec::new();
    while late_ms.len() < usize::try_from(EXACT.0).unwrap() {
        let log = log.with_extension("log");
        assert!(clock.elapsed() < PATIENCE, "{} came, see {}", late_ms.len(), log.display());
        let got = member.fetch(500);
        let now = clock.now().wall.0;
        late_ms.extend(got.iter().map(|retry| now - due_ms(retry)));
        if !got.is_empty() {
            member.commit();
        }
    }
    nacks.join().unwrap();
    member.leave();
    late_ms.sort_unstable();
    let early = late_ms.iter().filter(|late| **late < 0).count();
    let count = |n: usize| f64::from(u32::try_from(n).unwrap());
    let p99 = u32::try_from(late_ms[late_ms.len() * 99 / 100].max(0)).unwrap();
    tell("timers_early", count(early), "of 10 000 exact delays", Goal::Most(0.0));
    tell("timers_exact_late_p99", f64::from(p99), "ms, one member", Goal::None);
}

fn nack_exact(addr: SocketAddr) {
    let (mut wire, mut delays) = (Wire::connect(addr), fastrand::Rng::with_seed(13));
    for _ in 0..EXACT.0 / 500 {
        let delay = |_| delays.u64(1..=EXACT.1).to_string();
        let delays = (0..500).map(delay);
        let nacks = delays.map(|delay| Rec::new("exact").header("x-retry-delay-ms", delay));
        wire.out.produce(RETRY, 0, plain(&nacks.collect::<Vec<_>>()));
        wire.back.produced();
    }
}

fn due_ms(retry: &Got) -> i64 {
    retry.number("x-retry-due-ms")
}
