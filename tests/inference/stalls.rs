//! How long a consumer that lives waits for its next record while there is one to be given, where a
//! record among them kills its process: for patience and a second, and never longer than 30 s.

use crate::RULES;
use crate::app::{App, Commits, Did, World};

/// Nobody is waited for longer.
const LONGEST_MS: u64 = 30_000;
/// The poison.
const POISON: (i32, i64) = (0, 27);

/// How long patience lasts in a group now.
fn patience_ms(world: &World) -> u64 {
    let doublings = world.kept.values().map(|window| window.doublings).max().unwrap_or(0);
    let doubled = RULES.isolation_timeout_ms.saturating_mul(1 << doublings.min(16));
    doubled.min(LONGEST_MS)
}

/// Runs the application until all is committed; the longest time between two hand-outs to one
/// process, or from its start to its first: at all, and beyond what patience lasted.
fn run(commits: Commits, kills_after_ms: u64, partitions: i32) -> (u64, i64) {
    let mut world = World::committed(RULES, partitions, 40);
    let (mut longest_ms, mut beyond_ms) = (0, i64::MIN);
    let mut app: App = world.start(commits);
    for _ in 0..200_000 {
        let lives = app.poll(&mut world, |partition, offset| {
            let kills = (partition.partition, offset) == POISON;
            if kills { Did::Die(kills_after_ms) } else { Did::Well(1) }
        });
        let patience_ms = patience_ms(&world);
        for pair in world.handed_at.windows(2) {
            let stall_ms = pair[1] - pair[0];
            longest_ms = longest_ms.max(stall_ms);
            let over = i64::try_from(stall_ms).unwrap() - i64::try_from(patience_ms).unwrap();
            beyond_ms = beyond_ms.max(over);
        }
        let last = world.handed_at.pop();
        world.handed_at.clear();
        world.handed_at.extend(last);
        if world.is_all_committed() {
            assert_eq!(world.dead.len(), 1, "{commits:?}, {kills_after_ms} ms");
            return (longest_ms, beyond_ms);
        }
        if !lives {
            world.lose(&app);
            world.pass(3_000);
            app = world.start(commits);
            world.handed_at = vec![world.at];
        }
    }
    panic!("it never ends: {:?}", world.committed);
}

#[test]
fn whoever_lives_is_given_its_next_record_when_patience_is_over() {
    for (commits, kills_after_ms, partitions) in
        [Commits::PerRecord, Commits::PerBatch, Commits::Every(5_000)]
            .into_iter()
            .flat_map(|commits| [0, 3_000, 12_000, 25_000].map(|ms| (commits, ms)))
            .flat_map(|(commits, ms)| [1, 4].map(|partitions| (commits, ms, partitions)))
    {
        let (longest_ms, beyond_ms) = run(commits, kills_after_ms, partitions);
        let what = format!("{commits:?}, killed after {kills_after_ms} ms, of {partitions}");
        println!("{what}: {longest_ms} {beyond_ms}");
        assert!(beyond_ms <= 1_000, "{what}: {beyond_ms} ms longer than patience");
        assert!(longest_ms <= LONGEST_MS, "{what}: {longest_ms} ms");
    }
}
