//! `limits.memory_bytes`: when it runs short, answers are smaller and large requests wait.

use std::io::Write;

use crate::support::batch::{plain, unpack};
use crate::support::client::{fetch_request, produce_request};
use crate::support::{Client, Rec, Server, until};

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

#[test]
fn a_fetch_is_limited_by_memory_but_never_empty() {
    let (_server, mut client) = house("30s");
    for _ in 0..8 {
        client.put("t", 0, &[large(200 << 10)]);
    }
    client.put("t", 0, &[large(2 * MIB)]);
    let mut read = |offset: i64| {
        let mut request = fetch_request("t", 0, offset, 0);
        request.max_bytes = i32::MAX;
        request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
        let answer = client.call(12, &request);
        unpack(answer.responses[0].partitions[0].records.as_ref().unwrap()).len()
    };
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
