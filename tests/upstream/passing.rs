//! Frames that the sidecar only relays: whole, unchanged and in order.

use std::net::TcpStream;

use bytes::{Buf, BufMut, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, SaslHandshakeRequest};
use kafka_protocol::protocol::Decodable;

use crate::broker::{answer, broker, request};
use crate::support::batch::plain;
use crate::support::client::{fetch_request, produce_request, s};
use crate::support::{Client, Rec, Server};

/// An API key that Kafka does not use.
const UNKNOWN_API: i16 = 901;

/// A frame of that API, in an unknown format.
fn unknown(correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame.put_i32(i32::try_from(body.len() + 8).unwrap());
    frame.put_i16(UNKNOWN_API);
    frame.put_i16(7);
    frame.put_i32(correlation_id);
    frame.put_slice(body);
    frame.to_vec()
}

/// Answers every request with its own bytes, reversed.
fn echo(mut stream: TcpStream) {
    while let Some(request) = request(&mut stream) {
        let turned: Vec<u8> = request.frame[8..].iter().rev().copied().collect();
        answer(&mut stream, request.correlation_id, &turned);
    }
}

#[test]
fn an_unknown_api_passes_unchanged_and_in_order() {
    let server = Server::in_front_of(broker(echo), "");
    let mut client = server.client();
    let bodies: Vec<Vec<u8>> = (0..40_usize)
        .map(|n| (0..n * 97).map(|i| u8::try_from(i % 251).unwrap()).collect())
        .collect();
    // Pipelined: no request waits for the answer to the one before.
    for (id, body) in (0..).zip(&bodies) {
        client.raw(&unknown(id, body));
    }
    for (id, body) in (0_i32..).zip(&bodies) {
        let frame = client.frame().unwrap();
        assert_eq!(frame[..4], id.to_be_bytes());
        let turned: Vec<u8> = body.iter().rev().copied().collect();
        assert_eq!(frame[4..], turned);
    }
}

#[test]
fn a_frame_larger_than_any_buffer_streams_through_both_ways() {
    let server = Server::in_front_of(broker(echo), "");
    let mut client = server.client();
    let body: Vec<u8> = (0..30_000_000_usize).map(|i| u8::try_from(i % 253).unwrap()).collect();
    let sender = {
        let (mut writer, frame) = (client.writer(), unknown(2, &body));
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, &frame).unwrap())
    };
    let frame = client.frame().unwrap();
    sender.join().unwrap();
    assert_eq!(frame.len(), body.len() + 4);
    assert!(frame[4..].iter().eq(body.iter().rev()), "not a byte is another");
}

#[test]
fn a_produce_without_acks_does_not_shift_later_answers() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let leader = client.leader("orders");
    for n in 0..10 {
        let batch = plain(&[Rec::new(&format!("quiet {n}"))]);
        let _unanswered = leader.send(9, &produce_request("orders", 0, batch, 0));
    }
    let batch = plain(&[Rec::new("loud")]);
    let sent = leader.send(9, &produce_request("orders", 0, batch, -1));
    let told = leader.receive::<kafka_protocol::messages::ProduceRequest>(sent);
    assert_eq!(told.responses[0].partition_responses[0].base_offset, 10);
    assert_eq!(client.read_all("orders").len(), 11);
}

#[test]
fn relayed_and_local_answers_keep_their_order() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("x")]);
    let leader = client.leader("orders");
    // A long poll that waits, then a request that is answered here.
    let fetch = leader.send(12, &fetch_request("orders", 0, 0, 200));
    let versions = leader.send(3, &ApiVersionsRequest::default());
    leader.receive::<kafka_protocol::messages::FetchRequest>(fetch);
    let told: ApiVersionsResponse = leader.receive::<ApiVersionsRequest>(versions);
    assert_eq!(told.error_code, 0);
}

/// Sends half of an answer of 300 KB, and the rest after the barrier.
fn halves(told: std::sync::Arc<std::sync::Barrier>) -> impl Fn(TcpStream) + Clone + Send {
    move |mut stream| {
        let asked = request(&mut stream).unwrap();
        let body = vec![9; 300_000];
        let len = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        let frame = [&len[..], &asked.correlation_id.to_be_bytes(), &body].concat();
        std::io::Write::write_all(&mut stream, &frame[..150_000]).unwrap();
        told.wait();
        std::io::Write::write_all(&mut stream, &frame[150_000..]).unwrap();
        while let Some(asked) = request(&mut stream) {
            answer(&mut stream, asked.correlation_id, &[0, 0, 0, 0, 0, 0]);
        }
    }
}

#[test]
fn a_local_answer_waits_for_a_relayed_ones_rest() {
    let told = std::sync::Arc::new(std::sync::Barrier::new(2));
    let server = Server::in_front_of(broker(halves(told.clone())), "");
    let mut client = server.client();
    client.raw(&unknown(1, b"ask"));
    let versions = client.send(0, &ApiVersionsRequest::default());
    // Half of the answer has come through: the next request must not end the one before.
    let mut half = vec![0; 100_000];
    std::io::Read::read_exact(&mut client.writer(), &mut half).unwrap();
    told.wait();
    let mut rest = vec![0; 200_008];
    std::io::Read::read_exact(&mut client.writer(), &mut rest).unwrap();
    assert!(rest.iter().all(|byte| *byte == 9), "nothing is in between");
    assert_eq!(client.receive::<ApiVersionsRequest>(versions).error_code, 0);
}

/// Serves `ApiVersions` 0 only, like a broker older than its client.
fn old(mut stream: TcpStream) {
    while let Some(asked) = request(&mut stream) {
        let error = if asked.frame[3] == 0 { 0 } else { 35 };
        // one key: Metadata 0 to 99
        let body = [0, error, 0, 0, 0, 1, 0, 3, 0, 0, 0, 99];
        answer(&mut stream, asked.correlation_id, &body);
    }
}

#[test]
fn a_client_newer_than_its_broker_gets_the_supported_versions() {
    let server = Server::in_front_of(broker(old), "");
    for version in 1..=4_i16 {
        let mut client = server.client();
        let _answered = client.send(version, &ApiVersionsRequest::default());
        let told = client.frame().unwrap();
        assert_eq!(told[4..6], [0, 35], "v{version}: UNSUPPORTED_VERSION, in version 0");
        assert_eq!(told[6..16], [0, 0, 0, 1, 0, 3, 0, 0, 0, 13], "and what may be asked");
        let again = client.call(0, &ApiVersionsRequest::default());
        assert_eq!((again.error_code, again.api_keys.len()), (0, 1));
    }
}

/// Serves version 0 only, and says so in an answer of version 1.
fn muddled(mut stream: TcpStream) {
    while let Some(asked) = request(&mut stream) {
        let error = if asked.frame[3] == 0 { 0 } else { 35 };
        let throttled = if asked.frame[3] == 0 { &[][..] } else { &[0; 4] };
        answer(&mut stream, asked.correlation_id, &[&[0, error, 0, 0, 0, 0], throttled].concat());
    }
}

#[test]
fn a_wrongly_encoded_unsupported_version_answer_becomes_an_empty_list() {
    let server = Server::in_front_of(broker(muddled), "");
    let mut client = server.client();
    let _answered = client.send(4, &ApiVersionsRequest::default());
    assert_eq!(client.frame().unwrap()[4..], [0, 35, 0, 0, 0, 0]);
    assert_eq!(client.call(0, &ApiVersionsRequest::default()).error_code, 0);
}

/// A Kafka before 3.9 that wants a login. It accepts `ApiVersions` until one of them succeeds, then
/// `SaslHandshake` alone.
fn asks_for_a_login(mut stream: TcpStream) {
    let mut has_told = false;
    while let Some(asked) = request(&mut stream) {
        let body: &[u8] = match (asked.frame[1], asked.frame[3]) {
            (18, _) if has_told => return,
            // UNSUPPORTED_VERSION, and the supported versions of ApiVersions (KIP-511)
            (18, 4..) => &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3],
            // one key: Produce 0 to 9
            (18, version) => {
                has_told = true;
                let flexible = &[0, 0, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0];
                if version == 3 { flexible } else { &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 9] }
            }
            (17, _) => &[0, 0, 0, 0, 0, 1, 0, 5, b'P', b'L', b'A', b'I', b'N'],
            _ => return,
        };
        answer(&mut stream, asked.correlation_id, body);
    }
}

#[test]
fn the_sidecar_sends_no_own_api_versions_before_logins() {
    let server = Server::in_front_of(broker(asks_for_a_login), "");
    for newer in [4, 5] {
        let mut client = server.client();
        client.raw(&[0, 0, 0, 14, 0, 18, 0, newer, 0, 0, 0, 1, 255, 255, 0, 1, 1, 0]);
        let mut told = client.frame().unwrap();
        assert_eq!(told[..6], [0, 0, 0, 1, 0, 35], "v{newer}: UNSUPPORTED_VERSION, in version 0");
        told.advance(4);
        let told = ApiVersionsResponse::decode(&mut told, 0).unwrap();
        let keys: Vec<_> = told.api_keys.iter().map(|key| (key.api_key, key.max_version)).collect();
        let known = if newer == 4 { 3 } else { 4 };
        assert_eq!(keys, [(18, known)], "v{newer}: which version it may be asked in");
        let mut versions = ApiVersionsRequest::default();
        (versions.client_software_name, versions.client_software_version) = (s("t"), s("1"));
        let again = client.call(3, &versions);
        assert_eq!((again.error_code, again.api_keys[0].max_version), (0, 9), "v{newer}");
        let mut handshake = SaslHandshakeRequest::default();
        handshake.mechanism = s("PLAIN");
        assert_eq!(client.call(1, &handshake).error_code, 0, "v{newer}");
    }
}

#[test]
fn advertised_versions_are_the_brokers_capped_by_known_ones() {
    let server = Server::start();
    let told = server.client().call(3, &ApiVersionsRequest::default());
    let behind = Client::connect(server.cluster().addr()).call(3, &ApiVersionsRequest::default());
    let keys = |told: &ApiVersionsResponse| -> Vec<i16> {
        told.api_keys.iter().map(|key| key.api_key).collect()
    };
    assert_eq!(keys(&told), keys(&behind), "every API of the cluster is told");
    let max = |told: &ApiVersionsResponse, key: i16| {
        told.api_keys.iter().find(|known| known.api_key == key).unwrap().max_version
    };
    assert_eq!((max(&told, 0), max(&told, 1)), (13, 15), "no endpoints behind records (KIP-951)");
    assert_eq!((max(&behind, 0), max(&behind, 1)), (13, 18));
}

#[test]
fn an_unknown_api_versions_version_gets_the_known_versions() {
    let server = Server::start();
    let mut client = server.client();
    let mut frame = BytesMut::new();
    frame.put_i32(12);
    frame.put_i16(18);
    frame.put_i16(99);
    frame.put_i32(5);
    frame.put_i16(-1);
    frame.put_slice(&[0, 0]);
    client.raw(&frame);
    let told = client.frame().unwrap();
    let only = [0, 0, 0, 1, 0, 18, 0, 0, 0, 4];
    assert_eq!(told[..6], [0, 0, 0, 5, 0, 35], "correlation id, UNSUPPORTED_VERSION");
    assert_eq!(told[6..], only, "what is served else the broker says");
    let again = client.call(3, &ApiVersionsRequest::default());
    assert_eq!(again.error_code, 0, "the connection goes on");
}
