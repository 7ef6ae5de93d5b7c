//! The bounded wait of a commit for the nacks before it. The engine is blocked while it writes a
//! log line.

use std::time::Duration;

use kafka_protocol::messages::{OffsetCommitRequest, ProduceRequest};
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::held_up::{RULES, hold_up, wait_for_it};
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server, instant, until};

/// The longest wait of a commit.
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn a_commit_behind_a_slow_nack_is_refused_retriably() {
    let server = Server::with(RULES);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "stuck", &["orders", "reprise.retry.stuck"]);
    member.join(&[("orders", 1), ("reprise.retry.stuck", 1)]);
    member.client.put("orders", 0, &[Rec::new("x")]);
    let mut producer = server.client();
    // A first request is small, since a connection may not begin with a large one.
    producer.metadata(9, &["orders"]);
    let nack = plain(&[Rec::new("x").header("x-retry-origin", "orders-0@0")]);
    let nack = produce_request("reprise.retry.stuck", 0, nack, -1);
    let told = producer.call(9, &nack);
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0);
    until("it is a dead letter", || server.json("/api/v1/groups/stuck")["dead_letters"] == 1);
    let held = hold_up();
    let sent = producer.send(9, &nack);
    wait_for_it();

    let began = instant();
    let mut of_the_past = member.commit_request("orders", 0, 1, "");
    of_the_past.generation_id_or_member_epoch -= 1;
    let mut other = server.client();
    let sent_late = other.send(8, &of_the_past);
    let refused = ResponseError::CoordinatorNotAvailable.code();
    assert_eq!(member.commit("orders", 0, 1), refused, "retriable");
    let told = other.receive::<OffsetCommitRequest>(sent_late).topics[0].partitions[0].error_code;
    assert_eq!(told, ResponseError::IllegalGeneration.code(), "not to try again");
    let took = began.elapsed();
    assert!(took >= PATIENCE && took < 2 * PATIENCE, "{took:?} in all");
    let mut cluster = Client::connect(server.cluster().addr());
    let stored = |cluster: &mut Client| offset_fetch(cluster, 7, "stuck", "orders", 0).0;
    assert_eq!(stored(&mut cluster), -1, "the cluster was not even asked");
    server.client().put("orders", 0, &[Rec::new("what passes goes on passing")]);
    assert!(producer.is_silent(), "no nack is acknowledged before it is durable");

    drop(held);
    let told = producer.receive::<ProduceRequest>(sent);
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(stored(&mut cluster), 1);
}
