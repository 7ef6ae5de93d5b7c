//! Times that producers write into records, and retention, which goes by their arrival.

use reprise::wire::ResponseError;

use crate::support::batch::{TIME_MS, plain};
use crate::support::{Client, Rec, Server};

const HOUR_MS: u64 = 3_600_000;

fn put(client: &mut Client, topic: &str, ahead_ms: i64) -> i16 {
    client.produce(topic, 0, plain(&[Rec::new("x").at(TIME_MS + ahead_ms)])).error_code
}

#[test]
fn a_future_timestamp_is_refused_and_retention_is_unaffected() {
    let yaml = "topics: {produce_delay_max: 1d, list: [{name: orders, retention: 1h}, \
                {name: later, retention: 1h, produce_delay: true}]}";
    let server = Server::told(yaml);
    let mut client = server.client();
    let far = 1_000 * i64::try_from(HOUR_MS).unwrap();
    let hour = i64::try_from(HOUR_MS).unwrap();
    for topic in ["orders", "later"] {
        for ahead in [hour + 1, far] {
            let refused = put(&mut client, topic, ahead);
            assert_eq!(refused, ResponseError::InvalidTimestamp.code(), "{topic} {ahead}");
        }
        assert_eq!(put(&mut client, topic, hour), 0, "an hour is what clocks may differ by");
        assert_eq!(put(&mut client, topic, 0), 0);
    }
    let look = || server.router().broker.expire().unwrap();
    look();
    server.pass(HOUR_MS);
    look();
    for topic in ["orders", "later"] {
        assert_eq!(client.list_offset(topic, 0, -2).1, 2, "{topic}");
    }
}

#[test]
fn a_waiting_record_may_have_its_delivery_time() {
    let yaml = "topics: {produce_delay_max: 1d, list: [{name: later, produce_delay: true}]}";
    let server = Server::told(yaml);
    let mut client = server.client();
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut waiting = |ahead_ms: i64| {
        let record = Rec::new("x").header("x-deliver-after-ms", (5 * hour).to_string());
        client.produce("later", 0, plain(&[record.at(TIME_MS + ahead_ms)])).error_code
    };
    assert_eq!(waiting(5 * hour), 0);
    assert_eq!(waiting(6 * hour + 1), ResponseError::InvalidTimestamp.code());
}

#[test]
fn retention_counts_from_arrival_despite_other_timestamps() {
    let yaml = "topics: {list: [{name: timeless, retention: 1h}, {name: backfill, retention: 1h}]}";
    let server = Server::told(yaml);
    let mut client = server.client();
    assert_eq!(client.put("timeless", 0, &[Rec::new("x").at(-1)]), 0);
    assert_eq!(put(&mut client, "backfill", -720 * i64::try_from(HOUR_MS).unwrap()), 0);
    let mut starts_after = |ms: u64| {
        server.pass(ms);
        server.router().broker.expire().unwrap();
        ["timeless", "backfill"].map(|topic| client.list_offset(topic, 0, -2).1)
    };
    assert_eq!(starts_after(0), [0, 0]);
    assert_eq!(starts_after(HOUR_MS - 1), [0, 0]);
    assert_eq!(starts_after(1), [1, 1]);
}
