//! Fresh records and retries, more of each than one answer holds: neither delays the other.

use crate::support::batch::{plain, unpack};
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server};

const FAILED: usize = 40;
const FRESH: usize = 60;

#[test]
fn overdue_retries_and_fresh_records_share_a_fetch() {
    for (rate, retries) in [("", 16), (", rate: 20", 2)] {
        let server = Server::told(&format!("retry: {{levels: 1s{rate}}}"));
        server.client().create("orders", 1);
        let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
        member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
        member.client.put("orders", 0, &vec![Rec::new("failed"); FAILED]);
        member.client.put("orders", 0, &vec![Rec::new("fresh"); FRESH]);
        for offset in 0..FAILED {
            let place = format!("orders-0@{offset}");
            assert_eq!(member.client.nack("shop", &place, Rec::new("x")).error_code, 0);
        }
        server.pass(1_000);
        let next = i64::try_from(FAILED).unwrap();
        let lane = member.position();
        let mut request = fetch_request("orders", 0, next, 0);
        request.topics.extend(fetch_request("reprise.retry.shop", 0, lane, 0).topics);
        let answer = member.client.call(12, &request);
        let count = |topic: &str| {
            let found = answer.responses.iter().find(|found| &*found.topic.0 == topic).unwrap();
            unpack(found.partitions[0].records.as_ref().unwrap()).len()
        };
        assert_eq!((count("orders"), count("reprise.retry.shop")), (FRESH, retries), "{rate}");
    }
}

/// Retries that are due.
const BACKLOG: usize = 10_000;

/// A member with [`BACKLOG`] failed records, all of them due.
fn behind() -> (Server, Member) {
    let server = Server::told("retry: {levels: 1s}");
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    member.client.put("orders", 0, &vec![Rec::new("failed"); BACKLOG]);
    let nack = |n: usize| Rec::new("failed").header("x-retry-origin", format!("orders-0@{n}"));
    for first in (0..BACKLOG).step_by(1_000) {
        let nacks: Vec<Rec> = (first..first + 1_000).map(nack).collect();
        assert_eq!(member.client.produce("reprise.retry.shop", 0, plain(&nacks)).error_code, 0);
    }
    server.pass(1_000);
    (server, member)
}

#[test]
fn each_fetch_brings_retries_and_fresh_records_despite_a_backlog() {
    let (_server, mut member) = behind();
    let (mut next, mut lane) = (i64::try_from(BACKLOG).unwrap(), member.position());
    for round in 0..40 {
        member.client.put("orders", 0, &[Rec::new("fresh")]);
        let (fresh, retries) =
            (fetch_request("orders", 0, next, 0), fetch_request("reprise.retry.shop", 0, lane, 0));
        let retries_first = round % 2 == 0;
        let (mut request, other) = if retries_first { (retries, fresh) } else { (fresh, retries) };
        request.topics.extend(other.topics);
        // The retries of one answer take more than that.
        request.max_bytes = 300;
        let answer = member.client.call(12, &request);
        let given = |topic: &str| {
            let found = answer.responses.iter().find(|found| &*found.topic.0 == topic).unwrap();
            unpack(found.partitions[0].records.as_ref().unwrap())
        };
        let (fresh, retries) = (given("orders"), given("reprise.retry.shop"));
        assert_eq!((fresh.len(), retries.len()), (1, 16), "round {round}");
        (next, lane) = (next + 1, retries[15].offset + 1);
        member.done(lane);
    }
}
