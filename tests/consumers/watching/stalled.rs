//! A handler that hangs while its process lives, in a whole sidecar.

use crate::support::{Member, Rec, Server, until, wall_ms};
use crate::watching::app::dead_letters;

both!(a_hanging_handler_keeps_its_record, a_hanging_handler_fails_where_the_group_says_so);

/// A sidecar, and a member that has committed one record of two and holds the other.
fn hanging(rules: &str, topics: &[&str]) -> (Server, Member) {
    let server = Server::with(&format!("retry: {{levels: 20ms, consume_timeout: 1s{rules}}}"));
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("done").at(wall_ms())]);
    let mut member = Member::new(&server, "shop", topics);
    member.session_ms = 60_000;
    let partitions: Vec<(&str, i32)> = topics.iter().map(|topic| (*topic, 1)).collect();
    member.join(&partitions);
    for offset in [0, 1] {
        let data = member.client.fetch("orders", 0, offset, 5_000);
        assert!(!data.records.unwrap().is_empty());
        if offset == 0 {
            assert_eq!(member.commit("orders", 0, 1), 0);
            tool.put("orders", 0, &[Rec::new("hangs").at(wall_ms())]);
        }
    }
    (server, member)
}

fn a_hanging_handler_fails_where_the_group_says_so() {
    let rules = ", on_consume_timeout: retry";
    let (server, mut member) = hanging(rules, &["orders", "reprise.retry.shop"]);
    let retry = member.retry_once();
    assert_eq!((retry.text().as_str(), retry.reconsume_times()), ("hangs", 1));
    assert_eq!(retry.header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@1");
    assert_eq!(retry.header("x-retry-disposition").unwrap(), "timed_out");
    // A success or a failure that comes late changes nothing.
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("hangs")).error_code, 0);
    assert_eq!(member.commit("orders", 0, 2), 0);
    let count = || server.json("/api/v1/retries?group=shop")["items"][0]["reconsume_times"].clone();
    assert_eq!(count(), 1);
    let labels = r#"{group="shop",reason="timed_out",topic="orders"}"#;
    assert!(server.metric(&format!("reprise_records_failed_total{labels}")) > 0.0);
    member.done(retry.offset + 1);
    until("it is done", || server.json("/api/v1/groups/shop")["pending"] == 0);
    assert_eq!(dead_letters(&server).len(), 0);
}

fn a_hanging_handler_keeps_its_record() {
    let (server, mut member) = hanging("", &["orders", "reprise.retry.shop"]);
    keeps_its_record(&server, &mut member);
    // Nobody would get the retry.
    let (server, mut member) = hanging(", on_consume_timeout: retry", &["orders"]);
    keeps_its_record(&server, &mut member);
}

fn keeps_its_record(server: &Server, member: &mut Member) {
    let stalled = |n: u64| {
        let series = format!("reprise_stalled_records{{group=\"shop\"}} {n}\n");
        server.get("/metrics").contains(&series)
    };
    until("the record is stalled", || stalled(1));
    assert_eq!(dead_letters(server).len(), 0);
    let retries = server.json("/api/v1/retries?group=shop");
    assert_eq!(retries["items"].as_array().unwrap().len(), 0);
    assert_eq!(member.commit("orders", 0, 2), 0);
    until("the commit ends it", || stalled(0));
}
