//! The outage breaker in a whole sidecar.

use crate::support::batch::Got;
use crate::support::{Member, Rec, Server, until, wall_ms};
use crate::watching::ordered::offsets;

both!(nacks_pause_a_group_until_a_test_batch_succeeds);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const OPEN: &str = "reprise_breaker_open{group=\"shop\"}";

fn records(count: usize) -> Vec<Rec> {
    (0..count).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect()
}

/// Number of records in the answer to one Fetch.
fn fetched(member: &mut Member, offset: i64) -> usize {
    let data = member.client.fetch("orders", 0, offset, 500);
    data.records.map_or(0, |records| offsets(records).len())
}

fn nacks_pause_a_group_until_a_test_batch_succeeds() {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 1, order: {interval: 1s}, \
         breaker: {min: 5, window: 10}}",
    );
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.session_ms = 60_000;
    member.join(PARTITIONS);
    member.client.put("orders", 0, &records(9));
    assert_eq!(fetched(&mut member, 0), 9);
    for offset in 0..8 {
        let origin = format!("orders-0@{offset}");
        assert_eq!(member.client.nack("shop", &origin, Rec::new("x")).error_code, 0);
    }
    assert!(server.metric(OPEN) < 0.5, "no first delivery has ended");
    assert_eq!(member.commit("orders", 0, 8), 0);
    assert!(server.metric(OPEN) > 0.5);
    let state = server.json("/api/v1/groups/shop")["breaker"].to_string();
    assert!(state.contains("paused"), "{state}");
    assert_eq!(member.client.nack("shop", "orders-0@8", Rec::new("x")).error_code, 0);
    assert_eq!(member.commit("orders", 0, 9), 0);

    member.client.put("orders", 0, &records(5));
    for offset in 9..14 {
        assert!(server.metric(OPEN) > 0.5);
        until("a record of the test batch", || match fetched(&mut member, offset) {
            0 => false,
            one => one == 1,
        });
        assert_eq!(member.commit("orders", 0, offset + 1), 0);
    }
    assert!(server.metric(OPEN) < 0.5);
    let mut counts = Vec::new();
    until("all retries", || {
        let retries = member.retries();
        member.done(retries[retries.len() - 1].offset + 1);
        counts.extend(retries.iter().map(Got::reconsume_times));
        counts.len() == 9
    });
    counts.sort_unstable();
    assert_eq!(counts, [0, 1, 1, 1, 1, 1, 1, 1, 1], "a nack in the pause counts no failure");
    assert_eq!(member.heartbeat(), 0);
}
