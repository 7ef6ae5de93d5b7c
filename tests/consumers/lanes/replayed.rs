//! An offset reset below pending retries: the original records are delivered again, and supersede
//! the retries.

use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server, until};

both!(
    a_delivered_replay_supersedes_the_waiting_retry,
    a_skipped_original_or_a_keep_rule_keeps_the_retry,
    a_member_that_commits_backwards_is_no_reset
);

const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A group that has committed all of eight records, with a waiting retry of the fourth.
fn passed(rules: &str) -> Server {
    let server = Server::with(&format!("retry: {{levels: 1h{rules}}}"));
    let mut member = Member::new(&server, "shop", TOPICS);
    member.client.create("orders", 1);
    let records: Vec<Rec> = (0..8).map(|n| Rec::new(&n.to_string())).collect();
    member.client.put("orders", 0, &records);
    member.join(PARTITIONS);
    assert_eq!(read(&mut member, 0), 8);
    assert_eq!(member.client.nack("shop", "orders-0@3", Rec::new("3")).error_code, 0);
    assert_eq!(member.commit("orders", 0, 8), 0);
    assert_eq!(member.leave(), 0);
    server
}

fn read(member: &mut Member, from: i64) -> usize {
    unpack(&member.client.fetch("orders", 0, from, 1_000).records.unwrap()).len()
}

/// Resets the offset while the group has no members, as Kafka's tool does.
fn reset(server: &Server, offset: i64) {
    let mut tool = Member::new(server, "shop", &[]);
    assert_eq!(tool.commit("orders", 0, offset), 0);
}

/// A new member, which begins at the committed offset.
fn next(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", TOPICS);
    member.join(PARTITIONS);
    let from = member.position_of("orders", 0);
    read(&mut member, from);
    member
}

fn waiting(server: &Server) -> i64 {
    server.json("/api/v1/overview")["pending"].as_i64().unwrap()
}

fn says(server: &Server) -> String {
    server.json("/api/v1/explain?record=orders-0@3&group=shop")["past"].to_string()
}

fn a_delivered_replay_supersedes_the_waiting_retry() {
    let server = passed("");
    reset(&server, 2);
    assert_eq!(waiting(&server), 1, "the retry may be all there is of its record");
    let mut member = next(&server);
    until("it is superseded", || waiting(&server) == 0);
    until("its story says so", || says(&server).contains("superseded"));
    // A nack after the reset counts: a later delivery of the record does not supersede it.
    assert_eq!(member.client.nack("shop", "orders-0@3", Rec::new("3")).error_code, 0);
    assert_eq!(member.leave(), 0);
    next(&server);
    let kept = server.json("/api/v1/retries?group=shop")["items"].clone();
    assert_eq!(kept[0]["reconsume_times"], 1, "{kept}");
    assert_eq!(waiting(&server), 1);
}

fn a_skipped_original_or_a_keep_rule_keeps_the_retry() {
    let server = passed("");
    reset(&server, 4);
    drop(next(&server));
    let keeps = passed(", on_reset: keep");
    reset(&keeps, 2);
    drop(next(&keeps));
    for server in [&server, &keeps] {
        assert_eq!(waiting(server), 1);
        assert!(!says(server).contains("superseded"));
    }
}

fn a_member_that_commits_backwards_is_no_reset() {
    let server = passed("");
    let mut member = next(&server);
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(member.leave(), 0);
    drop(next(&server));
    assert_eq!(waiting(&server), 1, "workers of one consumer commit backwards all day");
}
