//! Retry topics that somebody made with settings of his own.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::Encodable;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::{header, pass};
use crate::support::batch::unpack;
use crate::support::client::s;
use crate::support::{Client, Member, Rec, Server, until};

const RETRY: &str = "reprise.retry.shop";
const YAML: &str = "retry: {levels: 20ms, partitions: 1}";
const INCREMENTAL_ALTER_CONFIGS: i16 = 44;
const TOPIC: i8 = 2;
/// Longer than from the records' time up to today, shorter than since 1970.
const YEARS: &str = "788923800000";

/// A cluster that may deny its topics' settings to everyone who comes through its program.
struct Cluster {
    server: Server,
    addr: SocketAddr,
    denies: Arc<AtomicBool>,
}

impl Cluster {
    /// A cluster with `orders` and a retry topic of these settings.
    fn with(settings: &[(&str, &str)], denies: bool) -> Self {
        let behind: Arc<OnceLock<SocketAddr>> = Arc::default();
        let denies = Arc::new(AtomicBool::new(denies));
        let addr = {
            let (behind, denies) = (Arc::clone(&behind), Arc::clone(&denies));
            broker(move |stream| serve(stream, *behind.wait(), &denies))
        };
        let server = Server::alone_as(addr);
        behind.set(server.addr()).unwrap();
        let mut client = server.client();
        client.create("orders", 1);
        let mut topic = CreatableTopic::default();
        (topic.name, topic.num_partitions, topic.replication_factor) = (s(RETRY), 1, 1);
        let config = |(name, value): &(&str, &str)| {
            let config = CreatableTopicConfig::default().with_name(s(name));
            config.with_value(Some(s(value)))
        };
        topic.configs = settings.iter().map(config).collect();
        let made = client.call(5, &CreateTopicsRequest::default().with_topics(vec![topic]));
        assert_eq!(made.topics[0].error_code, 0, "{:?}", made.topics[0].error_message);
        Self { server, addr, denies }
    }

    /// A setting of the retry topic.
    fn setting(&self, name: &str) -> String {
        let mut resource = DescribeConfigsResource::default();
        (resource.resource_type, resource.resource_name) = (TOPIC, s(RETRY));
        resource.configuration_keys = Some(vec![s(name)]);
        let asked = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let told = self.server.client().call(1, &asked);
        told.results[0].configs[0].value.clone().unwrap_or_default().to_string()
    }

    /// Changes a setting of the retry topic, as an operator does.
    fn set(&self, name: &str, value: &str) {
        let mut config = AlterableConfig::default();
        (config.name, config.value) = (s(name), Some(s(value)));
        let mut resource = AlterConfigsResource::default();
        (resource.resource_type, resource.resource_name) = (TOPIC, s(RETRY));
        resource.configs = vec![config];
        let asked = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        assert_eq!(self.server.client().call(0, &asked).responses[0].error_code, 0);
    }
}

fn serve(mut stream: TcpStream, behind: SocketAddr, denies: &AtomicBool) {
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let is_denied = header(&asked).0.request_api_key == INCREMENTAL_ALTER_CONFIGS
            && denies.load(Ordering::SeqCst);
        let told = if is_denied { Some(denial()) } else { pass(&asked, &mut behind) };
        let Some(told) = told else { return };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

fn denial() -> Vec<u8> {
    let mut one = AlterConfigsResourceResponse::default();
    one.error_code = ResponseError::TopicAuthorizationFailed.code();
    (one.resource_type, one.resource_name) = (TOPIC, s(RETRY));
    let told = IncrementalAlterConfigsResponse::default().with_responses(vec![one]);
    let mut out = BytesMut::new();
    told.encode(&mut out, 0).unwrap();
    out.to_vec()
}

/// A member of `shop` that reads `orders` and the retry topic.
fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", RETRY]);
    member.join(&[("orders", 1), (RETRY, 1)]);
    member
}

/// Nacks each record of `orders`, and waits until so many are in the retry topic.
fn nack_all(server: &Server, client: &mut Client, records: &[Rec]) {
    client.put("orders", 0, records);
    for (offset, record) in records.iter().enumerate() {
        let nacked = client.nack("shop", &format!("orders-0@{offset}"), record.clone());
        assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
    }
    server.pass(20);
}

/// The values in the retry topic, cut.
fn read(client: &mut Client) -> Vec<String> {
    let data = client.leader("orders").fetch(RETRY, 0, 0, 0);
    let records = unpack(&data.records.unwrap_or_default());
    records.iter().map(|record| record.text().chars().take(9).collect()).collect()
}

fn until_read(server: &Server, client: &mut Client, values: &[&str]) {
    until("the retries", || {
        server.pass(20);
        read(client).len() >= values.len()
    });
    assert_eq!(read(client), values);
}

fn reasons(server: &Server) -> Vec<String> {
    let listed = server.json("/api/v1/retries?group=shop");
    let items = listed["items"].as_array().unwrap().iter();
    let blocked = items.filter(|item| item["state"] == "blocked");
    blocked.map(|item| item["refusal"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn harmful_settings_are_mended_where_the_sidecar_may() {
    let settings =
        [("retention.ms", "60000"), ("retention.bytes", "1024"), ("max.message.bytes", "1024")];
    let cluster = Cluster::with(&settings, false);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    let large = "large".repeat(1_000);
    nack_all(&server, &mut client, &[Rec::new("old").at(1_000), Rec::new(&large)]);
    until_read(&server, &mut client, &["old", "largelarg"]);
    let now = ["retention.ms", "retention.bytes", "max.message.bytes"];
    assert_eq!(now.map(|name| cluster.setting(name)), ["-1", "-1", "67108864"]);
}

#[test]
fn retries_that_their_topic_would_delete_are_blocked() {
    let cluster = Cluster::with(&[("retention.ms", YEARS)], true);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    nack_all(&server, &mut client, &[Rec::new("old").at(1_000), Rec::new("young")]);
    until_read(&server, &mut client, &["young"]);
    until("the old one is blocked", || reasons(&server).len() == 1);
    let action = format!("kafka-configs --alter --topic {RETRY} --add-config retention.ms=-1");
    assert!(reasons(&server)[0].contains(&action), "{:?}", reasons(&server));
    assert_eq!(cluster.setting("retention.ms"), YEARS);

    cluster.set("retention.ms", "-1");
    server.pass(30_000);
    until_read(&server, &mut client, &["young", "old"]);
    assert_eq!(reasons(&server), Vec::<String>::new());
}

#[test]
fn a_right_given_later_mends_the_settings() {
    let cluster = Cluster::with(&[("retention.bytes", "1024")], true);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    nack_all(&server, &mut client, &[Rec::new("a")]);
    until("it is blocked", || reasons(&server).len() == 1);
    assert!(reasons(&server)[0].contains("retention.bytes=-1"), "{:?}", reasons(&server));
    cluster.denies.store(false, Ordering::SeqCst);
    server.pass(30_000);
    until_read(&server, &mut client, &["a"]);
    assert_eq!(cluster.setting("retention.bytes"), "-1");
}

#[test]
fn a_retry_above_its_topics_limit_is_blocked_alone() {
    let cluster = Cluster::with(&[("max.message.bytes", "1024")], true);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    let large = "large".repeat(1_000);
    nack_all(&server, &mut client, &[Rec::new(&large), Rec::new("small")]);
    until_read(&server, &mut client, &["small"]);
    until("the large one is blocked", || reasons(&server).len() == 1);
    assert!(reasons(&server)[0].contains("raise max.message.bytes"), "{:?}", reasons(&server));
}
