//! Requests about the node, coordinators and logins.

use bytes::Bytes;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, DescribeClusterRequest, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest, FindCoordinatorRequest, MetadataRequest, ResponseHeader,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};

use kafka_protocol::protocol::{Decodable, HeaderVersion};

use super::{Ask, ask, frame};
use crate::golden::house::{Drawn, ListenerKind, ORDERS, PRODUCER, RETRY};
use crate::support::client::s;

/// `SaslHandshake` version from which tokens are in `SaslAuthenticate` requests (KIP-152).
const HANDSHAKE: i16 = 1;
/// `DescribeLogDirs` version from which the answer has the disk's bytes (KIP-827).
const LOG_DIRS_WITH_ROOM: i16 = 4;

pub(crate) fn all() -> Vec<Ask> {
    let mut all = node_requests();
    all.extend(login_requests());
    all
}

fn node_requests() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut ApiVersionsRequest| {
            if version >= 3 {
                (r.client_software_name, r.client_software_version) = (s("golden"), s("1"));
            }
        }),
        ask(|version, r: &mut MetadataRequest| {
            let of = |name| MetadataRequestTopic::default().with_name(Some(s(name)));
            r.topics = Some(vec![of(ORDERS.0), of(RETRY.0), of("nowhere"), of("no name")]);
            r.include_topic_authorized_operations = version >= 8;
            r.include_cluster_authorized_operations = (8..=10).contains(&version);
        }),
        ask(|_, r: &mut DescribeTopicPartitionsRequest| {
            let of = |name| TopicRequest::default().with_name(s(name));
            r.topics = vec![of(ORDERS.0), of(RETRY.0), of("nowhere")];
            r.response_partition_limit = 100;
        }),
        ask(|_, r: &mut DescribeClusterRequest| r.include_cluster_authorized_operations = true),
        Ask {
            of_the_moment: Some(room),
            ..ask(|_, r: &mut DescribeLogDirsRequest| r.topics = None)
        },
        ask(|version, r: &mut FindCoordinatorRequest| {
            // Coordinators of transactional ids, in versions that have a key type.
            r.key_type = i8::from(version >= 1);
            if version >= 4 {
                r.coordinator_keys = vec![s(PRODUCER), s("another")];
            } else {
                r.key = s(PRODUCER);
            }
        }),
    ]
}

/// Usable bytes of the disk. Writes behind the answers are still under way, so the value varies.
fn room(version: i16, answer: &Bytes) -> Option<Drawn> {
    let mut rest = answer.clone();
    ResponseHeader::decode(&mut rest, DescribeLogDirsResponse::header_version(version)).unwrap();
    let told = DescribeLogDirsResponse::decode(&mut rest, version).unwrap().results[0].usable_bytes;
    (version >= LOG_DIRS_WITH_ROOM).then(|| {
        assert!(told > 1 << 32, "{told} bytes of a disk in memory");
        let value = told.to_be_bytes().to_vec();
        Drawn { what: "results.usable_bytes", written: vec![0xee; value.len()], value }
    })
}

fn login_requests() -> Vec<Ask> {
    let handshake = ask(|_, r: &mut SaslHandshakeRequest| r.mechanism = s("PLAIN"));
    let token = Bytes::from_static(b"\0alice\0pencil");
    let login = ask(move |_, r: &mut SaslAuthenticateRequest| r.auth_bytes = token.clone());
    let chosen = frame(HANDSHAKE, &SaslHandshakeRequest::default().with_mechanism(s("PLAIN")));
    vec![
        Ask { place: ListenerKind::Guarded, ..handshake },
        Ask { place: ListenerKind::Guarded, before: Some(chosen), ..login },
    ]
}
