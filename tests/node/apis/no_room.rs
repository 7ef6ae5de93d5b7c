//! A disk without any room, reserve included: the admin port still answers, and the sidecar stops.

use std::time::Duration;

use reprise::clock::Clock;

use crate::support::{Member, Rec, Server, until};

/// Far less than the patience of a test.
const BOUND: Duration = Duration::from_secs(8);

#[test]
fn a_full_disk_allows_queries_and_a_shutdown() {
    let mut server = Server::told("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("a")]);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("a")).error_code, 0);
    server.disk().set_capacity(Some(server.disk().used_bytes()));
    // The commit is decided but never durable, so its answer never comes.
    let commit = member.commit_request("orders", 0, 1, "");
    let _ = member.client.send(7, &commit);
    until("it waits for the disk", || server.get("/readyz").contains("disk full"));
    let clock = Clock::start();
    for path in ["/api/v1/retries?group=shop", "/api/v1/groups", "/api/v1/overview", "/drain"] {
        server.json(path);
    }
    assert!(server.get("/metrics").contains("reprise_records_waiting"));
    assert_eq!(server.json("/api/v1/delayed")["items"].as_array().unwrap().len(), 0);
    server.stop();
    assert!(clock.elapsed() < BOUND, "{:?}", clock.elapsed());
    server.disk().set_capacity(None);
    server.start_again();
    let retries = server.json("/api/v1/retries?group=shop");
    assert_eq!(retries["items"].as_array().unwrap().len(), 1, "nothing acknowledged is lost");
}
