//! Odd input while records are tested: no record is lost, no failure counts, and no member waits.

use kafka_protocol::messages::CreatePartitionsRequest;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;

use crate::support::batch::unpack;
use crate::support::client::s;
use crate::support::{Member, Rec, Server, rebalance, until};
use crate::watching::app::{began, dead_letters};
use crate::watching::suspects::{fetched, joined};

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const ALL: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

/// Eight records that were outstanding at three lost deliveries: one is delivered at a time.
fn tested() -> Server {
    let server = Server::with("retry: {isolation_timeout: 2m, order: {interval: 100ms}}");
    let mut tool = server.client();
    tool.create("orders", 1);
    for record in ALL {
        tool.put("orders", 0, &[Rec::new(record)]);
    }
    began(&server, ORDERS);
    for _ in 0..3 {
        let mut member = joined(&server, 1);
        assert_eq!(fetched(&mut member, 0), ALL);
        assert_eq!(member.leave(), 0);
    }
    server
}

/// The stages of the group's suspect sets.
fn stages(server: &Server) -> Vec<String> {
    let told = server.json("/api/v1/explain?group=shop");
    let sets = told["suspects"].as_array().unwrap().iter();
    sets.map(|set| set["stage"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_commit_ahead_of_the_delivery_clears_earlier_suspects() {
    let server = tested();
    let mut member = joined(&server, 1);
    assert_eq!(fetched(&mut member, 0), ["0"]);
    assert_eq!(member.commit("orders", 0, 8), 0);
    assert_eq!(stages(&server), [""; 0]);
    server.client().put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    assert_eq!(fetched(&mut member, 8), ["a", "b"]);
}

#[test]
fn commits_of_old_offsets_leave_the_suspects() {
    let server = tested();
    let mut member = joined(&server, 1);
    assert_eq!(fetched(&mut member, 0), ["0"]);
    assert_eq!(member.commit("orders", 0, 1), 0);
    for old in [-1, 0] {
        assert_eq!(member.commit("orders", 0, old), 0);
        assert_eq!(stages(&server), ["tested"], "{old}");
    }
    for at in 1..8 {
        assert_eq!(fetched(&mut member, at), [ALL[usize::try_from(at).unwrap()]]);
        assert_eq!(member.commit("orders", 0, at + 1), 0);
    }
    assert_eq!(stages(&server), [""; 0]);
}

#[test]
fn a_seek_past_the_suspects_gets_the_rest() {
    let server = tested();
    server.client().put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut member = joined(&server, 1);
    assert_eq!(fetched(&mut member, 8), ["a", "b"]);
    assert_eq!(fetched(&mut member, 0), ["0"], "and the suspects when it comes to them");
    assert_eq!(stages(&server), ["tested"]);
}

/// The next step of the only suspect set.
fn next_step(server: &Server) -> String {
    let explained = server.json("/api/v1/explain?group=shop");
    explained["suspects"][0]["next"].as_str().unwrap().to_owned()
}

#[test]
fn a_part_waits_for_the_end_of_a_disconnected_member() {
    let server = tested();
    let mut member = joined(&server, 1);
    assert_eq!(fetched(&mut member, 0), ["0"]);
    let waits = next_step(&server);
    assert!(waits.starts_with("passed over in "), "{waits}");
    member.client = server.client();
    let is_awaited = || next_step(&server).starts_with("its member has no connection");
    until("the end of the member is awaited", is_awaited);
    assert_eq!(member.heartbeat(), 0, "it was another connection only");
    let waits = next_step(&server);
    assert!(waits.starts_with("passed over in "), "{waits}");
}

#[test]
fn two_members_that_claim_a_partition_get_each_record() {
    let server = tested();
    let (mut owner, mut other) = (joined(&server, 1), Member::new(&server, "shop", &["orders"]));
    rebalance(&mut [&mut owner, &mut other], ORDERS);
    for (at, record) in (0..).zip(ALL) {
        for member in [&mut owner, &mut other] {
            assert_eq!(fetched(member, at), [record]);
        }
        assert_eq!(other.commit("orders", 0, at + 1), 0);
    }
    assert_eq!(stages(&server), [""; 0]);
    assert_eq!(dead_letters(&server), []);
}

#[test]
fn an_added_partition_flows_beside_the_suspects() {
    let server = tested();
    let mut topic = CreatePartitionsTopic::default();
    (topic.name, topic.count, topic.assignments) = (s("orders"), 2, None);
    let grown = CreatePartitionsRequest::default().with_topics(vec![topic]);
    assert_eq!(server.client().call(3, &grown).results[0].error_code, 0);
    server.client().put("orders", 1, &[Rec::new("a"), Rec::new("b")]);
    let mut member = joined(&server, 2);
    let data = member.client.fetch("orders", 1, 0, 5_000);
    assert_eq!(unpack(&data.records.unwrap()).len(), 2);
    assert_eq!(fetched(&mut member, 0), ["0"]);
}

#[test]
fn offsets_set_by_a_tool_end_an_isolation() {
    let server = tested();
    let mut ends = joined(&server, 1);
    assert_eq!(fetched(&mut ends, 0), ["0"]);
    assert_eq!(ends.leave(), 0);
    let mut next = joined(&server, 1);
    assert_eq!(stages(&server), ["isolated"]);
    assert_eq!(next.leave(), 0);
    // A client that is no member commits, as the tools do.
    let (id, generation) = (std::mem::take(&mut next.id), next.generation);
    next.generation = -1;
    assert_eq!(next.commit("orders", 0, 4), 0);
    (next.id, next.generation) = (id, generation);
    assert_eq!(stages(&server), [""; 0]);
    let mut member = joined(&server, 1);
    assert_eq!(fetched(&mut member, 4), ["4", "5", "6", "7"]);
    assert_eq!(dead_letters(&server), []);
}
