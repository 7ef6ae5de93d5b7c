//! Requests of every API, damaged at random, against the real process. It stays, serves others, and
//! its memory is bounded. `HOSTILE_SEED=<n> cargo test --test hostile mutations` replays one seed.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::path::Path;

use crate::at_leader;
use crate::cases::{Case, cases};
use crate::sidecar::Sidecar;
use crate::support::{Client, Rec};

const SEEDS: u64 = 3000;
/// Frames on one connection, as long as it stays open.
const FRAMES: usize = 8;
/// Growth: the memory budget of connections, and as much for the rest.
const GROWN_MIB_MAX: f64 = 128.0;

/// One damaged frame, length first; sometimes the length is wrong too.
fn damaged(rng: &mut fastrand::Rng, cases: &[Case]) -> Vec<u8> {
    let case = &cases[rng.usize(..cases.len())];
    let (least, most) = case.api.served();
    let mut bytes = (case.frame)(rng.i16(least..=most)).to_vec();
    for _ in 0..rng.usize(..4) {
        // The API key is not damaged: unknown keys are refused at once.
        let at = rng.usize(2..bytes.len());
        match rng.u8(..5) {
            0 => bytes[at] ^= 1 << rng.u8(..8),
            1 => bytes[at] = rng.u8(..),
            2 => {
                bytes.insert(at, rng.u8(..));
            }
            3 => {
                bytes.remove(at);
            }
            _ => {
                let lie = *rng.choice(&[0x7f_u8, 0xff, 0x80, 0]).unwrap();
                let end = (at + rng.usize(1..9)).min(bytes.len());
                bytes[at..end].fill(lie);
            }
        }
        if bytes.len() < 3 {
            break;
        }
    }
    if rng.u8(..8) == 0 {
        bytes.truncate(rng.usize(..bytes.len()));
    }
    let length = match rng.u8(..16) {
        0 => rng.i32(..),
        _ => i32::try_from(bytes.len()).unwrap(),
    };
    [&length.to_be_bytes()[..], &bytes].concat()
}

/// Starts a sidecar, and connects a client that must be served throughout.
fn house(dir: &Path, settings: &[&str]) -> (Sidecar, Client) {
    let settings = [&["journal.ephemeral=accept", "limits.handshake=1s"], settings].concat();
    let sidecar = Sidecar::start(&dir.join("data"), &settings);
    Client::connect(sidecar.addr).create("good", 1);
    let good = at_leader(Client::connect(sidecar.addr), "good");
    (sidecar, good)
}

/// Opens a connection with damaged requests for each seed.
fn attack(dir: &Path, sidecar: &Sidecar, mut good: Client, seeds: Range<u64>) {
    let before = sidecar.resident_mib();
    let seeds = match std::env::var("HOSTILE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => seeds,
    };
    let count = seeds.end - seeds.start;
    let cases = cases();
    let mut open = VecDeque::new();
    let mut produced = 0;
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut stream = TcpStream::connect(sidecar.addr).unwrap();
        for _ in 0..FRAMES {
            if stream.write_all(&damaged(&mut rng, &cases)).is_err() {
                break;
            }
        }
        // Half of the connections read answers, if any come.
        if rng.bool() {
            drop(stream.shutdown(Shutdown::Write));
        }
        open.push_back(stream);
        if open.len() > 100 {
            open.pop_front();
        }
        if seed % 10 == 0 {
            assert_eq!(good.put("good", 0, &[Rec::new("x")]), produced, "seed {seed}");
            produced += 1;
        }
    }
    assert_eq!(good.put("good", 0, &[Rec::new("the last")]), produced);
    let grown = sidecar.resident_most_mib() - before;
    let log = std::fs::read_to_string(dir.join("data.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert!(grown < GROWN_MIB_MAX, "{grown} MiB for {count} connections");
}

#[test]
fn damaged_requests_of_every_api_cost_their_connection_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let (sidecar, good) = house(dir.path(), &["topics.durability=os"]);
    attack(dir.path(), &sidecar, good, 0..SEEDS);
}

#[test]
fn damaged_requests_to_a_cluster_cost_at_most_their_connection() {
    let cluster = tempfile::tempdir().unwrap();
    let settings = [
        "journal.ephemeral=accept",
        "topics.durability=os",
        "names.retry=not-here.{group}",
        "names.dead_letters=nor-here.{group}",
    ];
    let behind = Sidecar::start(&cluster.path().join("data"), &settings);
    let dir = tempfile::tempdir().unwrap();
    let (sidecar, good) = house(dir.path(), &[&format!("upstream.bootstrap={}", behind.addr)]);
    attack(dir.path(), &sidecar, good, SEEDS..SEEDS + SEEDS / 3);
}
