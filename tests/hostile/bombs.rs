//! Compressed requests of a few kilobytes that unpack to far more, repeated on one connection.

use bytes::Bytes;
use kafka_protocol::messages::ProduceRequest;
use reprise::wire::ResponseError;
use reprise::wire::batch::Codec;

use crate::sidecar::Sidecar;
use crate::support::batch::{Around, batch};
use crate::support::client::produce_request;
use crate::support::{Client, Rec};

const MIB: usize = 1 << 20;
/// Sizes above the limit and below it.
const SIZES: [usize; 8] = [100, 40, 100, 40, 100, 40, 100, 40];
/// Growth: one refused nack, while its buffer grows, and two waiting ones.
const GROWN_MIB_MAX: f64 = 260.0;

/// A nack of less than 1 MiB whose record unpacks to `mib` MiB.
fn bomb(origin: usize, mib: usize) -> Bytes {
    let mut record = Rec::new("").header("x-retry-origin", format!("orders-0@{origin}"));
    record.value = Some(vec![0; mib * MIB].into());
    let bytes = batch(&[record], Around::codec(Codec::Gzip));
    assert!(bytes.len() < MIB, "{}", bytes.len());
    bytes
}

#[test]
fn the_memory_of_decompression_bombs_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["journal.ephemeral=accept", "topics.durability=os"];
    let sidecar = Sidecar::start(&dir.path().join("data"), &settings);
    let mut client = Client::connect(sidecar.addr);
    client.create("orders", 1);
    let before = sidecar.resident_mib();
    let frames = SIZES.iter().enumerate().map(|(origin, mib)| {
        client.send(9, &produce_request("reprise.retry.shop", 0, bomb(origin, *mib), -1))
    });
    let sent: Vec<_> = frames.collect();
    for (sent, mib) in sent.into_iter().zip(SIZES) {
        let answer = client.receive::<ProduceRequest>(sent);
        let one = &answer.responses[0].partition_responses[0];
        let refused = ResponseError::MessageTooLarge.code();
        assert_eq!(one.error_code, if mib > 64 { refused } else { 0 }, "{mib} MiB");
    }
    let grown = sidecar.resident_most_mib() - before;
    println!("{} nacks of less than 1 MiB that unpack to {SIZES:?}: {grown:.0} MiB", SIZES.len());
    assert!(grown < GROWN_MIB_MAX, "{grown} MiB");
    assert_eq!(client.put("orders", 0, &[Rec::new("still here")]), 0);
}
