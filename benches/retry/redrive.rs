//! A job that redrives a hundred thousand dead letters without a rate limit, after its plan and
//! the list of fingerprints.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use reprise::clock::Clock;
use serde_json::Value;

use crate::batch::{Rec, plain};
use crate::sheet::Goal;
use crate::wire::Wire;
use crate::{GROUP, RETRY, number, start, tell};

const LETTERS: usize = 100_000;
/// Records of one Produce.
const BATCH: usize = 500;

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let server = start(dir, "redrive", 1);
    fill(server.addr);
    let clock = Clock::start();
    let kinds = json(&server.get(&format!("/api/v1/dead-letters/fingerprints?group={GROUP}")));
    assert_eq!(kinds["items"][0]["records"].as_u64(), u64::try_from(LETTERS).ok());
    tell("fingerprints", seconds(&clock), "s for 100 000 dead letters", None, Goal::None);
    let clock = Clock::start();
    let terms = format!("{{\"group\":\"{GROUP}\",\"why\":\"bench\",\"rate\":0}}");
    let plan = json(&server.post("/api/v1/jobs/plan", &terms));
    assert_eq!(plan["matched"].as_u64(), u64::try_from(LETTERS).ok());
    tell("redrive_plan", seconds(&clock), "s for 100 000 dead letters", None, Goal::None);
    let (clock, cpu_s) = (Clock::start(), server.cpu_s());
    server.post("/api/v1/jobs", &terms);
    while json(&server.get("/api/v1/jobs/1"))["state"] == "running" {
        thread::sleep(Duration::from_millis(20));
    }
    let rate = number(LETTERS) / seconds(&clock);
    let cost = (server.cpu_s() - cpu_s) * 1e6 / number(LETTERS);
    let job = json(&server.get("/api/v1/jobs/1"));
    assert_eq!(job["changed"].as_u64(), u64::try_from(LETTERS).ok(), "{job}");
    tell("redrive", rate, "1/s, durable", None, Goal::Least(20_000.0));
    tell("redrive_cpu", cost, "CPU µs of the sidecar per letter", None, Goal::None);
}

fn seconds(clock: &Clock) -> f64 {
    clock.elapsed().as_secs_f64()
}

fn fill(addr: SocketAddr) {
    let mut wire = Wire::connect(addr);
    for batch in 0..LETTERS / BATCH {
        let of = |n: usize| {
            let record = Rec::new(&format!("{batch} {n} {}", "x".repeat(200)));
            record.header("x-retry-level", "-1")
        };
        wire.out.produce(RETRY, 0, plain(&(0..BATCH).map(of).collect::<Vec<_>>()));
    }
    (0..LETTERS / BATCH).for_each(|_| wire.back.produced());
}

/// The body of an answer.
fn json(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}
