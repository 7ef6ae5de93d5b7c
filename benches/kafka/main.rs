//! `reprise` as a cluster of one node beside a real Kafka of one node. Client, records and
//! durability are the same, and the two take turns within one run.
//!
//! `cargo bench --bench kafka [-- PART]` prints one JSON line a figure; PART is one of `speed`,
//! `flow`. A missed goal is printed (`"ok":false`), never an exit code. Needs a JDK and Maven; the
//! first run downloads Kafka into the cache.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

#[path = "../../tests/support/batch.rs"]
#[expect(dead_code, unreachable_pub, clippy::panic, reason = "the tests' own, used in part")]
mod batch;
mod broker;
#[path = "../support/flow.rs"]
mod flow;
#[path = "../support/sheet.rs"]
mod sheet;
#[path = "../support/sidecar.rs"]
mod sidecar;
mod speed;
#[path = "../support/wire.rs"]
mod wire;

use std::time::Duration;

use crate::broker::Broker;
use crate::flow::Flow;
use crate::sheet::{Figure, Goal, quantile};

/// 5 000 records of 1 KiB a second.
const FLOW: Flow =
    Flow { topic: "flow", partition: 0, every: Duration::from_micros(200), value_bytes: 1 << 10 };
const WINDOW: Duration = Duration::from_secs(5);
const WINDOWS: usize = 6;

fn main() {
    // cargo itself adds `--bench`
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let brokers = [
        Broker::kafka(dir.path()),
        Broker::reprise(&dir.path().join("os"), "os"),
        Broker::reprise(&dir.path().join("fsync"), "fsync"),
    ];
    if wants("speed") {
        speed::run(&brokers);
    }
    if wants("flow") {
        flows(&brokers);
    }
    let [kafka, ours, _] = brokers.map(|broker| broker.resident_most_mib());
    tell("kafka_memory", ours, "MiB", Some(kafka), Goal::Most(kafka / 10.0));
}

/// Measures the time from a record's scheduled send until it is consumed.
fn flows(brokers: &[Broker; 3]) {
    for broker in brokers {
        speed::produce(broker, FLOW.topic, 1);
    }
    let mut took: [Vec<f64>; 3] = Default::default();
    for window in 0..=WINDOWS {
        for (took, broker) in took.iter_mut().zip(brokers) {
            let window_took = FLOW.run(broker.addr, WINDOW);
            // The first window warms up.
            if window > 0 {
                took.extend(window_took);
            }
        }
    }
    let shares = [
        (50, "kafka_flow_p50", "kafka_flow_fsync_p50"),
        (99, "kafka_flow_p99", "kafka_flow_fsync_p99"),
    ];
    for (share, metric, fsync) in shares {
        let [kafka, ours, synced] =
            [0, 1, 2].map(|broker: usize| quantile(&mut took[broker], share));
        tell(metric, ours, "ms", Some(kafka), Goal::Most(kafka));
        tell(fsync, synced, "ms", Some(kafka), Goal::None);
    }
}

fn tell(metric: &'static str, value: f64, unit: &'static str, baseline: Option<f64>, goal: Goal) {
    Figure { bench: "kafka", metric, value, unit, baseline, goal }.print();
}
