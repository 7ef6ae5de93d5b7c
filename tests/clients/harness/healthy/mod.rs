//! Random scripts of healthy consumers against a sidecar with default rules: slow ones, late and
//! backward commits, pauses, rebalances, restarts, replays. No record may count as failed.
//!
//! `tests/detection/inference/random.rs` plays many more such scripts with a model.

mod consumer;
mod java;
mod librdkafka;
mod script;
mod seen;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use reprise::clock::Clock;

use crate::rig::cluster::Admin;
use crate::rig::sidecar::Sidecar;
use crate::rig::stage::empty_dir;
use java::Jvm;
use script::{Played, Script};

/// Number of scripts that run beside each other.
const AT_ONCE: usize = 34;

/// Session timeout of KIP-848 members: none may expire, however busy the machine is.
const SESSION: &str = "30s";

/// Sidecar, administrator and JVM of all scripts.
struct World {
    sidecar: Sidecar,
    admin: Admin,
    jvm: Jvm,
}

#[test]
fn random_scripts_of_healthy_consumers_charge_no_record() {
    let number = |name| std::env::var(name).ok().map(|n: String| n.parse::<u64>().unwrap());
    let seeds = match number("HEALTHY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEALTHY_SEEDS").unwrap_or(100),
    };
    let dir = empty_dir("healthy", "scripts");
    let sidecar = Sidecar::by_rules(&dir, None, SESSION, "");
    let address = sidecar.address();
    let world = World { sidecar, admin: Admin::at(&address), jvm: Jvm::start(&address, &dir) };
    let clock = Clock::start();
    let (played, failed) = play(&world, seeds);
    let sum = |of: fn(&Played) -> usize| played.iter().map(of).sum::<usize>();
    eprintln!(
        "measured: {} scripts of healthy consumers ({} of Java's client), {} records given {} \
         times, {} scripts with suspects, {} with single file, a record alone {} times at most; \
         {:.0} s",
        played.len(),
        sum(|played| usize::from(played.is_java)),
        sum(|played| played.records),
        sum(|played| played.given),
        sum(|played| usize::from(played.was_suspected)),
        sum(|played| usize::from(played.was_narrow)),
        played.iter().map(|played| played.alone).max().unwrap_or_default(),
        clock.elapsed().as_secs_f64(),
    );
    assert!(failed.is_empty(), "HEALTHY_SEED=<n> runs one again:\n{}", failed.join("\n"));
}

/// Results of the scripts, and messages of those that failed.
fn play(world: &World, seeds: std::ops::Range<u64>) -> (Vec<Played>, Vec<String>) {
    let left: Mutex<VecDeque<u64>> = Mutex::new(seeds.collect());
    let (played, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let play = AssertUnwindSafe(|| Script::new(world, seed).play());
                    match catch_unwind(play) {
                        Ok(one) => played.lock().unwrap().push(one),
                        Err(why) => {
                            let why = format!("seed {seed}: {}", text(&*why));
                            failed.lock().unwrap().push(why);
                        }
                    }
                }
            });
        }
    });
    (played.into_inner().unwrap(), failed.into_inner().unwrap())
}

/// Message of a panic.
fn text(why: &(dyn std::any::Any + Send)) -> &str {
    let owned = why.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or("it says nothing")
}
