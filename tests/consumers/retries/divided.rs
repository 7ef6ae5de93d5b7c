//! Groups with a retry topic for each of their topics.

use serde_json::json;

use crate::support::batch::{plain, unpack};
use crate::support::{Got, Member, Rec, Server, rebalance, until};

const RETRY_OF_ORDERS: &str = "reprise.retry.shop--orders";
const RETRY_OF_PAYMENTS: &str = "reprise.retry.shop--payments";
const PARTITIONS: &[(&str, i32)] =
    &[("orders", 1), ("payments", 1), (RETRY_OF_ORDERS, 1), (RETRY_OF_PAYMENTS, 1)];

both!(
    each_listener_gets_the_retries_of_its_own_topic,
    a_failed_retry_comes_back_in_the_same_topic,
    commit_markers_lead_to_the_retry_topic,
    retries_without_a_reader_do_not_hold_up_others,
    an_admin_nack_needs_a_reader_of_its_own_topic,
    waiting_retries_survive_a_restart
);

/// Two listeners with one group id.
fn shop(yaml: &str) -> (Server, [Member; 2]) {
    let server = Server::with(yaml);
    for topic in ["orders", "payments"] {
        server.client().create(topic, 1);
        server.client().put(topic, 0, &[Rec::new(topic)]);
    }
    let mut members = members(&server);
    let [orders, payments] = &mut members;
    rebalance(&mut [orders, payments], PARTITIONS);
    (server, members)
}

fn members(server: &Server) -> [Member; 2] {
    let topics = [("orders", RETRY_OF_ORDERS), ("payments", RETRY_OF_PAYMENTS)];
    topics.map(|(topic, retry)| Member::new(server, "shop", &[topic, retry]))
}

/// Produces a nack to a retry topic.
fn nack(member: &mut Member, retry: &str, origin: &str) {
    let record = Rec::new("x").header("x-retry-origin", origin);
    assert_eq!(member.client.produce(retry, 0, plain(&[record])).error_code, 0, "{origin}");
}

/// Waits for records of a retry topic.
fn retries(member: &mut Member, topic: &str, from: i64) -> Vec<Got> {
    let mut got = Vec::new();
    until("a retry", || {
        let data = member.client.fetch(topic, 0, from, 500);
        assert_eq!(data.error_code, 0);
        got = unpack(&data.records.unwrap());
        got.retain(|record| record.offset >= from);
        !got.is_empty()
    });
    got
}

fn origins(got: &[Got]) -> Vec<String> {
    got.iter().map(|record| record.header("ORIGIN_MESSAGE_ID").unwrap()).collect()
}

fn each_listener_gets_the_retries_of_its_own_topic() {
    let (server, [mut orders, mut payments]) = shop("retry: {levels: 20ms, partitions: 1}");
    nack(&mut orders, RETRY_OF_ORDERS, "orders-0@0");
    assert_eq!(origins(&retries(&mut orders, RETRY_OF_ORDERS, 0)), ["orders-0@0"]);
    nack(&mut payments, RETRY_OF_PAYMENTS, "payments-0@0");
    assert_eq!(origins(&retries(&mut payments, RETRY_OF_PAYMENTS, 0)), ["payments-0@0"]);
    // The origin decides, whatever retry topic of the group a nack is produced to.
    nack(&mut orders, RETRY_OF_ORDERS, "payments-0@7");
    assert_eq!(origins(&retries(&mut payments, RETRY_OF_PAYMENTS, 1)), ["payments-0@7"]);
    let data = orders.client.fetch(RETRY_OF_ORDERS, 0, 1, 100);
    assert!(unpack(&data.records.unwrap_or_default()).iter().all(|record| record.offset < 1));
    let group = server.json("/api/v1/groups/shop");
    assert_eq!(group["retry_topic"], format!("{RETRY_OF_ORDERS}, {RETRY_OF_PAYMENTS}"));
    assert!(!group["advice"].to_string().contains("unlike"), "{group}");
}

fn a_failed_retry_comes_back_in_the_same_topic() {
    let (server, [mut orders, _payments]) = shop("retry: {levels: 20ms, partitions: 1}");
    nack(&mut orders, RETRY_OF_ORDERS, "orders-0@0");
    retries(&mut orders, RETRY_OF_ORDERS, 0);
    nack(&mut orders, RETRY_OF_ORDERS, &format!("{RETRY_OF_ORDERS}-0@0"));
    let again = retries(&mut orders, RETRY_OF_ORDERS, 1);
    assert_eq!(origins(&again), ["orders-0@0"]);
    assert_eq!(again[0].number("RECONSUME_TIME"), 2);
    assert_eq!(orders.commit(RETRY_OF_ORDERS, 0, 2), 0);
    until("nothing waits", || server.pending("shop").is_empty());
    let acked =
        format!("reprise_records_acked_total{{group=\"shop\",topic=\"{RETRY_OF_ORDERS}\"}}");
    until("the counter", || server.metric(&acked) >= 1.0);
}

fn commit_markers_lead_to_the_retry_topic() {
    let (_server, [_orders, mut payments]) = shop("retry: {levels: 20ms, partitions: 1}");
    let request = payments.commit_request("payments", 0, 1, "!retry:0");
    let answer = payments.client.call(9, &request);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    assert_eq!(origins(&retries(&mut payments, RETRY_OF_PAYMENTS, 0)), ["payments-0@0"]);
}

fn retries_without_a_reader_do_not_hold_up_others() {
    let (server, [mut orders, mut payments]) = shop("retry: {levels: 20ms, partitions: 1}");
    for offset in 0..5 {
        nack(&mut orders, RETRY_OF_ORDERS, &format!("refunds-0@{offset}"));
    }
    nack(&mut payments, RETRY_OF_PAYMENTS, "payments-0@0");
    assert_eq!(retries(&mut payments, RETRY_OF_PAYMENTS, 0).len(), 1);
    let topic = "reprise.retry.shop--refunds";
    let says = format!("5 failed records wait: {topic} has no reader");
    until("it is told", || {
        let group = server.json("/api/v1/groups/shop");
        group["advice"].to_string().contains(&says) && group["due"] == 5
    });
    let due = server.pending("shop").into_iter().filter(|one| one["state"] == "due");
    assert_eq!(due.count(), 5);
    assert_eq!(retries(&mut payments, topic, 0).len(), 5, "nobody subscribes, and one reads");
}

fn an_admin_nack_needs_a_reader_of_its_own_topic() {
    let server = Server::with("retry: {levels: 20ms, partitions: 1}");
    for topic in ["orders", "payments"] {
        server.client().create(topic, 1);
        server.client().put(topic, 0, &[Rec::new(topic)]);
    }
    let mut member = Member::new(&server, "shop", &["orders", "payments", RETRY_OF_ORDERS]);
    member.join(&PARTITIONS[..3]);
    let told = |topic| {
        let nack = json!({"group": "shop", "topic": topic, "partition": 0, "offset": 0});
        server.post("/api/v1/nack", &nack.to_string())
    };
    assert_eq!(told("orders").0, 200);
    let (status, refused) = told("payments");
    assert_eq!(status, 409, "{refused}");
    let says = format!("nobody reads {RETRY_OF_PAYMENTS}: no member of the group that is");
    assert!(refused.to_string().contains(&says), "{refused}");
    assert_eq!(origins(&retries(&mut member, RETRY_OF_ORDERS, 0)), ["orders-0@0"]);
}

fn waiting_retries_survive_a_restart() {
    let (server, [mut orders, mut payments]) = shop("retry: {levels: 1s, partitions: 1}");
    nack(&mut orders, RETRY_OF_ORDERS, "orders-0@0");
    assert_eq!(retries(&mut orders, RETRY_OF_ORDERS, 0).len(), 1);
    nack(&mut orders, RETRY_OF_ORDERS, &format!("{RETRY_OF_ORDERS}-0@0"));
    nack(&mut payments, RETRY_OF_PAYMENTS, "payments-0@0");
    drop((orders, payments));
    let after = server.killed();
    drop(server);
    let [mut orders, mut payments] = members(&after);
    rebalance(&mut [&mut orders, &mut payments], PARTITIONS);
    let again = retries(&mut orders, RETRY_OF_ORDERS, 1);
    assert_eq!(origins(&again), ["orders-0@0"]);
    assert_eq!(origins(&retries(&mut payments, RETRY_OF_PAYMENTS, 0)), ["payments-0@0"]);
}
