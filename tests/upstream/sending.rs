//! An operator sends dead letters to topics of the cluster: a dead letter is discarded once its
//! record is stored there.

use std::sync::{Arc, Barrier};

use serde_json::{Value, json};

use crate::kafka::{Fault, Kafka, State};
use crate::support::batch::{TIME_MS, plain};
use crate::support::client::produce_request;
use crate::support::{Rec, Server, until, wall_ms};

/// Five dead letters in front of a cluster with a topic of three partitions.
fn shop() -> (Kafka, Server) {
    let kafka = Kafka::start(State::default());
    kafka.state().topics.insert("parking".to_owned(), 3);
    let server = Server::in_front_of(kafka.addr, "upstream: {bootstrap: 'a:1'}");
    for at in 0..5 {
        bury(&server, "shop", &format!("order-{at}"));
    }
    (kafka, server)
}

/// Makes a dead letter of a group.
fn bury(server: &Server, group: &str, value: &str) {
    let before = dead_of(server, group);
    let record = Rec { key: None, ..Rec::new(value) }.header("x-retry-level", "-1");
    let request = produce_request(&format!("reprise.retry.{group}"), 0, plain(&[record]), -1);
    let answer = server.client().call(9, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    until("it is a dead letter", || dead_of(server, group) > before);
}

fn dead(server: &Server) -> usize {
    dead_of(server, "shop")
}

fn dead_of(server: &Server, group: &str) -> usize {
    let found = server.json(&format!("/api/v1/dead-letters?group={group}&state=dead"));
    found["items"].as_array().unwrap().len()
}

fn sorted(kafka: &Kafka) -> Vec<String> {
    let mut values = kafka.values("parking");
    values.sort();
    values
}

fn redrive(server: &Server, offsets: &[i64], topic: &str) -> Value {
    let body = json!({"group": "shop", "offsets": offsets, "to_topic": topic, "note": "x"});
    let (code, answer) = server.post("/api/v1/dead-letters/redrive", &body.to_string());
    assert_eq!(code, 200, "{answer}");
    answer
}

fn start_job(server: &Server) {
    let body = json!({"group": "shop", "to_topic": "parking", "rate": 0, "note": "x"});
    let (code, answer) = server.post("/api/v1/jobs", &body.to_string());
    assert_eq!(code, 200, "{answer}");
}

fn until_job(server: &Server, state: &str) {
    until("the job is in its state", || server.json("/api/v1/jobs/1")["state"] == state);
}

fn is_made(kafka: &Kafka, topic: &str) -> bool {
    kafka.state().made.iter().any(|(made, ..)| made == topic)
}

#[test]
fn letters_reach_a_topic_of_the_cluster() {
    let (start, (kafka, server)) = (wall_ms(), shop());
    assert_eq!(redrive(&server, &[1, 2], "parking")["changed"], 2);
    assert_eq!(sorted(&kafka), ["order-1", "order-2"]);
    assert_eq!(dead(&server), 3);
    start_job(&server);
    until_job(&server, "done");
    assert_eq!(sorted(&kafka), ["order-0", "order-1", "order-2", "order-3", "order-4"]);
    let counts: Vec<_> = kafka.state().taken.iter().map(|taken| taken.partition).collect();
    assert!((0..3).all(|partition| counts.contains(&partition)), "they go round: {counts:?}");
    for taken in &kafka.state().taken {
        taken.record.assert_appended_since(start, TIME_MS);
    }
}

#[test]
fn no_topic_is_made_for_letters() {
    let (kafka, server) = shop();
    let answer = redrive(&server, &[1], "nowhere");
    assert_eq!(answer["left"][0]["why"], "there is no topic nowhere");
    assert!(!is_made(&kafka, "nowhere") && !is_made(&kafka, "parking"));
    // The topic refuses the record: not authorized.
    kafka.state().faults = [29].map(Fault::Error).into();
    let answer = redrive(&server, &[1], "parking");
    assert!(answer["left"][0]["why"].to_string().contains("does not take records"), "{answer}");
    assert_eq!((dead(&server), kafka.values("parking").len()), (5, 0));
}

#[test]
fn a_cluster_that_is_not_ready_is_asked_again() {
    let (kafka, server) = shop();
    // The cluster loads its coordinator, then the partition gets its leader.
    kafka.state().id_faults = [14, 15].into();
    kafka.state().faults = [6].map(Fault::Error).into();
    assert_eq!(redrive(&server, &[1, 2], "parking")["changed"], 2);
    assert_eq!(sorted(&kafka), ["order-1", "order-2"]);
}

#[test]
fn a_deleted_topic_is_not_made_again() {
    let (kafka, server) = shop();
    assert_eq!(redrive(&server, &[0], "parking")["changed"], 1);
    kafka.state().topics.clear();
    let answer = redrive(&server, &[1, 2, 3], "parking");
    assert_eq!(answer["changed"], 0, "{answer}");
    assert_eq!(answer["left"][2]["why"], "there is no topic parking");
    assert!(!is_made(&kafka, "nowhere") && !is_made(&kafka, "parking"));
    assert_eq!(dead(&server), 4);
}

#[test]
fn a_refused_record_holds_up_no_other_one() {
    let (kafka, server) = shop();
    kafka.state().topics.insert("parking".to_owned(), 1);
    bury(&server, "shop", &"x".repeat(30_000));
    bury(&server, "shop", "order-9");
    kafka.state().batch_bytes_max = Some(20_000);
    start_job(&server);
    until_job(&server, "done");
    let job = server.json("/api/v1/jobs/1");
    assert_eq!((&job["changed"], &job["left"]), (&json!(6), &json!(1)), "{job}");
    assert_eq!((kafka.values("parking").len(), dead(&server)), (6, 1));
}

#[test]
fn a_stuck_job_holds_up_no_other_job() {
    let (kafka, server) = shop();
    bury(&server, "other", "order-0");
    kafka.state().short = [0, 1, 2].into();
    start_job(&server);
    let body = json!({"group": "other", "action": "discard", "note": "x"});
    let (code, answer) = server.post("/api/v1/jobs", &body.to_string());
    assert_eq!(code, 200, "{answer}");
    until("the other job is done", || server.json("/api/v1/jobs/2")["state"] == "done");
    assert_eq!(server.json("/api/v1/jobs/1")["state"], "running");
    kafka.state().short.clear();
    until_job(&server, "done");
    assert_eq!(kafka.values("parking").len(), 5);
}

#[test]
fn a_job_continues_when_the_cluster_is_back() {
    let (kafka, server) = shop();
    assert_eq!(redrive(&server, &[0], "parking")["changed"], 1);
    // Two of the three partitions have no leader for a time.
    kafka.state().faults = [6, 6].map(Fault::Error).into();
    start_job(&server);
    until_job(&server, "done");
    assert_eq!(sorted(&kafka), ["order-0", "order-1", "order-2", "order-3", "order-4"]);
    let job = server.json("/api/v1/jobs/1");
    assert_eq!((&job["changed"], &job["left"]), (&json!(4), &json!(0)), "{job}");
}

#[test]
fn a_caller_that_goes_away_leaves_no_sent_letter() {
    let (kafka, server) = shop();
    let barrier = Arc::new(Barrier::new(2));
    kafka.state().faults = [Fault::Late(Arc::clone(&barrier))].into();
    let body = json!({"group": "shop", "offsets": [1], "to_topic": "parking", "note": "x"});
    let caller = server.posting("/api/v1/dead-letters/redrive", &body.to_string());
    until("the record is there", || !kafka.values("parking").is_empty());
    drop(caller);
    assert_eq!(dead(&server), 5, "the cluster has not answered");
    barrier.wait();
    until("the letter is discarded", || dead(&server) == 4);
    assert_eq!(sorted(&kafka), ["order-1"]);
    let action = || server.json("/api/v1/audit?group=shop")["items"][0]["action"] == "send";
    until("the audit tells it", action);
}

#[test]
fn a_job_paused_while_it_sends_sends_nothing_twice() {
    let (kafka, server) = shop();
    let barrier = Arc::new(Barrier::new(2));
    kafka.state().faults = [Fault::Late(Arc::clone(&barrier))].into();
    start_job(&server);
    until("the first batch is there", || !kafka.values("parking").is_empty());
    let (code, answer) = server.post("/api/v1/jobs/1/pause", "{}");
    assert_eq!((code, &answer["state"]), (200, &json!("paused")), "{answer}");
    barrier.wait();
    let (code, answer) = server.post("/api/v1/jobs/1/resume", "{}");
    assert_eq!(code, 200, "{answer}");
    until_job(&server, "done");
    assert_eq!(sorted(&kafka), ["order-0", "order-1", "order-2", "order-3", "order-4"]);
    assert_eq!(dead(&server), 0);
}

#[test]
fn a_kill_before_the_answer_sends_twice_and_loses_nothing() {
    let (kafka, server) = shop();
    kafka.state().faults = [Fault::Silence].into();
    start_job(&server);
    until("a batch is there", || !kafka.values("parking").is_empty());
    let again = server.killed();
    until_job(&again, "done");
    let mut values = sorted(&kafka);
    values.dedup();
    assert_eq!(values, ["order-0", "order-1", "order-2", "order-3", "order-4"]);
    assert_eq!(dead(&again), 0);
}
