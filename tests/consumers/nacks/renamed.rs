//! A change of `names` with an existing data directory.

use reprise::config::Config;

use crate::support::{Rec, Server, until};

fn names(retry: &str, dead_letters: &str) -> impl FnOnce(&mut Config) {
    let (retry, dead_letters) = (format!("{retry}.{{group}}"), format!("{dead_letters}.{{group}}"));
    move |config| (config.names.retry, config.names.dead_letters) = (retry, dead_letters)
}

both!(other_names_are_refused_while_records_lie_under_the_former);

fn other_names_are_refused_while_records_lie_under_the_former() {
    let mut server = Server::with("retry: {levels: 1h}");
    server.restart_with(names("retry", "dlq"));
    server.restart_with(names("reprise.retry", "reprise.dlq"));
    let mut client = server.client();
    client.create("orders", 1);
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    let refused = server.refused_with(names("retry", "reprise.dlq"));
    let says = "retries of the last start lie under names.retry \"reprise.retry.{group}\"";
    assert!(refused.starts_with(says), "{refused}");
    server.restart_with(names("reprise.retry", "dlq"));
    let dead = Rec::new("y").header("x-retry-level", "-1");
    assert_eq!(server.client().nack("shop", "orders-0@1", dead).error_code, 0);
    let count = |server: &Server| server.json("/api/v1/groups/shop")["dead_letters"].clone();
    until("it is a dead letter", || count(&server) == 1);
    let refused = server.refused_with(names("reprise.retry", "reprise.dlq"));
    let says = "dead letters of the last start lie under names.dead_letters \"dlq.{group}\"";
    assert!(refused.starts_with(says), "{refused}");
    server.restart();
    assert_eq!(count(&server), 1);
}
