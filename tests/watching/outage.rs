//! The outage breaker through a whole sidecar.

use crate::support::batch::{plain, unpack};
use crate::support::{Member, Rec, Server, until, wall_ms};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const OPEN: &str = "reprise_breaker_open{group=\"shop\"}";

#[test]
fn a_group_of_which_everything_fails_is_held_until_a_record_succeeds() {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 1, order: {interval: 100ms}, \
         breaker: {min: 5, window: 10}}",
    );
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.session_ms = 60_000;
    member.join(PARTITIONS);
    let all: Vec<Rec> = (0..8).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
    member.client.put("orders", 0, &all);
    let data = member.client.fetch("orders", 0, 0, 5_000);
    assert_eq!(unpack(&data.records.unwrap()).len(), 8);
    assert!(server.metric(OPEN) < 0.5);
    for offset in 0..8 {
        let origin = format!("orders-0@{offset}");
        assert_eq!(member.client.nack("shop", &origin, Rec::new("x")).error_code, 0);
    }
    assert_eq!(member.commit("orders", 0, 8), 0);
    assert!(server.metric(OPEN) > 0.5);
    let stands = server.json("/api/v1/groups/shop")["breaker"].to_string();
    assert!(stands.contains("held"), "{stands}");

    // Retries go one by one, and fail without being charged: their limit is one.
    for n in 0..3 {
        let retry = member.retry_once();
        let again = format!("reprise.retry.shop-0@{}", retry.offset);
        let never = format!("reprise.retry.shop-0@{}", retry.offset + 1_000);
        let named = [again.as_str(), never.as_str()];
        let named = named.map(|origin| Rec::new("x").header("x-retry-origin", origin));
        assert_ne!(member.client.produce("reprise.retry.shop", 0, plain(&named)).error_code, 0);
        let stands = server.json("/api/v1/groups/shop")["breaker"].to_string();
        assert!(stands.contains(&format!("{n} have failed")), "refused, and no failure: {stands}");
        assert_eq!(member.client.nack("shop", &again, Rec::new("x")).error_code, 0);
        member.done(retry.offset + 1);
    }
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 0);
    assert!(server.metric(OPEN) > 0.5, "a commit of what failed is no success");

    let retry = member.retry_once();
    member.done(retry.offset + 1);
    assert!(server.metric(OPEN) < 0.5);
    let mut left = 7;
    until("all retries", || {
        let got = member.retries();
        member.done(got[got.len() - 1].offset + 1);
        left -= got.len();
        left == 0
    });
    assert_eq!(member.heartbeat(), 0);
}
