//! Pages and lists over a million waiting retries, and a million dead letters of ten thousand
//! fingerprints.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Rec, plain};
use crate::sheet::Goal;
use crate::sidecar::Sidecar;
use crate::wire::Wire;
use crate::{RETRY, tell};

const RECORDS: usize = 1_000_000;
const FINGERPRINTS: usize = 10_000;
/// Records of one Produce.
const BATCH: usize = 500;
/// Most Produces in flight.
const WINDOW: usize = 40;
/// Requests of each list; the median counts.
const ROUNDS: usize = 7;

const COUNTS: &str = "/api/v1/retries/fingerprints?group=bench&limit=100";
/// The lists, and the names of their figures.
const LISTS: [(&str, &str); 9] = [
    ("list_retry_fingerprints", COUNTS),
    ("list_overview", "/api/v1/overview"),
    ("list_groups", "/api/v1/groups"),
    ("list_dead_letters", "/api/v1/dead-letters?group=bench&limit=100"),
    ("list_dead_letters_last", "/api/v1/dead-letters?group=bench&limit=100&after=999800:bench"),
    ("list_retries", "/api/v1/retries?group=bench&limit=100"),
    ("list_fingerprints", "/api/v1/dead-letters/fingerprints?group=bench&limit=100"),
    ("page_now", "/"),
    ("page_group", "/groups/bench"),
];

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let settings = ["retry.levels=2h", "log.filter=warn", "retry.breaker=off"];
    let server = Sidecar::start(&dir.join("lists"), &settings);
    fill(server.addr, false);
    let before = server.resident_mib();
    fill(server.addr, true);
    let added = server.resident_mib() - before;
    tell("list_memory", added, "MiB, by a million letters", None, Goal::Most(64.0));
    // No count is remembered yet.
    let first = took_ms(&server, COUNTS);
    tell("list_counts_first", first, "ms", None, Goal::Most(100.0));
    let clock = Clock::start();
    while server.browse(COUNTS).contains("\"counting\":true") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let counted = clock.elapsed().as_secs_f64();
    tell("list_counted", counted, "s, a million retries", None, Goal::None);
    for (metric, path) in LISTS {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| took_ms(&server, path)).collect();
        times.sort_by(f64::total_cmp);
        tell(metric, times[ROUNDS / 2], "ms", None, Goal::Most(100.0));
    }
}

fn took_ms(server: &Sidecar, path: &str) -> f64 {
    let clock = Clock::start();
    let answer = server.browse(path);
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    clock.elapsed().as_secs_f64() * 1e3
}

/// Spells a number in letters, since the fingerprint masks digits.
fn word(number: usize) -> String {
    let letter = |place: u32| {
        let digit = number / 10_usize.pow(place) % 10;
        char::from(b'a' + u8::try_from(digit).unwrap())
    };
    (0..4).map(letter).collect()
}

/// Nacks a million records, which become dead letters or waiting retries.
fn fill(addr: SocketAddr, are_dead: bool) {
    let mut wire = Wire::connect(addr);
    let mut open = 0;
    for batch in 0..RECORDS / BATCH {
        let of = |n: usize| {
            let at = batch * BATCH + n;
            let record = Rec::new(&format!("{at} {}", "x".repeat(100)));
            let record = record.header("x-retry-reason", format!("no {}", word(at % FINGERPRINTS)));
            if are_dead { record.header("x-retry-level", "-1") } else { record }
        };
        wire.out.produce(RETRY, 0, plain(&(0..BATCH).map(of).collect::<Vec<_>>()));
        open += 1;
        if open == WINDOW {
            (0..WINDOW).for_each(|_| wire.back.produced());
            open = 0;
        }
    }
    (0..open).for_each(|_| wire.back.produced());
}
