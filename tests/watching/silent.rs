//! In front of a cluster: a member that was not heard of for its session, and with which its
//! coordinator goes on as if nothing had been.

use crate::anew::offsets;
use crate::app::orders;
use crate::support::{Member, Server, until};

const ORDERS: &[(&str, i32)] = &[("orders", 1)];

/// What one Fetch brings.
fn given(member: &mut Member, from: i64) -> Vec<i64> {
    offsets(member.client.fetch("orders", 0, from, 5_000).records)
}

/// What is given behind the first record after such a silence, where records go one by one, once
/// the coordinator has answered that.
fn after_a_silence(next: impl FnOnce(&mut Member) -> i16) -> Vec<i64> {
    let server = Server::with("retry: {narrow_patience: 100ms}");
    orders(&server, 4);
    let joined = || {
        let mut member = Member::new(&server, "shop", &["orders"]);
        member.session_ms = 1_500;
        member.join(ORDERS);
        member
    };
    for _ in 0..3 {
        let mut member = joined();
        assert_eq!(given(&mut member, 0).len(), 4);
        assert_eq!(member.leave(), 0);
    }
    let mut member = joined();
    assert_eq!(given(&mut member, 0), [0], "one by one");
    // It lives, and nothing of that passes here.
    let mut elsewhere = Member::on(server.cluster().client(), "shop", &["orders"]);
    (elsewhere.id, elsewhere.generation) = (member.id.clone(), member.generation);
    until("it is missed", || {
        assert_eq!(elsewhere.heartbeat(), 0);
        server.json("/api/v1/explain?group=shop")["partitions"][0]["member"].is_null()
    });
    assert_eq!(next(&mut member), 0);
    given(&mut member, 1)
}

#[test]
fn a_member_that_was_missed_is_watched_again_with_its_next_heartbeat() {
    assert_eq!(after_a_silence(Member::heartbeat), [1]);
}

#[test]
fn or_with_its_next_commit() {
    assert_eq!(after_a_silence(|member| member.commit("orders", 0, 0)), [1]);
}
