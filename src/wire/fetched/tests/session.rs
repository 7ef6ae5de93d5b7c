//! Tests of the removal of fetch sessions from requests.

use bytes::BytesMut;
use kafka_protocol::messages::fetch_request as q;
use kafka_protocol::messages::{FetchRequest, TopicName};

use super::{VERSIONS, text};
use crate::wire::{Api, RequestHead, decode, encode_request, sessionless, split};

fn request(version: i16) -> FetchRequest {
    let mut partition = q::FetchPartition::default();
    (partition.partition, partition.fetch_offset) = (3, 812);
    let mut topic = q::FetchTopic::default();
    if version < 13 {
        topic.topic = TopicName(text("orders"));
    }
    topic.partitions = vec![partition];
    let mut request = FetchRequest::default();
    (request.max_wait_ms, request.min_bytes, request.max_bytes) = (500, 1, 0x7fff_ffff);
    request.isolation_level = 1;
    request.topics = vec![topic];
    if version < 15 {
        request.replica_id = (-1).into();
    }
    if version >= 12 {
        request.cluster_id = Some(text("cluster"));
    }
    request
}

/// The request as a frame without its length prefix.
fn frame(version: i16, client: Option<&str>, request: &FetchRequest) -> Vec<u8> {
    let bytes = encode_request(Api::Fetch, version, 9, client, request).unwrap();
    split(&mut BytesMut::from(&bytes[..]), 1 << 20).unwrap().unwrap().to_vec()
}

#[test]
fn only_the_session_changes_in_every_version_that_has_one() {
    for version in VERSIONS.filter(|version| *version >= 7) {
        for client in [None, Some(""), Some("consumer-shop-1")] {
            for (id, epoch) in [(0, 0), (0, -1), (0x0506_0708, 4), (i32::MIN, i32::MAX)] {
                let mut request = request(version);
                (request.session_id, request.session_epoch) = (id, epoch);
                let mut bytes = frame(version, client, &request);
                let asked = sessionless(&mut bytes, version);
                assert_eq!(asked, Some((id, epoch)), "v{version} {client:?}");
                (request.session_id, request.session_epoch) = (0, -1);
                let head = RequestHead::parse(&bytes.clone().into()).unwrap();
                assert_eq!(decode::<FetchRequest>(&head).unwrap(), request, "v{version}");
                assert_eq!(bytes, frame(version, client, &request), "v{version}");
                assert_eq!(sessionless(&mut bytes, version), Some((0, -1)), "once more");
            }
        }
    }
}

#[test]
fn tagged_fields_and_client_ids_are_stepped_over() {
    for version in VERSIONS.filter(|version| *version >= 12) {
        let mut request = request(version);
        (request.session_id, request.session_epoch) = (77, 5);
        let plain = frame(version, Some("ab"), &request);
        let mut bytes = plain[..12].to_vec();
        bytes[10..12].copy_from_slice(&[0xff, 0xfe]);
        bytes.extend_from_slice(&[2, 0, 3, 1, 2, 3, 1, 0]);
        bytes.extend_from_slice(&plain[13..]);
        assert_eq!(sessionless(&mut bytes, version), Some((77, 5)), "v{version}");
        assert_eq!(sessionless(&mut bytes, version), Some((0, -1)), "v{version}");
    }
}

#[test]
fn requests_without_a_readable_session_are_left_unchanged() {
    for version in VERSIONS {
        let whole = frame(version, Some("app"), &request(version));
        let unchanged = |bytes: &[u8], version| {
            let mut after = bytes.to_vec();
            assert_eq!(sessionless(&mut after, version), None, "v{version}");
            assert_eq!(after, bytes, "v{version}");
        };
        if version < 7 {
            unchanged(&whole, version);
            continue;
        }
        unchanged(&whole, version - 1);
        let mut other = whole.clone();
        other[1] = 2; // ListOffsets
        unchanged(&other, version);
        // Header, replica id (before 15), waits and bytes, isolation level, session.
        let header = if version < 12 { 13 } else { 14 };
        let end = header + if version < 15 { 4 } else { 0 } + 13 + 8;
        for len in 0..end {
            unchanged(&whole[..len], version);
        }
        assert!(sessionless(&mut whole[..end].to_vec(), version).is_some());
    }
    let mut later = frame(18, None, &request(18));
    later[3] = 19;
    assert_eq!(sessionless(&mut later, 19), None);
}
