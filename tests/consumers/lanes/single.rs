//! A retry that kills its consumer is isolated and becomes a dead letter; no other record counts a
//! failure.

use crate::support::batch::{Got, unpack};
use crate::support::{Member, Rec, Server, until};

in_front!(a_crashing_retry_becomes_a_dead_letter_without_charging_neighbours);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    member
}

fn is_given(member: &mut Member, offset: i64) -> bool {
    !member.client.fetch("orders", 0, offset, 50).records.unwrap().is_empty()
}

/// The next retry, which comes alone. The consumer also fetches orders, of which there are none.
fn retry(member: &mut Member, order: i64) -> Got {
    let from = member.position();
    let mut got = Vec::new();
    until("a retry", || {
        got = unpack(&member.fetch_lane(from, 100).records.unwrap());
        assert!(!is_given(member, order));
        !got.is_empty()
    });
    assert_eq!(got.len(), 1, "{got:?}");
    got.remove(0)
}

fn a_crashing_retry_becomes_a_dead_letter_without_charging_neighbours() {
    let server = Server::with(
        "retry: {levels: 20ms, crash_limit: 1, max_reconsume_times: 3, isolation_timeout: 60s}",
    );
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("an order")]);
    let mut dies = member(&server);
    for (origin, text) in [("orders-0@7", "deadly"), ("orders-0@8", "well")] {
        assert_eq!(tool.nack("shop", origin, Rec::new(text)).error_code, 0);
    }
    let from = dies.position();
    let given = dies.retries_from(from).len();
    assert!(given == 2 || dies.retries_from(from + 1).len() == 1, "both are out");
    assert_eq!(dies.leave(), 0);
    let alone = || server.json("/api/v1/explain?group=shop")["alone"][0].clone();
    let (mut orders, mut committed, mut deaths, mut well) = (1, 0, 1, 0);
    // One delivery beside another retry, two isolated ones, and the last attempt.
    while deaths < 4 || well == 0 {
        let mut next = member(&server);
        until("an order is given", || is_given(&mut next, committed));
        if deaths == 1 {
            let from = next.position();
            until("a retry is due, and waits for the order to be done", || {
                assert!(next.fetch_lane(from, 50).records.unwrap().is_empty());
                alone()["stands"].as_str().is_some_and(|stands| stands.starts_with("next"))
            });
        }
        assert_eq!(next.commit("orders", 0, orders), 0);
        committed = orders;
        let got = retry(&mut next, committed);
        assert_eq!(alone()["retry"], format!("reprise.retry.shop-0@{}", got.offset));
        tool.put("orders", 0, &[Rec::new("one more")]);
        orders += 1;
        assert!(!is_given(&mut next, committed), "beside {}", got.text());
        if got.text() == "well" {
            assert_eq!(got.number("RECONSUME_TIME"), 1, "lost, not failed");
            next.done(got.offset + 1);
            assert!(is_given(&mut next, committed), "everything flows");
            well += 1;
        } else {
            deaths += 1;
        }
        assert_eq!(next.leave(), 0);
    }
    until("it is a dead letter", || !tool.read_all("reprise.dlq.shop").is_empty());
    let dead = tool.read_all("reprise.dlq.shop");
    assert_eq!((dead.len(), dead[0].text().as_str(), well), (1, "deadly", 1));
    let told = server.json("/api/v1/explain?record=orders-0@7")["past"].clone();
    let says = told.as_array().unwrap().iter().map(|past| past["says"].as_str().unwrap());
    let says: Vec<&str> = says.collect();
    let is_alone = |says: &&str| says.contains("attempt 2, alone, as reprise.retry.shop-0@");
    assert_eq!(says.iter().filter(|says| is_alone(says)).count(), 2, "{says:?}");
    assert!(says.last().unwrap().ends_with("a dead letter (crashed)"), "{says:?}");
}
