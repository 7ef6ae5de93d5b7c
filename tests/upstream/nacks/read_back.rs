//! Nacks by reference of many records of the cluster, read by the sidecar for one Produce.

use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsRequest;
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::{Rec, Server, wall_ms};

/// A record of 1 MiB that retention does not remove during the test.
fn large() -> Rec {
    Rec::new(&"x".repeat(1_040_000)).at(wall_ms())
}

/// One batch that names all of these records without their bytes.
fn naming(offsets: impl Iterator<Item = i64>) -> Bytes {
    let name = |offset| {
        let record = Rec::new("").header("x-retry-by-reference", "true");
        record.header("x-retry-origin", format!("orders-0@{offset}"))
    };
    plain(&offsets.map(name).collect::<Vec<_>>())
}

#[test]
fn batches_may_exceed_the_cache_and_oversize_ones_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    // A first request is small, since a connection may not begin with a large one.
    client.leader("orders").call(3, &ApiVersionsRequest::default());
    for _ in 0..70 {
        client.put("orders", 0, &[large()]);
    }
    let told = client.produce("reprise.retry.shop", 0, naming(0..17));
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
    let told = client.produce("reprise.retry.shop", 0, naming(0..70));
    let said = told.error_message.unwrap();
    assert_eq!(told.error_code, ResponseError::MessageTooLarge.code(), "{said}");
    assert!(said.contains("name fewer"), "{said}");
    let told = client.produce("reprise.retry.shop", 0, naming(17..70));
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
}
