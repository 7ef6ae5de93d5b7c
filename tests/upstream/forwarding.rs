//! Dead letters reach their topic in the cluster, whatever faults it has meanwhile.

use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;
use reprise::model::{TopicName, WallMs};
use reprise::observe::Metrics;
use reprise::upstream::{Address, FailureKind, TopicWriter, Upstream};
use reprise::wire::batch::{Headers, RawRecord, TimestampType};
use tokio::runtime::Runtime;

use crate::door::Door;
use crate::kafka::{Fault, Kafka, State};
use crate::support::batch::{TIME_MS, plain};
use crate::support::client::produce_request;
use crate::support::{Client, Rec, Server, until, wall_ms};

const YAML: &str = "upstream: {bootstrap: 'a:1'}\n\
    names: {dead_letters: 'failed.{group}'}\n";
const TOPIC: &str = "failed.shop";

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

fn gauge(server: &Server, name: &str) -> u64 {
    value(server, &format!("reprise_dlq_{name}{{group=\"shop\"}}"))
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
    until("it is counted", || gauge(&server, "forwarded_total") == 3);
    assert_eq!(gauge(&server, "forward_pending"), 0);
    let group = server.json("/api/v1/groups/shop");
    assert_eq!(group["forward"]["topic"], TOPIC);
    assert_eq!(group["dead_letters"], 3, "they stay here, too");
}

#[test]
fn dead_letters_wait_while_the_cluster_is_away() {
    let (kafka, mut server, mut client) = shop();
    send(&mut client, "shop", &[letter("before")]);
    arrive(&kafka, &["before"]);
    kafka.state().closes = usize::MAX;
    send(&mut client, "shop", &[letter("meanwhile")]);
    until("it is said", || advice(&server).contains("1 dead letters wait here for failed.shop"));
    until("so does readiness", || server.get("/readyz").contains("dead letters waiting"));
    let degraded = "reprise_degraded{reason=\"dead_letters_waiting\"}";
    until("and its gauge", || value(&server, degraded) == 1);
    assert_eq!(gauge(&server, "forward_pending"), 1);
    assert!(gauge(&server, "records") >= 1, "it is kept");
    let failures = "forward_failures_total{error=\"Connection\",group=\"shop\"}";
    assert!(value(&server, &format!("reprise_dlq_{failures}")) >= 1);
    server.restart();
    until("it is still said", || advice(&server).contains("1 dead letters wait"));
    kafka.state().closes = 0;
    arrive(&kafka, &["before", "meanwhile"]);
    until("nothing is in the way", || value(&server, degraded) == 0);
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
    let (kafka, server, mut client) = shop();
    kafka.state().no_topics = true;
    send(&mut client, "shop", &[letter("one")]);
    until("it is said", || advice(&server).contains("create it, or allow the user"));
    assert_eq!(kafka.asked(0), 0);
    kafka.state().topics.insert(TOPIC.to_owned(), 3);
    until("it arrives", || kafka.values(TOPIC) == ["one"]);
    assert!(kafka.state().made.is_empty());
}

#[test]
fn a_lost_answer_does_not_duplicate_a_dead_letter() {
    let (kafka, server, mut client) = shop();
    kafka.state().faults = [Fault::Lost, Fault::Lost, Fault::Error(19)].into();
    send(&mut client, "shop", &[letter("one"), letter("two")]);
    until("it is counted", || gauge(&server, "forwarded_total") == 2);
    assert_eq!(kafka.values(TOPIC), ["one", "two"]);
    assert!(kafka.state().known_again >= 1);
    // A cluster that has forgotten the producer id gives a new one.
    kafka.state().faults = [Fault::Error(59)].into();
    send(&mut client, "shop", &[letter("three")]);
    arrive(&kafka, &["one", "two", "three"]);
    assert_eq!(kafka.asked(22), 2);
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
fn an_unacknowledged_dead_letter_is_sent_again_after_a_kill() {
    let (kafka, server, mut client) = shop();
    kafka.state().faults = [Fault::Silence].into();
    send(&mut client, "shop", &[letter("one")]);
    arrive(&kafka, &["one"]);
    let again = server.killed();
    until("it is sent again", || kafka.values(TOPIC) == ["one", "one"]);
    until("and is done", || gauge(&again, "forwarded_total") == 1);
    // A later start does not send again a dead letter that the cluster acknowledged.
    let third = again.killed();
    send(&mut third.client(), "shop", &[letter("two")]);
    arrive(&kafka, &["one", "one", "two"]);
}

#[test]
fn an_oversize_dead_letter_is_kept_and_others_are_forwarded() {
    let (kafka, mut server, mut client) = shop();
    kafka.state().batch_bytes_max = Some(20_000);
    let large = "x".repeat(30_000);
    let sent = [letter("one"), letter(&large), letter("two")];
    send(&mut client, "shop", &sent);
    arrive(&kafka, &["one", "two"]);
    until("it is said", || advice(&server).contains("failed.shop of the cluster refuses 1 dead"));
    assert_eq!(gauge(&server, "forward_refused"), 1);
    let refused = "forward_failures_total{error=\"Refused\",group=\"shop\"}";
    assert_eq!(value(&server, &format!("reprise_dlq_{refused}")), 1);
    // The refused dead letter stays, and is sent again after a start.
    kafka.state().batch_bytes_max = None;
    server.restart();
    arrive(&kafka, &["one", "two", &large]);
    until("nothing is refused", || gauge(&server, "forward_refused") == 0);
}

#[test]
fn an_accepted_dead_letter_is_never_sent_again() {
    let (kafka, mut server, mut client) = shop();
    kafka.state().topics.insert(TOPIC.to_owned(), 2);
    kafka.state().faults = [Fault::Error(10), Fault::Error(10)].into();
    // Records without a key take the partitions in turn.
    let round = |value| Rec { key: None, ..letter(value) };
    send(&mut client, "shop", &[round("one"), round("two")]);
    until("both are refused", || gauge(&server, "forward_refused") == 2);
    kafka.state().short.insert(1);
    server.restart();
    send(&mut server.client(), "shop", &[round("three")]);
    until("the next ones go on", || kafka.values(TOPIC).len() >= 2);
    assert_eq!(kafka.values(TOPIC), ["one", "three"]);
    let waits = "forward_failures_total{error=\"NotEnoughReplicas\",group=\"shop\"}";
    assert_eq!(value(&server, &format!("reprise_dlq_{waits}")), 1);
    until("it is said", || advice(&server).contains("failed.shop"));
    kafka.state().short.clear();
    server.restart();
    arrive(&kafka, &["one", "three", "two"]);
    until("nothing is in the way", || gauge(&server, "forward_refused") == 0);
}

#[test]
fn a_topic_refusing_everything_stops_forwarding_without_loss() {
    let (kafka, server, mut client) = shop();
    kafka.state().batch_bytes_max = Some(0);
    for _ in 0..3 {
        let letters: Vec<Rec> = (0..100).map(|n| letter(&n.to_string())).collect();
        send(&mut client, "shop", &letters);
    }
    until("it stops", || advice(&server).contains("nothing more is sent to failed.shop"));
    assert_eq!(gauge(&server, "forward_refused"), 256);
    assert_eq!(gauge(&server, "forward_pending"), 44);
    assert_eq!(gauge(&server, "records"), 300);
}

#[test]
fn partitions_are_chosen_by_key_as_kafka_s_producers_do() {
    let (kafka, _server, mut client) = shop();
    kafka.state().topics.insert(TOPIC.to_owned(), 4);
    let letters: Vec<Rec> =
        (0..8).map(|n| Rec { key: Some("k".into()), ..letter(&n.to_string()) }).collect();
    send(&mut client, "shop", &letters);
    arrive(&kafka, &["0", "1", "2", "3", "4", "5", "6", "7"]);
    let partitions: Vec<i32> = kafka.state().taken.iter().map(|taken| taken.partition).collect();
    assert!(partitions.iter().all(|partition| *partition == partitions[0]), "{partitions:?}");
    let letters: Vec<Rec> = (0..8).map(|n| Rec { key: None, ..letter(&n.to_string()) }).collect();
    send(&mut client, "shop", &letters);
    until("they arrive", || kafka.values(TOPIC).len() == 16);
    let mut seen: Vec<i32> = kafka.state().taken[8..].iter().map(|t| t.partition).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 3, 3]);
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
