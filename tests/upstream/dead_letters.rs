//! Dead letters are records of their topic in the cluster, whatever faults it has meanwhile.

use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;
use reprise::model::{TopicName, WallMs};
use reprise::observe::Metrics;
use reprise::upstream::{Address, FailureKind, TopicWriter, Upstream};
use reprise::wire::batch::{Headers, RawRecord, TimestampType};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::door::Door;
use crate::kafka::{Fault, Kafka, State};
use crate::support::batch::{TIME_MS, plain};
use crate::support::client::produce_request;
use crate::support::{Client, Rec, Server, until, wall_ms};

const YAML: &str = "upstream: {bootstrap: 'a:1'}\n\
    names: {dead_letters: 'failed.{group}'}\n";
const TOPIC: &str = "failed.shop";

/// [`shop`] with a clock that the test advances.
fn told_shop() -> (Kafka, Server, Client) {
    let kafka = Kafka::start(State::default());
    let server = Server::told_in_front_of(kafka.addr, YAML);
    let client = server.client();
    (kafka, server, client)
}

fn shop() -> (Kafka, Server, Client) {
    let kafka = Kafka::start(State::default());
    let server = Server::in_front_of(kafka.addr, YAML);
    let client = server.client();
    (kafka, server, client)
}

/// A nack that asks for a dead letter at once, without an origin, so that no commit is needed.
fn letter(value: &str) -> Rec {
    Rec::new(value).header("x-retry-level", "-1")
}

fn send(client: &mut Client, group: &str, records: &[Rec]) {
    let request: ProduceRequest =
        produce_request(&format!("reprise.retry.{group}"), 0, plain(records), -1);
    let answer = client.call(9, &request);
    let told = &answer.responses[0].partition_responses[0];
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
}

fn advice(server: &Server) -> String {
    server.json("/api/v1/groups/shop")["advice"].to_string()
}

/// The value of a series, a whole number.
fn value(server: &Server, series: &str) -> u64 {
    server.metric(series).to_string().parse().unwrap()
}

/// The number of dead letters of the group, and of exhausted records that are none yet.
fn letters(server: &Server) -> (u64, u64) {
    let group = server.json("/api/v1/groups/shop");
    (group["dead_letters"].as_u64().unwrap(), group["blocked"].as_u64().unwrap())
}

fn until_letters(server: &Server, dead: u64, blocked: u64) {
    until("the dead letters are known", || letters(server) == (dead, blocked));
}

/// Lets time pass until the sidecar has seen what others did to the topic.
fn until_followed(server: &Server, dead: u64) {
    until("the topic is followed", || {
        server.pass(1_000);
        letters(server) == (dead, 0)
    });
}

fn arrive(kafka: &Kafka, values: &[&str]) {
    until("they arrive", || kafka.values(TOPIC).len() >= values.len());
    assert_eq!(kafka.values(TOPIC), values);
}

#[test]
fn a_dead_letter_is_a_record_of_its_created_topic() {
    let (kafka, server, mut client) = shop();
    let before = wall_ms();
    let origin = letter("x").header("x-retry-origin", "orders-3@812").header("trace", "t");
    send(&mut client, "shop", &[letter("one"), letter("two")]);
    arrive(&kafka, &["one", "two"]);
    let settings = [
        "cleanup.policy=delete",
        "retention.ms=-1",
        "message.timestamp.type=CreateTime",
        "max.message.bytes=67108864",
    ];
    let settings = settings.map(str::to_owned).to_vec();
    assert!(kafka.state().made.contains(&(TOPIC.to_owned(), 1, -1, settings)));
    send(&mut client, "shop", &[origin]);
    until("the third arrives", || kafka.state().taken.len() == 3);
    let taken = kafka.state().taken[2].clone();
    assert_eq!((taken.partition, taken.topic.as_str()), (0, TOPIC));
    taken.record.assert_appended_since(before, TIME_MS);
    for (name, value) in [
        ("ORIGIN_MESSAGE_ID", "orders-3@812"),
        ("__dlq.errors.group", "shop"),
        ("x-retry-disposition", "explicit_dlq"),
        ("trace", "t"),
    ] {
        assert_eq!(taken.record.header(name).as_deref(), Some(value), "{name}");
    }
    until_letters(&server, 3, 0);
}

#[test]
fn dead_letters_wait_while_the_cluster_is_away() {
    let (kafka, mut server, mut client) = shop();
    send(&mut client, "shop", &[letter("before")]);
    arrive(&kafka, &["before"]);
    until_letters(&server, 1, 0);
    kafka.state().closes = usize::MAX;
    send(&mut client, "shop", &[letter("meanwhile")]);
    let waits = "1 exhausted records wait here for failed.shop";
    until("it is said", || advice(&server).contains(waits));
    until("so does readiness", || server.get("/readyz").contains("dead letters waiting"));
    let degraded = "reprise_degraded{reason=\"dead_letters_waiting\"}";
    until("and its gauge", || value(&server, degraded) == 1);
    assert_eq!(letters(&server), (1, 1), "it is kept");
    server.restart();
    until("it is still said", || advice(&server).contains(waits));
    kafka.state().closes = 0;
    arrive(&kafka, &["before", "meanwhile"]);
    until("nothing is in the way", || value(&server, degraded) == 0);
    until_letters(&server, 2, 0);
}

#[test]
fn errors_of_the_cluster_are_waited_out() {
    let (kafka, _server, mut client) = shop();
    // Not the leader, too few replicas, timed out, not authorized, unknown topic.
    kafka.state().faults = [6, 19, 7, 29, 3].map(Fault::Error).into();
    send(&mut client, "shop", &[letter("patient")]);
    arrive(&kafka, &["patient"]);
    assert!(kafka.state().faults.is_empty());
}

#[test]
fn a_topic_without_create_permission_is_requested_from_the_operator() {
    let (kafka, server, mut client) = told_shop();
    kafka.state().no_topics = true;
    send(&mut client, "shop", &[letter("one")]);
    until("it is said", || advice(&server).contains("create it, or allow the user"));
    assert_eq!(kafka.asked(0), 0);
    kafka.state().topics.insert(TOPIC.to_owned(), 3);
    server.pass(30_000);
    until("it arrives", || kafka.values(TOPIC) == ["one"]);
    assert!(kafka.state().made.is_empty());
    assert_eq!(kafka.state().taken[0].partition, 0, "the only one that is read");
}

#[test]
fn a_lost_answer_does_not_duplicate_a_dead_letter() {
    let (kafka, server, mut client) = shop();
    kafka.state().faults = [Fault::Lost, Fault::Lost, Fault::Error(19)].into();
    send(&mut client, "shop", &[letter("one"), letter("two")]);
    until_letters(&server, 2, 0);
    assert_eq!(kafka.values(TOPIC), ["one", "two"]);
    assert!(kafka.state().known_again >= 1);
    // A cluster that has forgotten the producer id gives a new one.
    kafka.state().faults = [Fault::Error(59)].into();
    send(&mut client, "shop", &[letter("three")]);
    arrive(&kafka, &["one", "two", "three"]);
    assert!(kafka.asked(22) >= 2);
}

#[test]
fn dead_letters_are_sent_without_a_producer_id() {
    let (kafka, _server, mut client) = shop();
    kafka.state().no_ids = true;
    kafka.state().faults = [Fault::Lost].into();
    send(&mut client, "shop", &[letter("one")]);
    until("they arrive", || kafka.values(TOPIC).len() == 2);
    assert_eq!(kafka.values(TOPIC), ["one", "one"], "twice, and never not at all");
}

#[test]
fn a_dead_letter_written_before_a_kill_is_found_again() {
    let (kafka, server, mut client) = shop();
    kafka.state().faults = [Fault::Silence].into();
    let one = letter("one").header("x-retry-origin", "orders-3@812");
    send(&mut client, "shop", &[one]);
    arrive(&kafka, &["one"]);
    let again = server.killed();
    until_letters(&again, 1, 0);
    let two = letter("two").header("x-retry-origin", "orders-3@813");
    send(&mut again.client(), "shop", &[two]);
    arrive(&kafka, &["one", "two"]);
    until_letters(&again, 2, 0);
    // The next start knows both: from its log, or from the topic.
    let third = again.killed();
    send(&mut third.client(), "shop", &[letter("three")]);
    arrive(&kafka, &["one", "two", "three"]);
    until_letters(&third, 3, 0);
}

#[test]
fn an_oversize_dead_letter_is_kept_and_others_are_written() {
    let (kafka, server, mut client) = told_shop();
    kafka.state().batch_bytes_max = Some(20_000);
    let large = "x".repeat(30_000);
    let sent = [letter("one"), letter(&large), letter("two")];
    send(&mut client, "shop", &sent);
    arrive(&kafka, &["one", "two"]);
    until_letters(&server, 2, 1);
    until("it is said", || advice(&server).contains("1 record is blocked and tried again"));
    kafka.state().batch_bytes_max = None;
    server.pass(30_000);
    arrive(&kafka, &["one", "two", &large]);
    until_letters(&server, 3, 0);
}

#[test]
fn records_that_others_write_are_dead_letters() {
    let (kafka, server, mut client) = told_shop();
    send(&mut client, "shop", &[letter("ours")]);
    until_letters(&server, 1, 0);
    let theirs = Rec::new("theirs")
        .header("ORIGIN_MESSAGE_ID", "orders-3@812")
        .header("RECONSUME_TIME", "17")
        .header("x-retry-disposition", "max_attempts")
        .header("x-retry-reason", "stock is empty")
        .header("trace", "t");
    kafka.write(TOPIC, &theirs);
    kafka.write(TOPIC, &Rec::new("plain"));
    until_followed(&server, 3);
    let mut found = Value::Null;
    until("it is listed", || {
        let listed = server.json("/api/v1/dead-letters?group=shop");
        let mut listed = listed["items"].as_array().unwrap().iter();
        found = listed.find(|one| one["offset"] == 1).cloned().unwrap_or_default();
        !found.is_null()
    });
    for (name, value) in [("origin", "orders-3@812"), ("error", "stock is empty")] {
        assert_eq!(found[name], value, "{found}");
    }
    assert_eq!(found["reconsume_times"], 17, "{found}");
    // A letter of ours follows theirs.
    send(&mut client, "shop", &[letter("ours too")]);
    until_letters(&server, 4, 0);
    assert_eq!(kafka.values(TOPIC), ["ours", "theirs", "plain", "ours too"]);
}

#[test]
fn deleted_records_and_topics_leave_the_dead_letters() {
    let (kafka, server, mut client) = told_shop();
    send(&mut client, "shop", &[letter("one"), letter("two"), letter("three")]);
    until_letters(&server, 3, 0);
    kafka.delete_records(TOPIC, 2);
    until_followed(&server, 1);
    kafka.delete(TOPIC);
    send(&mut client, "shop", &[letter("four")]);
    arrive(&kafka, &["four"]);
    until_letters(&server, 1, 0);
}

#[test]
fn settled_letters_are_deleted_from_their_topic_after_a_day() {
    const HOUR: u64 = 3_600_000;
    let (kafka, server, mut client) = told_shop();
    send(&mut client, "shop", &[letter("one"), letter("two"), letter("three")]);
    until_letters(&server, 3, 0);
    let discard = |offsets: &str| {
        let body = format!(r#"{{"group": "shop", "offsets": [{offsets}], "note": "x"}}"#);
        let (code, told) = server.post("/api/v1/dead-letters/discard", &body);
        assert_eq!(code, 200, "{told}");
    };
    discard("0, 2");
    for _ in 0..49 {
        server.pass(HOUR);
    }
    until("the first is deleted", || kafka.start_of(TOPIC) == 1);
    discard("1");
    for _ in 0..49 {
        server.pass(HOUR);
    }
    until("all are deleted", || kafka.start_of(TOPIC) == 3);
    send(&mut client, "shop", &[letter("four")]);
    until_letters(&server, 1, 0);
}

#[test]
fn letters_past_their_retention_are_deleted_from_their_topic() {
    let kafka = Kafka::start(State::default());
    let yaml = format!("{YAML}retry: {{dead_letters: {{retention: 1h}}}}\n");
    let server = Server::told_in_front_of(kafka.addr, &yaml);
    send(&mut server.client(), "shop", &[letter("one")]);
    until_letters(&server, 1, 0);
    server.pass(3_700_000);
    until("it is deleted", || kafka.start_of(TOPIC) == 1);
    until_letters(&server, 0, 0);
    let audit = server.json("/api/v1/audit").to_string();
    assert!(audit.contains("retention"), "{audit}");
}

#[test]
fn a_topic_that_cannot_be_read_blocks_its_dead_letters() {
    let (kafka, server, mut client) = shop();
    kafka.state().topics.insert(TOPIC.to_owned(), 1);
    kafka.state().no_reads = true;
    send(&mut client, "shop", &[letter("one")]);
    until("it is said", || advice(&server).contains("to READ and DESCRIBE it"));
    assert_eq!((letters(&server), kafka.asked(0)), ((0, 1), 0));
    kafka.state().no_reads = false;
    arrive(&kafka, &["one"]);
    until_letters(&server, 1, 0);
}

#[test]
fn a_topic_that_refuses_everything_loses_nothing() {
    let (kafka, server, mut client) = told_shop();
    kafka.state().batch_bytes_max = Some(0);
    for _ in 0..3 {
        let letters: Vec<Rec> = (0..100).map(|n| letter(&n.to_string())).collect();
        send(&mut client, "shop", &letters);
    }
    until("each is tried", || advice(&server).contains("300 records are blocked"));
    assert_eq!(letters(&server), (0, 300));
    kafka.state().batch_bytes_max = None;
    server.pass(30_000);
    until_letters(&server, 300, 0);
}

#[test]
fn our_own_credentials_open_the_way() {
    let kafka = Kafka::behind(Door::of("SCRAM-SHA-256"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "wrong").unwrap();
    let sasl = format!(
        "upstream: {{bootstrap: 'a:1', sasl: {{mechanism: SCRAM-SHA-256, username: side, \
         password_file: {}}}}}\n",
        file.display()
    );
    let yaml = YAML.replace("upstream: {bootstrap: 'a:1'}\n", &sasl);
    let mut server = Server::in_front_of(kafka.addr, &yaml);
    send(&mut server.client(), "shop", &[letter("one")]);
    until("it is said", || advice(&server).contains("check upstream.sasl"));
    std::fs::write(&file, "car").unwrap();
    // Each refused login makes the pause before the next one longer.
    server.restart();
    arrive(&kafka, &["one"]);
}

/// A writer with short timeouts, and its connections to the cluster.
fn writer(kafka: &Kafka) -> (Upstream, TopicWriter) {
    let bootstrap = Address { host: kafka.addr.ip().to_string(), port: kafka.addr.port() };
    let metrics = Metrics::new(10).unwrap();
    let (budget, wait) = (reprise::socket::Budget::new(1 << 26), Duration::from_secs(10));
    let upstream = Upstream::new(vec![bootstrap], wait, 1 << 20, budget, metrics);
    (upstream, TopicWriter::patient(Duration::from_millis(500)))
}

fn record(value: &'static str) -> RawRecord {
    RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::LogAppendTime,
        key: None,
        value: Some(value.into()),
        headers: Headers::default(),
    }
}

#[test]
fn an_unanswered_write_ends_and_its_repetition_is_deduplicated() {
    let kafka = Kafka::start(State::default());
    kafka.state().faults = [Fault::Silence].into();
    let (upstream, mut writer) = writer(&kafka);
    let topic = TopicName::new("failed");
    let records = [record("v")];
    Runtime::new().unwrap().block_on(async {
        let late = writer.write(&upstream, &topic, 0, &records, WallMs(10)).await.unwrap_err();
        assert_eq!((late.kind(), late.word().as_str()), (FailureKind::Later, "TooSlow"));
        writer.write(&upstream, &topic, 0, &records, WallMs(20)).await.unwrap();
        writer.write(&upstream, &topic, 0, &records, WallMs(20)).await.unwrap();
    });
    assert_eq!((kafka.values("failed").len(), kafka.state().known_again), (2, 1));
    let times: Vec<i64> = kafka.state().taken.iter().map(|taken| taken.record.time_ms).collect();
    assert_eq!(times, [10, 20], "each of its first attempt");
    assert_eq!(kafka.state().taken[1].record.number("x-retry-origin-timestamp-ms"), 1);
}

#[test]
fn other_records_after_an_unanswered_write_are_no_repetition() {
    let kafka = Kafka::start(State::default());
    let (upstream, mut writer) = writer(&kafka);
    let topic = TopicName::new("failed");
    Runtime::new().unwrap().block_on(async {
        // The batch is stored without an answer, or answered with `REQUEST_TIMED_OUT` (7) and not
        // stored: the writer cannot tell these cases apart.
        for fault in [Fault::Silence, Fault::Error(7)] {
            kafka.state().faults = [fault].into();
            writer.write(&upstream, &topic, 0, &[record("a")], WallMs(10)).await.unwrap_err();
            writer.write(&upstream, &topic, 0, &[record("b")], WallMs(10)).await.unwrap();
            writer.write(&upstream, &topic, 0, &[record("a")], WallMs(10)).await.unwrap();
        }
    });
    assert_eq!(kafka.values("failed"), ["a", "b", "a", "b", "a"], "twice, and never not at all");
    assert_eq!((kafka.asked(22), kafka.state().known_again), (3, 0));
    // A refused batch was never stored, so its sequence number is used again.
    Runtime::new().unwrap().block_on(async {
        kafka.state().faults = [Fault::Error(10)].into();
        writer.write(&upstream, &topic, 0, &[record("c")], WallMs(10)).await.unwrap_err();
        writer.write(&upstream, &topic, 0, &[record("d")], WallMs(10)).await.unwrap();
    });
    assert_eq!((kafka.values("failed").pop().unwrap().as_str(), kafka.asked(22)), ("d", 3));
}
