//! E9 through a whole sidecar: a handler that hangs while its process lives.

use crate::app::dead_letters;
use crate::support::batch::{Around, batch};
use crate::support::{Member, Rec, Server, until, wall_ms};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A member that has handled the first of two records and hangs with the second.
fn hanging(yaml: &str, topics: &[&str]) -> (Server, Member) {
    let server = Server::with(yaml);
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("done").at(wall_ms())]);
    let mut member = Member::new(&server, "shop", topics);
    member.session_ms = 60_000;
    member.join(PARTITIONS);
    for offset in [0, 1] {
        let data = member.client.fetch("orders", 0, offset, 5_000);
        assert_eq!(data.error_code, 0);
        assert!(!data.records.unwrap().is_empty());
        if offset == 0 {
            assert_eq!(member.commit("orders", 0, 1), 0);
            tool.put("orders", 0, &[Rec::new("hangs").at(wall_ms())]);
        }
    }
    member.client.fetch("orders", 0, 2, 0);
    (server, member)
}

/// What waits for the group.
fn waiting(server: &Server) -> Vec<serde_json::Value> {
    server.json("/api/v1/retries?group=shop")["items"].as_array().unwrap().clone()
}

#[test]
fn it_comes_back_by_the_retry_topic_unless_it_is_committed_before_that() {
    let (server, mut member) = hanging(
        "retry: {levels: 1h 2h 3h, consume_timeout: 1s, timeout_level: 2}",
        &["orders", "reprise.retry.shop"],
    );
    until("the timeout", || waiting(&server).len() == 1);
    let entry = waiting(&server).remove(0);
    assert_eq!(
        (&entry["origin"], &entry["disposition"]),
        (&"orders-0@1".into(), &"timeout".into())
    );
    assert_eq!((&entry["level"], &entry["reconsume_times"]), (&2.into(), &1.into()));
    until("it is in the log", || {
        let story = server.json("/api/v1/explain?record=orders-0@1&group=shop");
        story["past"].as_array().unwrap().iter().any(|past| past["evidence"] == "E9")
    });
    assert_eq!(member.commit("orders", 0, 2), 0);
    until("it is withdrawn", || waiting(&server).is_empty());
    assert_eq!(dead_letters(&server).len(), 0);
}

#[test]
fn what_nobody_can_read_when_it_times_out_is_kept_for_the_next_fetch_of_it() {
    let server = Server::with("retry: {levels: 20ms, consume_timeout: 1s}");
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("done").at(wall_ms())]);
    let topics = ["orders", "reprise.retry.shop"];
    let mut member = Member::new(&server, "shop", &topics);
    member.join(PARTITIONS);
    member.client.fetch("orders", 0, 0, 5_000);
    assert_eq!(member.commit("orders", 0, 1), 0);
    // It says that it is gzip.
    let bad =
        batch(&[Rec::new("bad").at(wall_ms())], Around { attributes: 1, ..Around::default() });
    server.stored("orders", &bad);
    assert!(!member.client.fetch("orders", 0, 1, 5_000).records.unwrap().is_empty());
    member.client.fetch("orders", 0, 2, 0);
    let story = || server.json("/api/v1/explain?record=orders-0@1&group=shop");
    until("the timeout", || story().to_string().contains("settled with the next Fetch"));
    assert!(waiting(&server).is_empty() && dead_letters(&server).is_empty());

    member.leave();
    let mut next = Member::new(&server, "shop", &topics);
    next.join(PARTITIONS);
    until("it is a dead letter", || {
        next.client.fetch("orders", 0, 1, 0);
        !dead_letters(&server).is_empty()
    });
    let dead = dead_letters(&server);
    assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "undecodable");
    assert_eq!(dead[0].value.as_ref().unwrap()[16..], bad[16..], "all of it but its place");
}

#[test]
fn what_its_member_says_has_failed_is_never_withdrawn() {
    let (server, mut member) = hanging(
        "retry: {levels: 1h 2h 3h, consume_timeout: 1s}",
        &["orders", "reprise.retry.shop"],
    );
    until("the timeout", || waiting(&server).len() == 1);
    let failed = member.client.nack("shop", "orders-0@1", Rec::new("late"));
    assert_eq!(failed.error_code, 0, "a late failure adds none");
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(waiting(&server)[0]["reconsume_times"], 1);
}

#[test]
fn what_its_member_says_has_failed_after_a_commit_has_withdrawn_it_waits_again() {
    let (server, mut member) = hanging(
        "retry: {levels: 1h 2h 3h, consume_timeout: 1s}",
        &["orders", "reprise.retry.shop"],
    );
    until("the timeout", || waiting(&server).len() == 1);
    assert_eq!(member.commit("orders", 0, 2), 0);
    until("it is withdrawn", || waiting(&server).is_empty());
    let nack = Rec::new("hangs").header("x-retry-reason", "no stock");
    let failed = member.client.nack("shop", "orders-0@1", nack);
    assert_eq!(failed.error_code, 0);
    let entry = waiting(&server).remove(0);
    assert_eq!(
        (&entry["reconsume_times"], &entry["disposition"], &entry["reason"]),
        (&1.into(), &"rejected".into(), &"no stock".into())
    );
}

#[test]
fn what_its_member_goes_back_to_is_never_withdrawn() {
    let (server, mut member) = hanging(
        "retry: {levels: 1h 2h 3h, consume_timeout: 1s}",
        &["orders", "reprise.retry.shop"],
    );
    until("the timeout", || waiting(&server).len() == 1);
    server.client().put("orders", 0, &[Rec::new("next").at(wall_ms())]);
    let given = member.client.fetch("orders", 0, 1, 5_000).records.unwrap();
    assert!(!given.is_empty(), "what comes behind it");
    assert_eq!(member.commit("orders", 0, 3), 0);
    assert_eq!(waiting(&server)[0]["reconsume_times"], 1);
}

#[test]
fn without_a_way_back_it_is_a_dead_letter_after_its_last_delivery() {
    let (server, mut member) =
        hanging("retry: {consume_timeout: 1s, max_reconsume_times: 0}", &["orders"]);
    until("the dead letter", || dead_letters(&server).len() == 1);
    let dead = dead_letters(&server).remove(0);
    assert_eq!((dead.text().as_str(), dead.number("RECONSUME_TIME")), ("hangs", 1));
    assert_eq!(dead.header("x-retry-disposition").unwrap(), "timeout");
    assert_eq!(member.heartbeat(), 0, "its member lives");
}
