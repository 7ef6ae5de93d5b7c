//! Retries that kill their process: the retry topic is a partition like any other.

use fastrand::Rng;
use reprise::retry::{Disposition, Policy, StateKind};

use crate::inference::app::{Commits, Did, World, of};

const WAYS: [Commits; 4] =
    [Commits::PerRecord, Commits::PerBatch, Commits::Every(200), Commits::Every(1_000)];

#[test]
fn only_the_crashing_retry_is_charged_until_its_dead_letter() {
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let (commits, max) = (WAYS[rng.usize(0..WAYS.len())], rng.u32(1..6));
        let many = rng.i64(2..12);
        let poison = rng.i64(0..many);
        let slow_ms = if rng.bool() { 0 } else { rng.u64(0..900) };
        let policy = Policy { max_reconsume_times: max, ..Policy::default() };
        let mut world = World::new(crate::inference::RULES, 1, 100).with_retries(policy);
        world.commit(&of(0), 0);
        let mut app = world.start(commits);
        let mut deaths = 0;
        let is_over = |world: &World| {
            let retries = world.retries.as_ref().unwrap();
            let is_settled = retries.law.all().all(reprise::retry::Entry::is_settled);
            world.is_all_committed() && is_settled
        };
        let mut rounds = 0;
        while !is_over(&world) {
            rounds += 1;
            assert!(rounds < 50_000, "seed {seed}: {:?}", world.detector.view(world.now()));
            let queued = world.queued();
            let lives =
                app.poll(&mut world, |of, offset| match queued.get(&(of.clone(), offset)) {
                    None if offset < many => Did::Nack,
                    Some(_) if offset == poison => Did::Die(slow_ms),
                    _ => Did::Well(2),
                });
            *world.ends.get_mut(&of(0)).unwrap() += i64::from(rng.u8(..4) == 0);
            if !lives {
                deaths += 1;
                world.lose(&app);
                let ms = rng.u64(1..4_000);
                world.pass(ms);
                app = world.start(commits);
            }
        }
        let of_a_delivery = crate::inference::RULES.suspects.crash_limit + 2;
        let most = of_a_delivery * (max + 1) + 6;
        assert!(deaths <= most, "seed {seed}, {commits:?}, {slow_ms} ms, {max}: {deaths}");
        let retries = world.retries.as_ref().unwrap();
        for entry in retries.law.all() {
            let offset = entry.origin.as_ref().unwrap().offset;
            let (count, kind) = (entry.reconsume_times, entry.state.kind());
            let told = format!("seed {seed}, {commits:?}, {slow_ms} ms, {deaths}: {entry:?}");
            if offset == poison {
                assert_eq!((kind, count), (StateKind::Dead, max + 1), "{told}");
                assert_eq!(entry.disposition, Some(Disposition::Crashed), "{told}");
            } else {
                assert_eq!((kind, count), (StateKind::Committed, 1), "{told}");
            }
        }
    }
}
