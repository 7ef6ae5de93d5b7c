//! A deleted and recreated topic: equal origins, other records.

use kafka_protocol::messages::DeleteTopicsRequest;

use crate::support::client::s;
use crate::support::{Client, Member, Rec, Server, in_front, until};

both!(
    records_of_a_recreated_topic_fail_for_the_first_time,
    old_and_new_retries_of_a_recreated_topic_both_come,
    a_group_without_offsets_starts_failures_again
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A Metadata version with topic ids.
const METADATA: i16 = 12;

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let member = member(&server);
    (server, member)
}

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", "reprise.retry.shop"]);
    member.client.metadata(METADATA, &["orders"]);
    member.join(PARTITIONS);
    member
}

/// Recreates the topic, as an administrator does, perhaps connected to the cluster directly.
fn make_anew(server: &Server) {
    let addr = if in_front() { server.cluster().addr() } else { server.addr() };
    let mut admin = Client::connect(addr);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![s("orders")]);
    assert_eq!(admin.call(5, &request).responses[0].error_code, 0);
    admin.create("orders", 1);
}

fn by_reference(member: &mut Member, origin: &str) -> (i16, Option<String>) {
    let mut record = Rec::new("").header("x-retry-by-reference", "true");
    (record.key, record.value) = (None, None);
    let told = member.client.nack("shop", origin, record);
    (told.error_code, told.error_message.map(|text| text.to_string()))
}

fn records_of_a_recreated_topic_fail_for_the_first_time() {
    let (server, mut member) = shop("retry: {levels: 20ms, max_reconsume_times: 0}");
    let old = ["a", "b"].map(Rec::new);
    member.client.put("orders", 0, &old);
    // A dead letter, which is found by its origin as long as it is kept.
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("b")).error_code, 0);
    until("the dead letter", || member.client.read_all("reprise.dlq.shop").len() == 1);
    make_anew(&server);
    member.client.metadata(METADATA, &["orders"]);
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("new b")).error_code, 0);
    until("the other one", || member.client.read_all("reprise.dlq.shop").len() == 2);
}

fn old_and_new_retries_of_a_recreated_topic_both_come() {
    let (server, mut member) = shop("retry: {levels: 300ms}");
    member.client.put("orders", 0, &[Rec::new("old")]);
    assert_eq!(by_reference(&mut member, "orders-0@0"), (0, None));
    make_anew(&server);
    member.client.metadata(METADATA, &["orders"]);
    member.client.put("orders", 0, &[Rec::new("new")]);
    assert_eq!(by_reference(&mut member, "orders-0@0"), (0, None));
    let mut came = Vec::new();
    until("both", || {
        let got = member.retries();
        member.done(got.last().unwrap().offset + 1);
        assert!(got.iter().all(|retry| retry.reconsume_times() == 1));
        came.extend(got.iter().map(crate::support::Got::text));
        came.len() == 2
    });
    assert_eq!(came, ["old", "new"]);
}

fn a_group_without_offsets_starts_failures_again() {
    let (server, mut old) = shop("retry: {levels: 20ms}");
    assert_eq!(old.client.nack("shop", "orders-0@3", Rec::new("old")).error_code, 0);
    let retry = old.retry_once();
    old.done(retry.offset + 1);
    assert_eq!(old.commit("orders", 0, 4), 0);
    assert_eq!(old.leave(), 0);
    // The topic is recreated while the sidecar is down, and nothing tells it the old id.
    let again = server.killed();
    make_anew(if in_front() { &server } else { &again });
    let mut member = member(&again);
    assert_eq!(member.position_of("orders", 0), -1);
    assert_eq!(member.client.nack("shop", "orders-0@3", Rec::new("new")).error_code, 0);
    assert_eq!(member.retry_once().text(), "new");
}
