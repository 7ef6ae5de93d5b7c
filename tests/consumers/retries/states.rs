//! States of failed records: each record is in one at a time, and is counted once.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{Member, Rec, Server};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const STATES: [&str; 4] = ["waiting", "due", "unread", "blocked"];

fn shop(server: &Server) -> Value {
    server.json("/api/v1/groups/shop")
}

/// All states of the group at the admin port. Metrics, drain and overview must agree.
fn states(server: &Server) -> [u64; 4] {
    let (shop, overview, drain) =
        (shop(server), server.json("/api/v1/overview"), server.json("/drain"));
    let counts = STATES.map(|state| shop[state].as_u64().unwrap());
    let pending = counts.iter().sum::<u64>();
    for whole in [&shop["pending"], &overview["pending"], &drain["pending"]] {
        assert_eq!(*whole, pending, "{shop}");
    }
    for (state, count) in STATES.iter().zip(counts) {
        assert_eq!(
            (&overview[*state], &drain["groups"][0][*state]),
            (&count.into(), &count.into())
        );
        let series = format!("reprise_records_{state}{{group=\"shop\"}}");
        assert_eq!(format!("{:.0}", server.metric(&series)), count.to_string(), "{series}");
    }
    counts
}

fn fail(member: &mut Member, offset: u64, delay_ms: u64) {
    let record = Rec::new("x").header("x-retry-delay-ms", delay_ms.to_string());
    nack(member, offset, record);
}

fn nack(member: &mut Member, offset: u64, record: Rec) {
    let told = member.client.nack("shop", &format!("orders-0@{offset}"), record);
    assert_eq!(told.error_code, 0);
}

fn keyed(key: &'static str) -> Rec {
    Rec { key: Some(Bytes::from_static(key.as_bytes())), ..Rec::new("x") }
}

fn joined(server: &Server) -> Member {
    server.client().create("orders", 1);
    let mut member = Member::new(server, "shop", TOPICS);
    member.session_ms = 86_400_000;
    member.join(PARTITIONS);
    member
}

const LONG_SESSIONS: &str = "membership: {session_timeout_max: 1d}";

#[test]
fn due_retries_are_counted_once() {
    let server = Server::told(LONG_SESSIONS);
    let mut member = joined(&server);
    for offset in 0..17 {
        fail(&mut member, offset, 1_000);
    }
    assert_eq!(states(&server), [17, 0, 0, 0]);
    server.pass(1_000);
    assert_eq!(states(&server), [0, 17, 0, 0]);
    assert_eq!(shop(&server)["levels"], json!([{"level": null, "records": 17}]));
    assert_eq!(member.leave(), 0);
    assert_eq!(states(&server), [0, 17, 0, 0]);
}

#[test]
fn record_states_add_up_to_the_pending_count() {
    let server = Server::told(LONG_SESSIONS);
    let mut member = joined(&server);
    for (offset, delay_ms) in [(0, 1), (1, 2), (2, 10), (3, 20), (4, 60_000), (5, 90_000)] {
        fail(&mut member, offset, delay_ms);
    }
    server.pass(2);
    member.fetch_retries(0, 0);
    assert_eq!(member.retries().len(), 2);
    assert_eq!(states(&server), [4, 0, 2, 0]);
    assert_eq!(member.leave(), 0);
    server.pass(60_000);
    assert_eq!(states(&server), [1, 3, 2, 0], "nobody reads the topic");
}

#[test]
fn blocked_records_are_a_state_of_their_own() {
    let server =
        Server::told(&format!("retry: {{dead_letters: {{max_bytes: 1MiB}}}}\n{LONG_SESSIONS}"));
    let mut member = joined(&server);
    let large = Rec::new(&"v".repeat(700_000)).header("x-retry-level", "-1");
    for offset in 0..2 {
        let told = member.client.nack("shop", &format!("orders-0@{offset}"), large.clone());
        assert_eq!(told.error_code, 0);
    }
    assert_eq!(states(&server), [0, 0, 0, 1], "no room for the second");
}

#[test]
fn dead_letters_are_no_part_of_pending() {
    let server = Server::told(LONG_SESSIONS);
    let mut member = joined(&server);
    let records = ["a", "b", "c", "d", "e"].map(keyed);
    member.client.put("orders", 0, &records);
    let after = |key, delay_ms: &str| keyed(key).header("x-retry-delay-ms", delay_ms);
    nack(&mut member, 0, after("a", "60000"));
    nack(&mut member, 1, after("b", "1"));
    server.pass(2);
    assert_eq!(member.retry_once().key.unwrap(), "b");
    nack(&mut member, 2, after("c", "90000"));
    for (offset, key) in [(3, "d"), (4, "e")] {
        nack(&mut member, offset, keyed(key).header("x-retry-level", "-1"));
    }
    assert_eq!(states(&server), [2, 0, 1, 0]);
    assert_eq!(server.json("/api/v1/overview")["dead_letters"], 2);
    let metric = |name: &str| format!("{:.0}", server.metric(&format!("reprise_{name}")));
    assert_eq!(metric("dlq_records{group=\"shop\"}"), "2");
    let by_level = metric("records_by_level{group=\"shop\",level=\"0\"}");
    assert_eq!(by_level, "2", "a view of the waiting ones, no state");
}

#[test]
fn counters_of_committed_topics_begin_at_zero() {
    let server = Server::told(LONG_SESSIONS);
    server.client().create("orders", 1);
    let mut alone = Member::new(&server, "solo", &[]);
    assert_eq!(alone.commit("orders", 0, 0), 0);
    let metrics = server.get("/metrics");
    for series in [
        "reprise_records_failed_total{group=\"solo\",reason=\"rejected\",topic=\"orders\"} 0",
        "reprise_records_acked_total{group=\"solo\",topic=\"reprise.retry.solo\"} 0",
    ] {
        assert!(metrics.contains(series), "{series}\n{metrics}");
    }
}

#[test]
fn counters_of_a_group_are_zero_before_its_first_failure() {
    let server = Server::told(LONG_SESSIONS);
    let _member = joined(&server);
    let metrics = server.get("/metrics");
    for series in [
        "reprise_dlq_records_total{group=\"shop\",reason=\"max_attempts\",topic=\"orders\"} 0",
        "reprise_records_failed_total{group=\"shop\",reason=\"rejected\",topic=\"orders\"} 0",
        "reprise_retries_scheduled_total{group=\"shop\",level=\"3\"} 0",
        "reprise_retries_redelivered_total{group=\"shop\",level=\"18\"} 0",
    ] {
        assert!(metrics.contains(series), "{series}");
    }
    assert!(!metrics.contains("reprise_records_delivered_total"));
}
