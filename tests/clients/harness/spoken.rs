//! Scenario of clients without a producer: the metadata of a commit names the records that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::order::{hex, marks, tag_of};
use crate::rig::client::{Client, Record};
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

const PATIENCE: Duration = Duration::from_mins(1);
const ORDERS: usize = 16;
/// Orders that fail, and how often.
const FAILING: &[(&str, u32)] = &[("order-1", 1), ("order-5", 2), ("order-10", 1)];

pub(crate) fn what_a_commit_s_metadata_names_comes_back(program: Program) {
    let stage = Stage::new(program, "metadata");
    let mut client = stage.member("a", LONG_SESSION);
    let topic = &stage.scene.topic;
    for (n, partition) in (0..ORDERS).zip((0..PARTITIONS).cycle()) {
        let (tag, value) = (format!("order-{n}"), hex(&format!("order-{n}")));
        client.run(&format!("produce {tag} none {topic} {partition} {value} {value} own={value}"));
    }
    assert!(client.flush().iter().all(|(_, fate)| fate.is_ok()));
    let mut first: BTreeMap<String, Record> = BTreeMap::new();
    let mut given: BTreeMap<String, u32> = BTreeMap::new();
    let wanted: u32 = FAILING.iter().map(|(_, times)| times).sum();
    // A retry may come before the last order.
    until(PATIENCE, "all orders and retries are given", || {
        let polled = client.poll(Duration::from_millis(200));
        for record in &polled {
            let tag = tag_of(record);
            if record.topic == *topic {
                first.insert(tag, record.clone());
                continue;
            }
            let marks = marks(record);
            let times = given.entry(tag.clone()).or_default();
            *times += 1;
            assert_eq!(marks["RECONSUME_TIME"], times.to_string(), "{record:?}");
            assert!(marks["x-retry-reason"].starts_with("because order-"), "{record:?}");
            judge(record, &first[&tag], &marks["ORIGIN_MESSAGE_ID"]);
        }
        commit(&mut client, &polled, |tag| given.get(tag).copied().unwrap_or(0) < failures(tag));
        first.len() == ORDERS && given.values().sum::<u32>() == wanted
    });
    let tags: BTreeSet<&str> = given.keys().map(String::as_str).collect();
    assert_eq!(tags, FAILING.iter().map(|(tag, _)| *tag).collect());
    until(PATIENCE, "nothing waits", || stage.sidecar.retries().is_empty());
    assert_eq!(client.poll(Duration::from_millis(500)).len(), 0, "one time too many");

    // The sidecar refuses a commit with invalid metadata, and the client reports the error.
    let at = &first["order-1"];
    client.send(&format!("mark {topic} {} {} {}", at.partition, at.offset + 1, hex("!retry:x")));
    let refused = client.answer().unwrap_err();
    let refused = refused.to_lowercase();
    assert!(
        ["size", "metadata was too large"].iter().any(|word| refused.contains(word)),
        "{refused}"
    );
    client.close();
}

fn failures(tag: &str) -> u32 {
    FAILING.iter().find(|(failing, _)| *failing == tag).map_or(0, |(_, times)| *times)
}

/// Checks that key, value and headers of a retry are those of the order.
fn judge(retry: &Record, first: &Record, origin: &str) {
    assert_eq!((&retry.key, &retry.value), (&first.key, &first.value), "{retry:?}");
    assert!(retry.headers.contains(&first.headers[0]), "{retry:?}");
    assert_eq!(retry.timestamp, first.timestamp, "{retry:?}");
    assert_eq!(origin, format!("{}-{}@{}", first.topic, first.partition, first.offset));
}

/// Commits past these records; the metadata of a partition names its failed records.
fn commit(client: &mut Client, records: &[Record], fails: impl Fn(&str) -> bool) {
    let mut partitions: BTreeMap<(&str, i32), Vec<&Record>> = BTreeMap::new();
    for record in records {
        partitions.entry((&record.topic, record.partition)).or_default().push(record);
    }
    for ((topic, partition), records) in partitions {
        let failed: Vec<&&Record> = records.iter().filter(|r| fails(&tag_of(r))).collect();
        let offsets: Vec<String> = failed.iter().map(|r| r.offset.to_string()).collect();
        let metadata = failed.first().map_or_else(String::new, |record| {
            format!("!retry:{};reason=because {}", offsets.join(","), tag_of(record))
        });
        let end = records.iter().map(|record| record.offset + 1).max().unwrap();
        client.run(&format!("mark {topic} {partition} {end} {}", hex(&metadata)));
    }
}
