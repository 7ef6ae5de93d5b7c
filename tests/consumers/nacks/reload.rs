//! A reload with other rules while retries wait.

use std::time::Duration;

use crate::support::{Rec, Server, wall_ms};

/// Milliseconds until the only retry of the group is due.
fn due_in(server: &Server) -> i64 {
    let items = server.json("/api/v1/retries?group=shop")["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 1, "{items}");
    items[0]["due_ms"].as_i64().unwrap() - wall_ms()
}

#[test]
fn a_reload_only_advances_waiting_retries_and_names_its_rule() {
    let yaml = "{retry: {levels: 2h}, groups: [{match: shop, topic: orders, levels: 1h}]}";
    let server = &mut Server::with(yaml);
    let mut client = server.client();
    client.create("orders", 1);
    let offset = client.put("orders", 0, &[Rec::new("a")]);
    let answer = client.nack("shop", &format!("orders-0@{offset}"), Rec::new("a"));
    assert_eq!(answer.error_code, 0);
    assert!((3_500_000..=3_600_000).contains(&due_in(server)), "the topic's own table");
    let from = |server: &Server, key: &str| {
        let explained = server.json("/api/v1/explain?group=shop&topic=orders");
        let rules = explained["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["key"] == key).unwrap();
        (rule["value"].as_str().unwrap().to_owned(), rule["from"].as_str().unwrap().to_owned())
    };
    let topic = "groups[0] (match: shop, topic: orders)".to_owned();
    assert_eq!(from(server, "levels"), ("1h".to_owned(), topic));
    server.reload_with(|config| config.groups.clear());
    assert!(due_in(server) <= 3_600_000, "longer: what was stored stays");
    server.reload_with(|config| {
        config.retry.backoff.initial = Some(Duration::from_mins(10));
    });
    assert!((500_000..=600_000).contains(&due_in(server)), "the back-off is shorter");
    assert_eq!(from(server, "backoff.initial"), ("10m".to_owned(), "retry".to_owned()));
    server.restart();
    assert!((400_000..=600_000).contains(&due_in(server)), "and it is the same after a restart");
}
