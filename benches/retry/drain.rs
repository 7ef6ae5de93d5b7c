//! Thirty thousand retries that became due while the group had no member.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Rec, plain};
use crate::member::Member;
use crate::sheet::{Goal, median};
use crate::wire::Wire;
use crate::{GROUP, RETRY, number, start, tell};

/// Overdue retries of one round.
pub(crate) const OVERDUE: usize = 30_000;
const ROUNDS: usize = 5;
/// Connections of the client, each a member.
const MEMBERS: usize = 16;
/// Deliveries before a commit; below the 500 that a member may have outstanding.
const COMMIT_EVERY: usize = 256;

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let server = start(dir, "drain", MEMBERS);
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        heap(server.addr);
        let cpu_s = server.cpu_s();
        rates.push(number(OVERDUE) / drain(server.addr));
        costs.push((server.cpu_s() - cpu_s) * 1e6 / number(OVERDUE));
    }
    tell("drain", median(rates), "1/s, taken and acknowledged", None, Goal::Least(50_000.0));
    tell("drain_cpu", median(costs), "CPU µs of the sidecar per retry", None, Goal::None);
}

/// Nacks [`OVERDUE`] records and waits until the last is due.
pub(crate) fn heap(addr: SocketAddr) {
    let mut wire = Wire::connect(addr);
    for batch in 0..OVERDUE / 1000 {
        let of = |n| Rec::new(&format!("{batch} {n}")).header("x-retry-level", "1");
        wire.out.produce(RETRY, 0, plain(&(0..1000).map(of).collect::<Vec<_>>()));
    }
    (0..OVERDUE / 1000).for_each(|_| wire.back.produced());
    thread::sleep(Duration::from_millis(1500));
}

/// Seconds from the first Fetch to the last commit.
fn drain(addr: SocketAddr) -> f64 {
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| Member::join(addr, GROUP)).collect();
    Member::settle(&mut members);
    let (clock, taken) = (Clock::start(), AtomicUsize::new(0));
    let members: Vec<Member> = thread::scope(|scope| {
        let taken = &taken;
        let of = |member| scope.spawn(move || work(member, taken));
        let threads: Vec<_> = members.into_iter().map(of).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = clock.elapsed().as_secs_f64();
    assert_eq!(taken.load(Ordering::Relaxed), OVERDUE, "each came, once");
    members.into_iter().for_each(Member::leave);
    seconds
}

fn work(mut member: Member, taken: &AtomicUsize) -> Member {
    let mut open = 0;
    while taken.load(Ordering::Relaxed) < OVERDUE {
        let got = member.fetch(20).len();
        taken.fetch_add(got, Ordering::Relaxed);
        open += got;
        if open >= COMMIT_EVERY || (got == 0 && open > 0) {
            member.commit();
            open = 0;
        }
    }
    if open > 0 {
        member.commit();
    }
    member
}
