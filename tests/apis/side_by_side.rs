//! Fresh records and retries, of both more than one answer holds: neither keeps the other waiting.

use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server};

const FAILED: usize = 40;
const FRESH: usize = 60;

#[test]
fn overdue_retries_and_fresh_records_leave_side_by_side_with_a_rate_and_without() {
    for (rate, retries) in [("", 16), (", rate: 20", 2)] {
        let server = Server::told(&format!("retry: {{levels: 1s{rate}}}"));
        server.client().create("orders", 1);
        let mut member = Member::new(&server, "shop", &["orders", "retry.shop"]);
        member.join(&[("orders", 1), ("retry.shop", 1)]);
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
        request.topics.extend(fetch_request("retry.shop", 0, lane, 0).topics);
        let answer = member.client.call(12, &request);
        let count = |topic: &str| {
            let found = answer.responses.iter().find(|found| &*found.topic.0 == topic).unwrap();
            unpack(found.partitions[0].records.as_ref().unwrap()).len()
        };
        assert_eq!((count("orders"), count("retry.shop")), (FRESH, retries), "{rate}");
    }
}
