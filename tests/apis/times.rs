//! Times that producers write into records, and the retention that goes by them.

use reprise::wire::ResponseError;

use crate::support::batch::{TIME_MS, plain};
use crate::support::{Client, Rec, Server, until};

const HOUR_MS: u64 = 3_600_000;

fn put(client: &mut Client, topic: &str, ahead_ms: i64) -> i16 {
    client.produce(topic, 0, plain(&[Rec::new("x").at(TIME_MS + ahead_ms)])).error_code
}

#[test]
fn a_record_of_a_time_to_come_is_refused_and_keeps_nothing_behind_it() {
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
    server.pass(2 * HOUR_MS + 1);
    for topic in ["orders", "later"] {
        until("retention", || client.list_offset(topic, 0, -2).1 == 2);
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
fn a_record_without_a_time_is_as_old_as_its_place_in_the_log() {
    let yaml = "topics: {list: [{name: timeless, retention: 1h}, {name: witness, retention: 1h}]}";
    let server = Server::told(yaml);
    let mut client = server.client();
    assert_eq!(client.put("timeless", 0, &[Rec::new("x").at(-1)]), 0);
    assert_eq!(put(&mut client, "witness", -2 * i64::try_from(HOUR_MS).unwrap()), 0);
    until("retention", || client.list_offset("witness", 0, -2).1 == 1);
    assert_eq!(client.list_offset("timeless", 0, -2).1, 0);
    server.pass(HOUR_MS + 1);
    until("retention", || client.list_offset("timeless", 0, -2).1 == 1);
}
