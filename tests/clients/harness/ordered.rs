//! Scenarios with `order.mode: partition`. Clients nack a record and poll on: `order.rewind:
//! rebalance` brings them back to it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::order::{hex, tag_of};
use crate::rig::client::{Client, Record};
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

/// Longest wait. A cooperative client needs two rebalances for each rewind.
const PATIENCE: Duration = Duration::from_mins(1);
/// Deliveries until the record is a dead letter.
const DELIVERIES: usize = 3;
/// Without the record's commit, the next one follows after `isolation_timeout`, which exceeds the
/// time that a busy machine needs.
const RULES: &str = "retry: {max_reconsume_times: 2, breaker: off, isolation_timeout: 3s, \
    order: {mode: partition, interval: 100ms, rewind: rebalance}}\n";
/// Orders of each batch, over all partitions.
const ORDERS: usize = 12;
/// Order that fails; others lie behind it in its partition.
const FAILING: &str = "early-4";

pub(crate) fn who_polls_on_is_called_back_to_the_record_that_failed(program: Program) {
    let stage = Stage::by_rules(program, "ordered", RULES);
    let mut client = stage.client("a", &stage.scene.group, LONG_SESSION);
    client.run(&format!("subscribe {}", stage.scene.topic));
    produce(&stage, &mut client, "early");
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    let mut held = None;
    until(PATIENCE, "it has failed for the last time", || {
        for record in client.poll(Duration::from_millis(200)) {
            let tag = tag_of(&record);
            let is_behind = held == Some(record.partition) && tag.starts_with("late");
            assert!(!is_behind, "{tag} came before {FAILING} was given up: {given:?}");
            *given.entry(tag.clone()).or_default() += 1;
            if tag != FAILING {
                continue;
            }
            // The record was delivered in isolation: no Fetch in flight can return the late orders.
            if given[FAILING] == 2 {
                held = Some(record.partition);
                produce(&stage, &mut client, "late");
            }
            nack(&mut client, &record);
        }
        given.get(FAILING) == Some(&DELIVERIES)
    });
    assert!(client.rebalances > DELIVERIES, "one each time: {}", client.rebalances);
    until(PATIENCE, "all the others are given", || {
        for record in client.poll(Duration::from_millis(200)) {
            *given.entry(tag_of(&record)).or_default() += 1;
        }
        given.len() == 2 * ORDERS
    });
    client.run("commit");
    assert_eq!(given[FAILING], DELIVERIES, "one time too many");
    let letters = stage.sidecar.letters(&stage.scene.group);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["key"], FAILING, "{letters:?}");
    client.close();
}

fn produce(stage: &Stage, client: &mut Client, batch: &str) {
    for (n, partition) in (0..ORDERS).zip((0..PARTITIONS).cycle()) {
        let (tag, topic) = (format!("{batch}-{n}"), &stage.scene.topic);
        let value = hex(&tag);
        client.run(&format!("produce {tag} none {topic} {partition} {value} {value}"));
    }
    assert!(client.flush().iter().all(|(_, fate)| fate.is_ok()));
}

/// Nacks the record; the sidecar has stored the nack when this returns.
fn nack(client: &mut Client, failed: &Record) {
    let Record { topic, partition, offset, .. } = failed;
    client.run(&format!("nack {FAILING} none {topic}-{partition}@{offset} value"));
    assert!(client.flush().iter().all(|(_, fate)| fate.is_ok()));
}
