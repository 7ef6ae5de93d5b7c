//! Invalid request bytes over TCP. The connection is closed or gets the right error code, little is
//! allocated, one log line says why, and a counter rises. A good client goes on.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Request};
use reprise::wire::Api;
use stats_alloc::Region;

use crate::support::{Client, Rec, Server, instant};
use crate::{ALLOCATED_BYTES_MAX, ALLOCATOR, alone};

/// The log of this process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn capture() -> Self {
        let lines = Self::default();
        let writer = lines.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .init();
        lines
    }

    /// Warnings since the last call.
    fn warnings(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("panicked"), "{text}");
        text.lines().filter(|line| !line.contains(" INFO ")).map(str::to_owned).collect()
    }
}

/// A server, its log, and a client that must be served throughout.
struct House {
    server: Server,
    lines: Lines,
    good: Client,
    produced: i64,
}

impl House {
    /// Sends `bytes` on a new connection. The sidecar closes it, allocates little, and logs one
    /// line that contains `says`.
    fn refused(&mut self, what: &str, bytes: &[u8], says: &str) {
        let before = self.server.disconnects("protocol");
        let mut bad = self.server.client();
        self.lines.warnings();
        let region = Region::new(ALLOCATOR);
        bad.raw_lossy(bytes);
        assert_eq!(bad.frame(), None, "{what}: must be closed");
        let change = region.change();
        let grown = usize::try_from(change.bytes_reallocated.max(0)).unwrap();
        let allocated = change.bytes_allocated + grown;
        assert!(allocated <= ALLOCATED_BYTES_MAX, "{what}: {allocated} bytes allocated");
        self.server.until_disconnects("protocol", before + 1.0);
        let warnings = self.lines.warnings();
        assert_eq!(warnings.len(), 1, "{what}: {warnings:#?}");
        assert!(
            warnings[0].contains(" WARN ") && warnings[0].contains(says),
            "{what}: {warnings:?}"
        );
        assert!(warnings[0].len() < 400, "{what}: a long line: {}", warnings[0]);
        self.goes_on(what);
    }

    fn goes_on(&mut self, what: &str) {
        let offset = self.good.put("t", 0, &[Rec::new("still here")]);
        assert_eq!(offset, self.produced, "{what}");
        self.produced += 1;
    }
}

/// One test for all cases: the allocator's count and the log belong to the whole process.
#[test]
fn hostile_bytes_cost_a_connection_and_nothing_else() {
    let _alone = alone();
    let lines = Lines::capture();
    let server = Server::with("limits: {handshake: 300ms}");
    let mut good = server.client();
    good.create("t", 1);
    let mut house = House { server, lines, good, produced: 0 };
    lengths_that_cannot_be(&mut house);
    other_protocols_are_named(&mut house);
    unknown_keys_and_versions(&mut house);
    counts_of_2_to_the_31_in_every_api(&mut house);
    cut_messages_in_every_api(&mut house);
    a_slow_frame_is_closed_after_the_handshake_time(&mut house);
    the_first_frame_has_a_bound_of_its_own(&mut house);
    a_frame_that_never_comes_costs_no_memory(&mut house);
    a_client_that_just_goes_away_is_no_warning(&mut house);
    let text = house.server.get("/metrics");
    assert!(text.contains("reprise_request_errors_total{api="), "answers that failed are counted");
}

fn lengths_that_cannot_be(house: &mut House) {
    house.refused("negative", &[0xff; 4], "negative");
    house.refused("the least", &[0x80, 0, 0, 0], "negative");
    house.refused("zero", &[0; 4], "length is 0");
    house.refused("2 GiB", &[0x7f, 0xff, 0xff, 0xff, 0, 3], "over the limit");
    house.refused("1 byte over", &[0, 8, 0, 1], "over the limit of 524288");
    for len in 1..8_u8 {
        let mut bytes = vec![0, 0, 0, len];
        bytes.extend(std::iter::repeat_n(0, usize::from(len)));
        house.refused("shorter than a header", &bytes, "too short");
    }
    // key 3, version 8, correlation id 1, a client id of 30 000 bytes that does not follow
    let cut = [0, 0, 0, 10, 0, 3, 0, 8, 0, 0, 0, 1, 0x75, 0x30];
    house.refused("a lying client id", &cut, "header is broken");
}

fn other_protocols_are_named(house: &mut House) {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    house.refused("TLS", &hello, "TLS");
    house.refused("HTTP", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP");
    house.refused("HTTP POST", b"POST / HTTP/1.1\r\n\r\n", "HTTP");
    house.refused("SSH", b"SSH-2.0-OpenSSH_9.6\r\n", "over the limit");
}

fn unknown_keys_and_versions(house: &mut House) {
    for key in [-1_i16, 27, 88, 9999] {
        let [high, low] = key.to_be_bytes();
        let bytes = [0, 0, 0, 10, high, low, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        house.refused("an unknown key", &bytes, &format!("API key {key} version 0"));
    }
    for api in Api::ALL.iter().filter(|api| **api != Api::ApiVersions) {
        for version in [api.advertised().1 + 1, -1] {
            let mut bytes = BytesMut::new();
            bytes.put_i32(10);
            bytes.put_i16(api.key());
            bytes.put_i16(version);
            bytes.put_i32(1);
            bytes.put_i16(-1);
            house.refused(api.name(), &bytes, &format!("{} version {version}", api.name()));
        }
    }
    house.refused("Produce 2", &[0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff], "Produce");
}

/// A frame with this request header, version and body, length first.
fn frame<R: Request>(version: i16, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(5)
        .encode(&mut out, R::header_version(version))
        .unwrap();
    out.put_slice(body);
    let len = i32::try_from(out.len() - 4).unwrap();
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

/// Bodies that are valid up to the first array, whose count is a lie.
fn counts_of_2_to_the_31_in_every_api(house: &mut House) {
    let lie = [0x7f, 0xff, 0xff, 0xff];
    let of = |before: &[u8]| [before, &lie].concat();
    let string = [0, 1, b'g'];
    let mut with_group = string.to_vec();
    with_group.extend([0, 0, 0, 1, 0, 1, b'm']);
    let frames = [
        ("Metadata", frame::<MetadataRequest>(1, &of(&[]))),
        ("Produce", frame::<ProduceRequest>(3, &of(&[0xff, 0xff, 0, 1, 0, 0, 0, 0]))),
        ("Fetch", frame::<FetchRequest>(4, &of(&[0; 17]))),
        ("ListOffsets", frame::<ListOffsetsRequest>(1, &of(&[0; 4]))),
        ("OffsetFetch", frame::<OffsetFetchRequest>(1, &of(&string))),
        (
            "OffsetCommit",
            frame::<OffsetCommitRequest>(2, &of(&[&with_group[..], &[0; 8]].concat())),
        ),
        ("SyncGroup", frame::<SyncGroupRequest>(0, &of(&with_group))),
        ("DescribeGroups", frame::<DescribeGroupsRequest>(0, &of(&[]))),
        ("CreateTopics", frame::<CreateTopicsRequest>(2, &of(&[]))),
        ("DeleteTopics", frame::<DeleteTopicsRequest>(1, &of(&[]))),
        ("DescribeConfigs", frame::<DescribeConfigsRequest>(1, &of(&[]))),
        ("OffsetForLeaderEpoch", frame::<OffsetForLeaderEpochRequest>(2, &of(&[]))),
        // compact counts: 2^31 − 1 as a varint, plus one
        ("Metadata 9", frame::<MetadataRequest>(9, &[0xff, 0xff, 0xff, 0xff, 0x07])),
        ("ListGroups 4", frame::<ListGroupsRequest>(4, &[0xff, 0xff, 0xff, 0xff, 0x07])),
        ("FindCoordinator 4", frame::<FindCoordinatorRequest>(4, &[0, 0xff, 0xff, 0xff, 0xff, 7])),
    ];
    for (what, bytes) in frames {
        house.refused(what, &bytes, "request body is broken");
    }
}

fn cut_messages_in_every_api(house: &mut House) {
    // ApiVersions is answered whatever follows its header
    for api in Api::ALL.iter().filter(|api| **api != Api::ApiVersions) {
        let (_, max) = api.served();
        // a header without a body, which every API needs
        let mut bytes = BytesMut::new();
        bytes.put_i32(0);
        bytes.put_i16(api.key());
        bytes.put_i16(max);
        bytes.put_i32(1);
        bytes.put_i16(-1);
        if api.is_flexible(max) {
            bytes.put_u8(0);
        }
        let len = i32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        house.refused(api.name(), &bytes, "request body is broken");
    }
}

fn a_slow_frame_is_closed_after_the_handshake_time(house: &mut House) {
    let before = house.server.disconnects("slow");
    for first in [&[0][..], &[0, 0, 0, 10], &[0, 0, 0, 10, 0, 3, 0, 8]] {
        let mut slow = house.server.client();
        let began = instant();
        slow.raw(first);
        assert_eq!(slow.frame(), None);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(290), "after {took:?}");
        assert!(took < Duration::from_secs(10), "after {took:?}");
    }
    house.server.until_disconnects("slow", before + 3.0);
    house.goes_on("after slow ones");
}

/// The first request of a connection must be small. After a valid request, a client may send a
/// large one.
fn the_first_frame_has_a_bound_of_its_own(house: &mut House) {
    let mut large = frame::<MetadataRequest>(1, &[0, 0, 0, 0]);
    large.resize(600 << 10, 0);
    let len = i32::try_from(large.len() - 4).unwrap();
    large[..4].copy_from_slice(&len.to_be_bytes());
    house.refused("a large first frame", &large[..64], "limits.preauth_frame_bytes");
    let mut client = house.server.client();
    client.metadata(9, &[]);
    client.raw(&large);
    assert!(client.frame().is_some(), "the same bytes, second");
    house.goes_on("after large frames");
}

/// 100 MiB announced and a few bytes sent, on many connections at once.
fn a_frame_that_never_comes_costs_no_memory(house: &mut House) {
    let region = Region::new(ALLOCATOR);
    let mut announced: Vec<Client> = (0..8).map(|_| house.server.client()).collect();
    for client in &mut announced {
        client.metadata(9, &[]);
        client.raw(&[0x06, 0x40, 0, 0, 0, 3]);
    }
    for client in &mut announced {
        assert_eq!(client.frame(), None);
    }
    let change = region.change();
    let grown = usize::try_from(change.bytes_reallocated.max(0)).unwrap();
    let allocated = change.bytes_allocated + grown;
    assert!(allocated <= 8 * ALLOCATED_BYTES_MAX, "{allocated} bytes for eight announcements");
    house.goes_on("after announcements");
}

fn a_client_that_just_goes_away_is_no_warning(house: &mut House) {
    let before = house.server.disconnects("client");
    house.lines.warnings();
    drop(house.server.client());
    let mut half = house.server.client();
    half.raw(&[0, 0]);
    drop(half);
    house.server.until_disconnects("client", before + 2.0);
    assert_eq!(house.lines.warnings(), Vec::<String>::new());
    house.goes_on("after those that left");
}
