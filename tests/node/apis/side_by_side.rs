//! Fresh records and retries, more of each than one answer holds: neither delays the other.

use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, until};

const FAILED: usize = 40;
const FRESH: usize = 60;

#[test]
fn overdue_retries_and_fresh_records_share_a_fetch() {
    for (rate, retries) in [("", FAILED), (", rate: 20", 2)] {
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
        member.fetch_retries(0, 0);
        server.pass(1_000);
        let released = || server.json("/api/v1/groups/shop")["unread"].clone();
        until("they are in their topic", || released() == retries);
        let next = i64::try_from(FAILED).unwrap();
        let from = member.position();
        let mut request = fetch_request("orders", 0, next, 0);
        request.topics.extend(fetch_request("reprise.retry.shop", 0, from, 0).topics);
        let answer = member.client.call(12, &request);
        let count = |topic: &str| {
            let found = answer.responses.iter().find(|found| &*found.topic.0 == topic).unwrap();
            unpack(found.partitions[0].records.as_ref().unwrap()).len()
        };
        assert_eq!((count("orders"), count("reprise.retry.shop")), (FRESH, retries), "{rate}");
    }
}
