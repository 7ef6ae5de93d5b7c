//! Tests that the cluster's authorization covers retries, and that a throttled client hears for how
//! long. Requests are sent byte by byte, because clients would hide the answers.

use std::sync::Arc;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, MetadataRequest, OffsetFetchRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};
use reprise::wire::ResponseError;
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::judge::PATIENCE;
use crate::rig::cluster::{asked, back_door, bootstrap, dir};
use crate::rig::program::Program;
use crate::rig::stage::Stage;
use crate::rig::wait::until;
use crate::support::batch::plain;
use crate::support::client::{fetch_request, produce_request, s};
use crate::support::{Client, Member, Rec, Trust};

/// A user without rights of his own, whom `tests/support/real-kafka` creates.
const GUEST: &[u8] = b"\0guest\0guest-secret";
const HOST: &str = "127.0.0.1";
/// Client id with low quotas.
const SLOW: &str = "slow";

/// A client that is logged in as the guest.
fn guest(addr: &str) -> Client {
    let mut client = Client::secure(addr.parse().unwrap(), HOST, &trust()).unwrap();
    log_in(&mut client);
    client
}

fn trust() -> Trust {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(format!("{}/ca.pem", dir())).unwrap();
    roots.add(ca).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

fn log_in(client: &mut Client) {
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = s("PLAIN");
    assert_eq!(client.call(1, &handshake).error_code, 0);
    let password = SaslAuthenticateRequest::default().with_auth_bytes(GUEST.into());
    assert_eq!(client.call(1, &password).error_code, 0);
}

/// Connects to one of the brokers as the guest.
fn at_broker(client: &mut Client, node: i32) -> Client {
    let mut broker = broker(client, node);
    log_in(&mut broker);
    broker
}

fn broker(client: &mut Client, node: i32) -> Client {
    let told = client.call(9, &MetadataRequest::default());
    let broker = told.brokers.iter().find(|broker| broker.node_id == node);
    client.connect_to(broker.expect("a broker of the cluster"))
}

/// Leader of the topic's first partition, as the cluster itself reports it.
fn leader(topic: &str) -> i32 {
    let topic = MetadataRequestTopic::default().with_name(Some(s(topic)));
    let told = within().call(9, &MetadataRequest::default().with_topics(Some(vec![topic])));
    told.topics[0].partitions[0].leader_id.0
}

/// Coordinator of the group, as the cluster itself reports it; waits until there is one.
fn coordinator(group: &str) -> i32 {
    let find = FindCoordinatorRequest::default().with_key(s(group));
    let mut node = None;
    until(PATIENCE, "the group has a coordinator", || {
        let told = within().call(3, &find);
        node = (told.error_code == 0).then_some(told.node_id.0);
        node.is_some()
    });
    node.unwrap()
}

/// A client with all rights, connected to the cluster itself.
fn within() -> Client {
    Client::connect(back_door().parse().unwrap())
}

/// Allows the guest every operation on this topic and group.
fn allow(topic: &str, group: &str) {
    let to = ["--add", "--force", "--allow-principal", "User:guest", "--operation", "All"];
    asked("AclCommand", &[&to[..], &["--topic", topic, "--group", group]].concat());
}

/// A stage on which `guest` may do everything with the topic, and with one group of two.
fn stage(name: &str) -> Stage {
    let stage = Stage::by_default_rules(Program::JAVA, name);
    allow(&stage.scene.topic, &stage.scene.other_group("open"));
    stage
}

/// Committed offset of the topic's first partition, as the cluster itself reports it.
fn committed(group: &str, topic: &str) -> i64 {
    let mut client = broker(&mut within(), coordinator(group));
    let mut asked = OffsetFetchRequestTopic::default();
    (asked.name, asked.partition_indexes) = (s(topic), vec![0]);
    let asked =
        OffsetFetchRequest::default().with_group_id(s(group)).with_topics(Some(vec![asked]));
    let mut offset = None;
    until(PATIENCE, "the coordinator knows the group's offsets", || {
        let told = client.call(7, &asked);
        offset = (told.error_code == 0).then(|| told.topics[0].partitions[0].committed_offset);
        offset.is_some()
    });
    offset.unwrap()
}

fn waiting(stage: &Stage) -> Value {
    stage.sidecar.json("/api/v1/overview")["pending"].clone()
}

/// Commits past the first record without a membership; `metadata` may nack the record.
fn commit(client: &mut Client, (topic, group): (&str, &str), metadata: &str) -> i16 {
    let nobody = Client::secure(client.stream.tcp().peer_addr().unwrap(), HOST, &trust()).unwrap();
    let request = Member::on(nobody, group, &[]).commit_request(topic, 0, 1, metadata);
    client.call(8, &request).topics[0].partitions[0].error_code
}

#[test]
fn a_nack_without_read_access_to_the_group_is_refused() {
    let stage = stage("rights");
    let topic = stage.scene.topic.as_str();
    let (shut, open) = (stage.scene.group.as_str(), stage.scene.other_group("open"));
    let addr = stage.sidecar.address();
    let direct = bootstrap().expect("in front of a cluster");
    let direct = direct.split(',').next().expect("a broker of it");
    let put = produce_request(topic, 0, plain(&[Rec::new("x")]), -1);
    let put = at_broker(&mut guest(&addr), leader(topic)).call(9, &put);
    assert_eq!(put.responses[0].partition_responses[0].error_code, 0);
    let origin = format!("{topic}-0@0");

    let refused = guest(&addr).nack(shut, &origin, Rec::new("x"));
    let says = refused.error_message.unwrap_or_default();
    assert_eq!(refused.error_code, ResponseError::TopicAuthorizationFailed.code(), "{says}");
    assert!(says.contains("READ"), "{says}");
    let retries = guest(&addr).fetch(&format!("reprise.retry.{shut}"), 0, 0, 0).error_code;
    assert_eq!(retries, ResponseError::TopicAuthorizationFailed.code());
    assert_eq!(committed(shut, topic), -1);
    // The cluster's own answer to such a commit.
    let denied = commit(&mut at_broker(&mut guest(direct), coordinator(shut)), (topic, shut), "");
    assert_eq!(denied, ResponseError::GroupAuthorizationFailed.code());
    for metadata in ["", "!retry:0"] {
        let mut guest = at_broker(&mut guest(&addr), coordinator(shut));
        let told = commit(&mut guest, (topic, shut), metadata);
        assert_eq!(told, denied, "{metadata:?}");
    }
    assert_eq!(committed(shut, topic), -1);
    assert_eq!(waiting(&stage), 0, "nothing was taken");

    assert_eq!(guest(&addr).nack(&open, &origin, Rec::new("x")).error_code, 0);
    assert_eq!(waiting(&stage), 1);
    assert_eq!(committed(&open, topic), -1);
    let mut guest = at_broker(&mut guest(&addr), coordinator(&open));
    let said = commit(&mut guest, (topic, &open), "!retry:0");
    assert_eq!((said, waiting(&stage)), (0, Value::from(1)), "it is the same record");
    assert_eq!(committed(&open, topic), 1);
}

#[test]
fn a_throttled_client_gets_its_throttle_time() {
    let stage = stage("quotas");
    let (topic, addr) = (stage.scene.topic.as_str(), stage.sidecar.address());
    let quotas = "producer_byte_rate=1000,consumer_byte_rate=1000,request_percentage=0.001";
    let who = ["--entity-type", "clients", "--entity-name", SLOW];
    asked("kafka.admin.ConfigCommand", &[&["--alter", "--add-config", quotas], &who[..]].concat());
    let slow = || {
        let mut client = guest(&addr);
        SLOW.clone_into(&mut client.id);
        client
    };
    let records = plain(&[Rec::new(&"x".repeat(100_000))]);
    let put = produce_request(topic, 0, records, -1);
    let node = leader(topic);
    // Each call has a connection of its own, because a broker stops reading from a throttled one.
    let throttled = |told: &dyn Fn() -> i32| (0..20).map(|_| told()).find(|ms| *ms > 0);
    let produced = || at_broker(&mut slow(), node).call(9, &put).throttle_time_ms;
    assert!(throttled(&produced).is_some(), "its bytes pass");
    let fetched =
        || at_broker(&mut slow(), node).call(12, &fetch_request(topic, 0, 0, 0)).throttle_time_ms;
    assert!(throttled(&fetched).is_some());
    let described = || slow().call(9, &MetadataRequest::default()).throttle_time_ms;
    assert!(throttled(&described).is_some(), "read and written anew here");
    let beat = || slow().call(4, &HeartbeatRequest::default()).throttle_time_ms;
    assert!(throttled(&beat).is_some());
    let others = guest(&addr).call(9, &MetadataRequest::default()).throttle_time_ms;
    assert_eq!(others, 0, "nobody else is");
}
