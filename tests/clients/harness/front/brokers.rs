//! Brokers die one after the other, the coordinators of every group among them, while clients of
//! every kind work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reprise::clock::Clock;

use crate::judge::{Judge, PATIENCE};
use crate::order::failing;
use crate::rig::cluster::{self, Admin};
use crate::rig::program::Program;
use crate::rig::scene::Scene;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

const EVERYBODY: [Program; 4] =
    [Program::JAVA, Program::JAVA_848, Program::LIBRDKAFKA, Program::LIBRDKAFKA_848];

/// Sets the flag when the last broker is back, or when a thread fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn broker_restarts_under_load_lose_no_record() {
    let _alone = crate::turn::alone();
    let (over, worked, clock) = (AtomicBool::new(false), AtomicUsize::new(0), Clock::start());
    let at_work = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for program in EVERYBODY {
            let (over, at_work, worked) = (&over, &at_work, &worked);
            scope.spawn(move || works_on(program, over, at_work, worked));
        }
        let _over = Over(&over);
        let admin = Admin::direct();
        until(PATIENCE, "all are at work", || {
            at_work.load(Ordering::SeqCst) == EVERYBODY.len() || over.load(Ordering::SeqCst)
        });
        // Every broker is killed in turn; then broker 0 is stopped as an operator would do it.
        let ends = (0..cluster::nodes()).map(|node| ("kill", node)).chain([("stop", 0)]);
        for (end, node) in ends {
            cluster::node(end, node);
            cluster::node("start", node);
            admin.wait_for_replicas();
        }
    });
    eprintln!(
        "measured: {} orders of four clients over {} killed brokers, nothing lost, {:.0} s",
        worked.load(Ordering::SeqCst),
        cluster::nodes(),
        clock.elapsed().as_secs_f64()
    );
}

fn works_on(program: Program, over: &AtomicBool, at_work: &AtomicUsize, worked: &AtomicUsize) {
    // A failure here ends the test for every client.
    let failed = Over(over);
    // The session lasts until a coordinator is back, however slow the machine.
    let stage = Stage::with(program, "brokers", Scene::new(), "1m");
    let mut judge = Judge::new(&stage.scene);
    (judge.somebody_left, judge.brokers_die) = (true, true);
    let mut a = stage.member("a", LONG_SESSION);
    let mut b = stage.member("b", LONG_SESSION);
    let mut rounds = 0;
    while !over.load(Ordering::SeqCst) {
        judge.produce(&mut a, &format!("order-{rounds}"), &failing(12));
        judge.round(&mut [&mut a, &mut b]);
        if rounds == 0 {
            at_work.fetch_add(1, Ordering::SeqCst);
        }
        rounds += 1;
    }
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    worked.fetch_add(judge.orders.len(), Ordering::SeqCst);
    drop(failed);
    a.close_after_deaths();
    b.close_after_deaths();
}
