//! A withheld record in front of a cluster: only a commit that the cluster accepts ends it.

use reprise::wire::ResponseError;

use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server, until};

/// No failure of the record counts, so it is withheld after `give_up_after`.
const RULES: &str = "retry: {levels: 20ms, crash_limit: 1, in_place_limit: 2, \
                     give_up_after: 200ms, isolation_timeout: 1s, on_seek_back: retry, \
                     order: {interval: 50ms}}";
const ORDERS: &[(&str, i32)] = &[("orders", 1)];

/// A member that goes back to its first record until it gets the second one alone.
fn withheld() -> (Server, Server, Member) {
    let cluster = Server::alone();
    let sidecar = Server::in_front_of(cluster.addr(), RULES);
    let mut tool = sidecar.client();
    tool.create("orders", 1);
    for record in ["poison", "next", "last"] {
        tool.put("orders", 0, &[Rec::new(record)]);
    }
    let mut member = Member::new(&sidecar, "shop", &["orders"]);
    member.session_ms = 60_000;
    member.join(ORDERS);
    assert_eq!(member.commit("orders", 0, 0), 0);
    until("the record is withheld", || {
        let given = member.client.fetch("orders", 0, 0, 100).records.unwrap_or_default();
        !given.is_empty() && unpack(&given)[0].offset == 1
    });
    (cluster, sidecar, member)
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
    assert_eq!(dead_letters(&sidecar), 1);
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
