//! A withheld record: only an accepted commit or reset ends it.

use kafka_protocol::messages::TxnOffsetCommitRequest;
use reprise::wire::ResponseError;

use crate::support::batch::unpack;
use crate::support::client::s;
use crate::support::{Member, Producer, Rec, Server, until};

/// No failure of the record counts, so it is withheld after `give_up_after`.
const RULES: &str = "retry: {levels: 20ms, crash_limit: 1, in_place_limit: 2, \
                     give_up_after: 200ms, isolation_timeout: 1s, on_seek_back: retry, \
                     order: {interval: 50ms}}";
const ORDERS: &[(&str, i32)] = &[("orders", 1)];

/// A record withheld in front of a cluster.
fn withheld() -> (Server, Server, Member) {
    let cluster = Server::alone();
    let sidecar = Server::in_front_of(cluster.addr(), RULES);
    let member = withheld_at(&sidecar);
    (cluster, sidecar, member)
}

/// A member that goes back to its first record until it gets the second one alone.
fn withheld_at(sidecar: &Server) -> Member {
    let mut tool = sidecar.client();
    tool.create("orders", 1);
    for record in ["poison", "next", "last"] {
        tool.put("orders", 0, &[Rec::new(record)]);
    }
    let mut member = Member::new(sidecar, "shop", &["orders"]);
    member.session_ms = 60_000;
    member.join(ORDERS);
    assert_eq!(member.commit("orders", 0, 0), 0);
    until("the record is withheld", || {
        let given = member.client.fetch("orders", 0, 0, 100).records.unwrap_or_default();
        !given.is_empty() && unpack(&given)[0].offset == 1
    });
    member
}

/// The offsets that a new member gets first; it leaves the group again.
fn first_fetch(sidecar: &Server) -> Vec<i64> {
    let mut member = Member::new(sidecar, "shop", &["orders"]);
    member.join(ORDERS);
    let given = member.client.fetch("orders", 0, 0, 100).records.unwrap_or_default();
    assert_eq!(member.leave(), 0);
    unpack(&given).iter().map(|record| record.offset).collect()
}

fn dead_letters(sidecar: &Server) -> usize {
    sidecar.client().read_all("reprise.dlq.shop").len()
}

#[test]
fn a_refused_commit_leaves_the_withheld_record() {
    let (_cluster, sidecar, mut member) = withheld();
    let generation = std::mem::replace(&mut member.generation, 77);
    let refused = ResponseError::IllegalGeneration.code();
    assert_eq!(member.commit("orders", 0, 2), refused);
    assert_eq!(dead_letters(&sidecar), 0);
    member.generation = generation;
    assert_eq!(member.commit("orders", 0, 2), 0);
    until("it is a dead letter", || dead_letters(&sidecar) == 1);
}

#[test]
fn a_refused_marker_leaves_the_withheld_record() {
    let (_cluster, sidecar, mut member) = withheld();
    let request = member.commit_request("orders", 0, 2, "!retry: no-offset");
    let answer = member.client.call(9, &request);
    let refused = ResponseError::InvalidCommitOffsetSize.code();
    assert_eq!(answer.topics[0].partitions[0].error_code, refused);
    assert_eq!(dead_letters(&sidecar), 0);
}

#[test]
fn a_refused_offset_of_a_transaction_leaves_the_withheld_record() {
    let sidecar = Server::alone_with(RULES);
    let member = withheld_at(&sidecar);
    assert_eq!(dead_letters(&sidecar), 0);
    let mut producer = Producer::begin(&sidecar, "pay");
    assert_eq!(producer.add_group(3, "shop"), 0);
    let mut request = producer.offsets_request("shop", &[("orders", 2)]);
    (request.member_id, request.generation_id) = (s(&member.id), member.generation);
    let mut refused = request.clone();
    refused.topics[0].partitions[0].committed_metadata = Some(s(&"m".repeat(5_000)));
    let mut commit = |request: &TxnOffsetCommitRequest| {
        producer.client.call(3, request).topics[0].partitions[0].error_code
    };
    assert_eq!(commit(&refused), ResponseError::OffsetMetadataTooLarge.code());
    assert_eq!(dead_letters(&sidecar), 0);
    assert_eq!(commit(&request), 0);
    until("it is a dead letter", || dead_letters(&sidecar) == 1);
}

#[test]
fn a_marker_of_a_fenced_member_sends_no_nack() {
    let cluster = Server::alone();
    let sidecar = Server::in_front_of(cluster.addr(), "retry: {max_reconsume_times: 0}");
    let mut tool = sidecar.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("poison"), Rec::new("next")]);
    let mut member = Member::new(&sidecar, "shop", &["orders"]);
    member.join(ORDERS);
    let commit = |member: &mut Member| {
        let request = member.commit_request("orders", 0, 2, "!retry:0");
        member.client.call(9, &request).topics[0].partitions[0].error_code
    };
    let generation = std::mem::replace(&mut member.generation, 77);
    assert_eq!(commit(&mut member), ResponseError::IllegalGeneration.code());
    assert_eq!(dead_letters(&sidecar), 0);
    member.generation = generation;
    assert_eq!(commit(&mut member), 0);
    until("it is a dead letter", || dead_letters(&sidecar) == 1);
}

#[test]
fn a_fenced_producer_leaves_the_withheld_record() {
    let (_cluster, sidecar, _member) = withheld();
    let commit = |producer: &mut Producer| {
        assert_eq!(producer.add_group(3, "shop"), 0);
        let request = producer.offsets_request("shop", &[("orders", 2)]);
        move |producer: &mut Producer| {
            producer.client.call(3, &request).topics[0].partitions[0].error_code
        }
    };
    let mut fenced = Producer::begin(&sidecar, "pay");
    let commit_fenced = commit(&mut fenced);
    let mut producer = Producer::begin(&sidecar, "pay");
    assert_eq!(commit_fenced(&mut fenced), ResponseError::InvalidProducerEpoch.code());
    assert_eq!(dead_letters(&sidecar), 0);
    let commit_last = commit(&mut producer);
    assert_eq!(commit_last(&mut producer), 0);
    until("it is a dead letter", || dead_letters(&sidecar) == 1);
}

#[test]
fn a_refused_reset_leaves_the_suspects() {
    let (_cluster, sidecar, mut member) = withheld();
    assert_eq!(member.leave(), 0);
    let mut tool = Member::new(&sidecar, "shop", &["orders"]);
    let request = tool.commit_request("orders", 0, 0, &"m".repeat(5_000));
    let answer = tool.client.call(9, &request);
    let refused = ResponseError::OffsetMetadataTooLarge.code();
    assert_eq!(answer.topics[0].partitions[0].error_code, refused);
    assert_eq!(first_fetch(&sidecar), [0], "the record is still isolated");
    assert_eq!(tool.commit("orders", 0, 0), 0);
    assert_eq!(first_fetch(&sidecar), [0, 1, 2], "the reset forgets it");
}
