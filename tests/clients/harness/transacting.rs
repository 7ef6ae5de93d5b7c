//! Scenarios with transactions, of the sidecar without a cluster or of a cluster behind it.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::judge::Judge;
use crate::order::{Order, Plan, failing};
use crate::rig::client::{Client, Record};
use crate::rig::cluster;
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};

const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Starts a client that produces in transactions only.
fn transactional(stage: &Stage, name: &str, group: &str, more: &[&str]) -> Client {
    let id = format!("producer.transactional.id={group}-{name}");
    let settings = more.iter().map(|setting| (*setting).to_owned()).chain([id]);
    let settings: Vec<String> = settings.collect();
    stage.client_at(&stage.sidecar.address(), (name, group, LONG_SESSION), &settings)
}

pub(crate) fn what_a_transaction_aborted_is_never_retried(program: Program) {
    let stage = Stage::new(program, "aborted");
    let mut judge = Judge::new(&stage.scene);
    let committed = ["consumer.isolation.level=read_committed".to_owned()];
    let mut a = stage.member_with("a", &committed);
    let mut p = transactional(&stage, "p", &stage.scene.other_group("producer"), &[]);
    for round in 0..3 {
        p.run("begin");
        judge.produce(&mut p, &format!("kept-{round}"), &failing(12));
        p.run("end commit");
        p.run("begin");
        for partition in 0..PARTITIONS {
            // The judge knows no such order: a delivery would fail the test.
            let order = Order::new("aborted", (&stage.scene.topic, partition), Plan::GOOD, "");
            p.run(&format!("produce {}", order.words("aborted")));
        }
        assert!(p.flush().iter().all(|(_, fate)| fate.is_ok()), "they lie in the log");
        p.run("end abort");
        judge.rounds_until(&mut [&mut a], "some wait", |judge, _| judge.waiting() > 4);
    }
    judge.finish(&mut [&mut a], &stage.sidecar);
    p.close();
    a.close();
}

pub(crate) fn offsets_in_a_transaction_are_the_group_s(program: Program) {
    let stage = Stage::new(program, "offsets");
    let (topic, copies) = (&stage.scene.topic, stage.scene.other_group("copies"));
    stage.make_topic(&copies, PARTITIONS);
    let group = stage.scene.other_group("copier");
    let mut judge = Judge::new(&stage.scene);
    let mut p = stage.client("p", &stage.scene.other_group("producer"), LONG_SESSION);
    judge.produce(&mut p, "order", &[Plan::GOOD; 12]);
    p.close();

    // Two equal attempts. The first one is aborted, so the second begins at the beginning.
    for (name, end, left) in [("one", "abort", None), ("two", "commit", Some(12))] {
        let mut worker = transactional(&stage, name, &group, &[]);
        worker.run(&format!("subscribe {topic}"));
        let mut seen = Vec::new();
        crate::rig::wait::until(crate::judge::PATIENCE, "all are read", || {
            seen.extend(worker.poll(Duration::from_millis(200)));
            seen.len() >= 12
        });
        assert_eq!(seen.len(), 12, "each once");
        worker.run("begin");
        for record in &seen {
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            let (key, value) = (key.expect("a key"), value.expect("a value"));
            worker.run(&format!("produce x none {copies} {} {key} {value}", record.partition));
        }
        assert!(worker.flush().iter().all(|(_, fate)| fate.is_ok()));
        worker.run("offsets");
        worker.run(&format!("end {end}"));
        assert_eq!(committed(&stage, &group, topic), left, "after {end}");
        worker.close();
    }
    // A `read_committed` consumer sees one copy of each record.
    assert_eq!(read_committed(&stage, &copies, 12).len(), 12, "each once");
}

pub(crate) fn a_producer_that_comes_back_fences_the_one_before(program: Program) {
    let stage = Stage::new(program, "fenced");
    let topic = stage.scene.topic.clone();
    let group = stage.scene.other_group("producer");
    let id = [format!("producer.transactional.id={group}")];
    let who = |name: &'static str| (name, group.as_str(), LONG_SESSION);
    let mut old = stage.client_at(&stage.sidecar.address(), who("old"), &id);
    let order = |kind| Order::new(kind, (&topic, 0), Plan::GOOD, "").words(kind);
    old.run("begin");
    old.run(&format!("produce {}", order("lost")));
    assert!(old.flush().iter().all(|(_, fate)| fate.is_ok()));
    let mut new = stage.client_at(&stage.sidecar.address(), who("new"), &id);
    new.run("begin");
    new.run(&format!("produce {}", order("kept")));
    old.send("end commit");
    let fenced = old.answer().expect_err("somebody else has its name");
    assert!(fenced.to_lowercase().contains("fenced"), "{fenced}");
    new.run("end commit");
    let seen = read_committed(&stage, &topic, 1);
    assert_eq!(seen.len(), 1, "what it left open was aborted");
    new.close();
    drop(old);
}

pub(crate) fn a_killed_sidecar_leaves_transactions_whole(program: Program) {
    let mut stage = Stage::new(program, "whole");
    let topic = stage.scene.topic.clone();
    let mut p = transactional(&stage, "p", &stage.scene.other_group("producer"), &[]);
    let order = |n: usize| Order::new("order", (&topic, 0), Plan::GOOD, "").words(&n.to_string());
    p.run("begin");
    p.run(&format!("produce {}", order(0)));
    p.run("end commit");
    p.run("begin");
    p.run(&format!("produce {}", order(1)));
    assert!(p.flush().iter().all(|(_, fate)| fate.is_ok()));
    stage.sidecar.kill();
    stage.sidecar.start_again();
    p.run(&format!("produce {}", order(2)));
    p.run("end commit");
    assert_eq!(read_committed(&stage, &topic, 3).len(), 3, "each once");
    p.close();
}

/// Reads with `read_committed` until `count` records have come.
fn read_committed(stage: &Stage, topic: &str, count: usize) -> Vec<Record> {
    let read = ["consumer.isolation.level=read_committed".to_owned()];
    let readers = stage.scene.other_group("reader");
    let who = ("reader", readers.as_str(), LONG_SESSION);
    let mut reader = stage.client_at(&stage.sidecar.address(), who, &read);
    reader.run(&format!("subscribe {topic}"));
    let mut seen = Vec::new();
    crate::rig::wait::until(crate::judge::PATIENCE, "they are read", || {
        seen.extend(reader.poll(Duration::from_millis(200)));
        seen.len() >= count
    });
    seen.extend(reader.poll(Duration::from_millis(200)));
    reader.close();
    seen
}

/// Sum of the group's committed offsets, as the cluster reports them; `None`: no commit.
fn committed(stage: &Stage, group: &str, topic: &str) -> Option<i64> {
    let at = cluster::bootstrap().map_or_else(|| stage.sidecar.address(), |_| cluster::back_door());
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", at).set("group.id", group).create().unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, PARTITIONS - 1);
    let told = consumer.committed_offsets(asked, ANSWER_MAX).unwrap();
    let offset = |offset| match offset {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    };
    told.elements().iter().map(|element| offset(element.offset())).sum()
}
