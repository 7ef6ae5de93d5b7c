//! An offset reset below pending retries: the original records are delivered again, and the retries
//! come as well.

use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server};

both!(a_reset_keeps_a_waiting_retry_and_its_count, a_reset_forgets_a_settled_retry);

const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A group that has committed all of eight records, with a waiting retry of the fourth.
fn passed(levels: &str) -> Server {
    let server = Server::with(&format!("retry: {{levels: [{levels}]}}"));
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

/// The reconsume times of all waiting retries.
fn counts(server: &Server) -> Vec<i64> {
    let items = server.json("/api/v1/retries?group=shop")["items"].clone();
    let all = items.as_array().unwrap();
    all.iter().map(|item| item["reconsume_times"].as_i64().unwrap()).collect()
}

fn a_reset_keeps_a_waiting_retry_and_its_count() {
    let server = passed("1h");
    reset(&server, 2);
    let mut member = next(&server);
    assert_eq!(member.client.nack("shop", "orders-0@3", Rec::new("3")).error_code, 0);
    assert_eq!(counts(&server), [1], "the failure is known while its retry waits");
    assert_eq!(member.commit("orders", 0, 8), 0);
    assert_eq!(counts(&server), [1]);
}

fn a_reset_forgets_a_settled_retry() {
    let server = passed("20ms");
    let mut member = next(&server);
    let retry = member.retry_once();
    member.done(retry.offset + 1);
    assert_eq!(member.leave(), 0);
    reset(&server, 2);
    let mut member = next(&server);
    assert_eq!(member.client.nack("shop", "orders-0@3", Rec::new("3")).error_code, 0);
    assert_eq!(member.retry_once().reconsume_times(), 1, "the first failure of the replay");
}
