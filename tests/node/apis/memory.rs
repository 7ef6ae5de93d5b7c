//! `limits.memory_bytes`: when it runs short, answers are smaller, and large requests and batches
//! wait.

use std::io::Write;

use bytes::Bytes;
use futures_util::FutureExt;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use reprise::socket::Admission;
use reprise::wire::batch::{Batch, Codec, records};

use crate::support::batch::{Around, batch, plain};
use crate::support::client::{fetch_request, produce_request};
use crate::support::{Client, Member, Rec, Server, until};

const MIB: usize = 1 << 20;

/// Little memory and large records; `handshake` is the value of `limits.handshake`.
fn house(handshake: &str) -> (Server, Client) {
    let yaml = format!(
        "limits: {{memory_bytes: 8MiB, handshake: {handshake}}}\n\
         topics: {{max_message_bytes: 8MiB}}"
    );
    let server = Server::with(&yaml);
    let mut client = server.client();
    client.create("t", 1);
    (server, client)
}

fn large(bytes: usize) -> Rec {
    Rec::new(&"x".repeat(bytes))
}

/// A Fetch of partition 0 without limits of bytes.
fn fetch_all(topic: &str, offset: i64, wait_ms: i32) -> FetchRequest {
    let mut request = fetch_request(topic, 0, offset, wait_ms).with_max_bytes(i32::MAX);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    request
}

/// Records in the answer's first partition.
fn count(answer: &FetchResponse) -> usize {
    let data = &answer.responses[0].partitions[0];
    assert_eq!(data.error_code, 0);
    let (mut rest, mut count) = (data.records.clone().unwrap(), 0);
    while let Ok(batch) = Batch::parse(&rest) {
        count += records(&batch, usize::MAX).unwrap().count();
        rest = rest.slice(batch.bytes.len()..);
    }
    count
}

/// All memory for large requests and answers. That of an answer is free a moment after its client
/// has it.
fn take_all(server: &Server) -> Admission {
    let (budget, mut all) = (&server.router().budget, None);
    until("all memory is free", || {
        all = budget.admit(usize::MAX).now_or_never().flatten();
        all.is_some()
    });
    all.unwrap()
}

/// Asserts that the Fetch waits for memory and gets its one record once there is some.
fn assert_waits(server: &Server, client: &mut Client, request: &FetchRequest) {
    let budget = &server.router().budget;
    let taken = take_all(server);
    let sent = client.send(11, request);
    until("the Fetch waits for memory", || budget.is_wanted());
    assert!(client.is_silent());
    drop(taken);
    assert_eq!(count(&client.receive::<FetchRequest>(sent)), 1);
    until("its memory is free", || budget.admit(usize::MAX).now_or_never().is_some());
}

#[test]
fn a_fetch_is_limited_by_memory_but_never_empty() {
    let (_server, mut client) = house("30s");
    for _ in 0..8 {
        client.put("t", 0, &[large(200 << 10)]);
    }
    client.put("t", 0, &[large(2 * MIB)]);
    let mut read = |offset: i64| count(&client.call(12, &fetch_all("t", offset, 0)));
    // The limit is a sixteenth of the free memory.
    assert_eq!(read(0), 2);
    assert_eq!(read(2), 2);
    assert_eq!(read(8), 1, "one whole batch, however large");
}

#[test]
fn a_large_request_waits_for_another_one_and_is_served() {
    let (server, mut first) = house("20s");
    let frame =
        |client: &Client| client.encoded(9, &produce_request("t", 0, plain(&[large(3 * MIB)]), -1));
    // A first request makes the client known, so that a large request may follow.
    let mut second = server.client();
    second.metadata(9, &["t"]);
    let bytes = frame(&first);
    first.raw(&bytes[..MIB]);
    until("the first one is let in", || server.router().budget.used() > MIB);
    let mut writer = second.writer();
    let bytes_of_second = frame(&second);
    let sending = std::thread::spawn(move || writer.write_all(&bytes_of_second).unwrap());
    assert!(second.is_silent(), "no room for both");
    first.raw(&bytes[MIB..]);
    for client in [&mut first, &mut second] {
        assert!(client.frame().is_some(), "served, one after the other");
    }
    sending.join().unwrap();
    assert_eq!(first.list_offset("t", 0, -1).1, 2);
    until("all of it is free again", || server.router().budget.used() < MIB);
}

#[test]
fn an_unfinished_large_request_releases_its_memory_in_time() {
    let (server, mut stuck) = house("200ms");
    let bytes = stuck.encoded(9, &produce_request("t", 0, plain(&[large(3 * MIB)]), -1));
    stuck.raw(&bytes[..MIB]);
    until("it is let in", || server.router().budget.used() > MIB);
    let mut other = server.client();
    other.metadata(9, &["t"]);
    other.put("t", 0, &[large(3 * MIB)]);
    assert_eq!(stuck.frame(), None, "closed: a request must be whole in time");
}

#[test]
fn a_batch_beyond_its_share_waits_for_memory() {
    let (server, mut client) = house("30s");
    client.put("t", 0, &[large(1 << 10)]);
    client.put("t", 0, &[large(6 * MIB)]);
    let taken = take_all(&server);
    let first = fetch_all("t", 0, 0).with_max_bytes(1);
    assert_eq!(count(&client.call(12, &first)), 1, "its share, whatever the request's limit");
    let mut read = |offset: i64| count(&client.call(12, &fetch_all("t", offset, 0)));
    assert_eq!(read(1), 0, "no memory in time: the client asks again");
    drop(taken);
    assert_eq!(read(1), 1, "more than large answers have together, so by itself");
    assert_waits(&server, &mut client, &fetch_all("t", 1, 30_000));
}

/// A member of `shop` that got this batch. Its record at that offset has failed.
fn failed(rules: &str, batch: Bytes, (offset, value): (i64, &str)) -> (Server, Member) {
    let yaml = format!(
        "limits: {{memory_bytes: 8MiB}}\ntopics: {{max_message_bytes: 8MiB}}\nretry: {{{rules}}}"
    );
    let server = Server::with(&yaml);
    let mut client = server.client();
    client.create("t", 1);
    assert_eq!(client.produce("t", 0, batch).error_code, 0);
    let mut member = Member::new(&server, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
    assert_ne!(count(&member.client.call(11, &fetch_all("t", 0, 1_000))), 0);
    let origin = format!("t-0@{offset}");
    assert_eq!(member.client.nack("shop", &origin, Rec::new(value)).error_code, 0);
    (server, member)
}

#[test]
fn retries_beyond_their_share_wait_for_memory() {
    let value = "x".repeat(2 * MIB);
    let (server, mut member) = failed("levels: 100ms", plain(&[Rec::new(&value)]), (0, &value));
    let retries = fetch_all("reprise.retry.shop", member.position(), 30_000);
    assert_waits(&server, &mut member.client, &retries);
}

#[test]
fn a_compressed_batch_that_is_cut_waits_for_memory() {
    let records = [large(2 * MIB), Rec::new("failed")];
    let small = batch(&records, Around::codec(Codec::Gzip));
    assert!(small.len() < 16 << 10);
    let rules = "levels: 1h, order: {mode: partition}";
    let (server, mut member) = failed(rules, small, (1, "failed"));
    assert_waits(&server, &mut member.client, &fetch_all("t", 0, 30_000));
}
