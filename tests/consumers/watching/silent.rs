//! Members in front of a cluster that the sidecar takes for expired, because they sent nothing
//! through it for a whole session. Their coordinator still has them.

use crate::support::{Member, Rec, Server, until};
use crate::watching::app::{began, goes_back_until_dead, orders};
use crate::watching::ordered::{offsets, read};

in_front!(
    a_heartbeat_resumes_the_watch_of_a_silent_member,
    or_with_its_next_commit,
    records_skipped_for_a_group_are_skipped_for_returning_members,
    a_missed_member_gets_no_held_record
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const NOTHING: [i64; 0] = [];

/// Offsets in the answer to one Fetch.
fn given(member: &mut Member, from: i64) -> Vec<i64> {
    offsets(member.client.fetch("orders", 0, from, 5_000).records.unwrap())
}

/// Sends the member's heartbeats past the sidecar until the sidecar takes it for expired.
fn missed(server: &Server, member: &Member) {
    let mut elsewhere = Member::on(server.cluster().client(), "shop", &["orders"]);
    (elsewhere.id, elsewhere.generation) = (member.id.clone(), member.generation);
    until("it is missed", || {
        assert_eq!(elsewhere.heartbeat(), 0);
        server.json("/api/v1/explain?group=shop")["partitions"][0]["member"].is_null()
    });
}

/// Whether `explain` shows the member as the owner of its partition, after such a silence and
/// `next`.
fn is_watched_after_a_silence(next: impl FnOnce(&mut Member) -> i16) -> bool {
    let server = Server::with("retry: {isolation_timeout: 100ms}");
    orders(&server, 4);
    began(&server, ORDERS);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.session_ms = 1_500;
    member.join(ORDERS);
    assert_eq!(given(&mut member, 0), [0, 1, 2, 3]);
    missed(&server, &member);
    assert_eq!(next(&mut member), 0);
    given(&mut member, 0);
    !server.json("/api/v1/explain?group=shop")["partitions"][0]["member"].is_null()
}

fn a_heartbeat_resumes_the_watch_of_a_silent_member() {
    assert!(is_watched_after_a_silence(Member::heartbeat));
}

fn or_with_its_next_commit() {
    assert!(is_watched_after_a_silence(|member| member.commit("orders", 0, 0)));
}

/// A member that has committed offset 2, that of the last record.
fn committed(rules: &str) -> (Server, Member) {
    let server = Server::with(&format!(
        "retry: {{levels: 20ms, max_reconsume_times: 1, in_place_limit: 2, {rules}}}"
    ));
    orders(&server, 3);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.session_ms = 3_000;
    member.join(ORDERS);
    assert_eq!(member.commit("orders", 0, 2), 0);
    (server, member)
}

fn records_skipped_for_a_group_are_skipped_for_returning_members() {
    let (server, mut member) = committed("on_seek_back: retry, order: {interval: 50ms}");
    goes_back_until_dead(&server, &mut member, 2);
    missed(&server, &member);
    member.client.put("orders", 0, &[Rec::new("next")]);
    assert_eq!(read(&mut member, 2, 5_000), [3], "2 is a dead letter");
    assert_eq!(member.heartbeat(), 0);
    assert_eq!(read(&mut member, 2, 5_000), [3]);
}

fn a_missed_member_gets_no_held_record() {
    let (server, mut member) = committed("order: {mode: partition, interval: 30s}");
    assert_eq!(read(&mut member, 2, 5_000), [2]);
    assert_eq!(member.client.nack("shop", "orders-0@2", Rec::new("x")).error_code, 0);
    assert_eq!(read(&mut member, 2, 0), NOTHING, "it failed");
    missed(&server, &member);
    assert_eq!(read(&mut member, 2, 300), NOTHING);
}
