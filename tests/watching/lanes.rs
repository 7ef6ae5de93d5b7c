//! Retries beside records that go one by one: each has its turn, and none comes beside another.

use crate::app::{began, orders};
use crate::support::{Member, Rec, Server, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A member whose topic goes one by one after three were lost; a retry is due.
fn narrow() -> (Server, Member) {
    let server = Server::with("retry: {levels: 10ms, isolation_timeout: 60s}");
    orders(&server, 4);
    began(&server, &PARTITIONS[..1]);
    let start = || {
        let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
        member.join(PARTITIONS);
        assert!(!is_retried(&mut member), "its slot is known from here on");
        member
    };
    for _ in 0..3 {
        let mut member = start();
        assert!(!member.client.fetch("orders", 0, 0, 5_000).records.unwrap().is_empty());
        assert_eq!(member.leave(), 0);
    }
    let member = start();
    (server, member)
}

fn is_given(member: &mut Member, offset: i64) -> bool {
    !member.client.fetch("orders", 0, offset, 100).records.unwrap().is_empty()
}

fn is_retried(member: &mut Member) -> bool {
    let from = member.position();
    !member.fetch_lane(from, 100).records.unwrap().is_empty()
}

#[test]
fn a_record_that_is_served_alone_is_joined_by_no_retry_and_a_retry_by_no_record() {
    let (server, mut member) = narrow();
    until("one is given, alone", || is_given(&mut member, 0));
    assert_eq!(server.client().nack("shop", "orders-0@3", Rec::new("3")).error_code, 0);
    for _ in 0..3 {
        assert!(!is_retried(&mut member));
    }
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert!(!is_given(&mut member, 1), "a retry is next");
    let retry = member.retry_once();
    assert_eq!(retry.text(), "3");
    assert!(!is_given(&mut member, 1), "it is out");
    member.done(retry.offset + 1);
    until("the next one is given", || is_given(&mut member, 1));
}
