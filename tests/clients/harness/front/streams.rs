//! Kafka Streams with exactly-once processing through the sidecar.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::judge::PATIENCE;
use crate::kcat::streams::{Counts, output, produce};
use crate::order::hex;
use crate::rig::client::Client;
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

#[test]
fn an_application_counts_exactly_once_and_is_not_touched() {
    counts_exactly_once("classic", &[]);
}

#[test]
fn an_application_by_the_streams_protocol_counts_exactly_once() {
    counts_exactly_once("streams", &["group.protocol=streams"]);
}

fn counts_exactly_once(name: &str, settings: &[&str]) {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(Program::JAVA, &format!("streams-{name}"));
    stage.make_topic(&output(&stage), PARTITIONS);
    let mut p = stage.client("p", &stage.scene.other_group("producer"), LONG_SESSION);
    let short = ["consumer.session.timeout.ms=2000", "consumer.heartbeat.interval.ms=500"];
    let settings = if settings.is_empty() { &short[..] } else { settings };
    let first = Counts::start(&stage, "first", &stage.scene.topic, settings);
    first.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    let read = ["consumer.isolation.level=read_committed".to_owned()];
    let readers = stage.scene.other_group("reader");
    let who = ("reader", readers.as_str(), LONG_SESSION);
    let mut reader = stage.client_at(&stage.sidecar.address(), who, &read);
    reader.run(&format!("subscribe {}", output(&stage)));
    let mut counted = BTreeMap::new();
    read_counts(&mut reader, &mut counted, 40);
    // The first process dies, and the second continues where the transactions ended.
    produce(&stage, &mut p, 40);
    first.kill();
    let second = Counts::start(&stage, "second", &stage.scene.topic, settings);
    second.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    read_counts(&mut reader, &mut counted, 120);
    let extra = reader.poll(Duration::from_millis(300));
    assert!(extra.is_empty(), "counted one time too many: {extra:?}");
    second.close();
    reader.close();
    p.close();
}

/// Reads until all words together were counted `total` times; each word's counts rise one by one.
fn read_counts(reader: &mut Client, counted: &mut BTreeMap<String, u64>, total: u64) {
    until(PATIENCE, "everything is counted", || {
        for record in reader.poll(Duration::from_millis(200)) {
            let word = record.key.expect("a word");
            let before = counted.entry(word.clone()).or_default();
            *before += 1;
            let said = record.value.expect("a count");
            assert!(said.ends_with(&hex(&format!("={before}"))), "{word}: {said} is not {before}");
        }
        counted.values().sum::<u64>() >= total
    });
    assert_eq!(counted.values().sum::<u64>(), total);
}
