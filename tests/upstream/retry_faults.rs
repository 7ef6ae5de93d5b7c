//! Retry topics in a cluster that denies rights, loses a leader, or lets others write and reset.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::BytesMut;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    MetadataRequest, ProduceRequest, ProduceResponse,
};
use kafka_protocol::protocol::{Encodable, Request as Api};
use reprise::wire::ResponseError;
use reprise::wire::partitioner::partition_of;

use crate::broker::{answer, broker, request};
use crate::relay::{changed, header, pass};
use crate::support::batch::{plain, unpack};
use crate::support::client::{produce_request, s};
use crate::support::{Client, Member, Rec, Server, until};

const RETRY: &str = "reprise.retry.shop";
const YAML: &str = "retry: {levels: 20ms, partitions: 1}";
const TOPIC: i8 = 2;
/// Longer than from the records' time up to today, shorter than since 1970.
const YEARS: &str = "788923800000";

/// A cluster, reached through a program.
struct Cluster {
    server: Server,
    addr: SocketAddr,
    faults: Arc<Mutex<Faults>>,
}

/// Faults that the sidecar meets in the cluster.
#[derive(Default)]
struct Faults {
    /// An API that the cluster denies the sidecar.
    denied: Option<i16>,
    denials: usize,
    /// A setting that the cluster lets nobody change.
    fixed: Option<&'static str>,
    /// A partition of the retry topic that has no leader.
    unled: Option<i32>,
}

impl Cluster {
    /// A cluster with `orders`.
    fn start(denied: Option<i16>) -> Self {
        let behind: Arc<OnceLock<SocketAddr>> = Arc::default();
        let faults = Arc::new(Mutex::new(Faults { denied, ..Faults::default() }));
        let addr = {
            let (behind, faults) = (Arc::clone(&behind), Arc::clone(&faults));
            broker(move |stream| serve(stream, *behind.wait(), &faults))
        };
        let server = Server::alone_as(addr);
        behind.set(server.addr()).unwrap();
        server.client().create("orders", 1);
        Self { server, addr, faults }
    }

    /// A cluster with a retry topic of these settings, which may keep the sidecar from changing
    /// them.
    fn with(settings: &[(&str, &str)], denies: bool) -> Self {
        let cluster = Self::start(denies.then_some(IncrementalAlterConfigsRequest::KEY));
        cluster.make(1, settings);
        cluster
    }

    fn make(&self, partitions: i32, settings: &[(&str, &str)]) {
        let mut topic = CreatableTopic::default();
        (topic.name, topic.num_partitions, topic.replication_factor) = (s(RETRY), partitions, 1);
        let config = |(name, value): &(&str, &str)| {
            let config = CreatableTopicConfig::default().with_name(s(name));
            config.with_value(Some(s(value)))
        };
        topic.configs = settings.iter().map(config).collect();
        let asked = CreateTopicsRequest::default().with_topics(vec![topic]);
        let made = self.server.client().call(5, &asked);
        assert_eq!(made.topics[0].error_code, 0, "{:?}", made.topics[0].error_message);
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap()
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

fn serve(mut stream: TcpStream, behind: SocketAddr, faults: &Mutex<Faults>) {
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let head = header(&asked).0;
        let is_own = head.client_id.is_some_and(|id| id.starts_with("reprise"));
        let key = head.request_api_key;
        let (denied, unled, fixed) = {
            let faults = faults.lock().unwrap();
            (faults.denied, faults.unled, faults.fixed)
        };
        let is_of =
            |name: &str| asked.frame.windows(name.len()).any(|part| part == name.as_bytes());
        let is_fixed = key == IncrementalAlterConfigsRequest::KEY && fixed.is_some_and(is_of);
        let told = if is_own && (denied == Some(key) || is_fixed) {
            faults.lock().unwrap().denials += 1;
            Some(denial(key))
        } else {
            pass(&asked, &mut behind).map(|told| match unled {
                Some(unled) if is_own && key == MetadataRequest::KEY => {
                    changed::<MetadataRequest>(&asked, &told, |all| {
                        for topic in all.topics.iter_mut().filter(|one| one.name == Some(s(RETRY)))
                        {
                            let mut parts = topic.partitions.iter_mut();
                            let lost = parts.find(|one| one.partition_index == unled).unwrap();
                            lost.leader_id = (-1).into();
                            lost.error_code = ResponseError::LeaderNotAvailable.code();
                        }
                    })
                }
                _ => told,
            })
        };
        let Some(told) = told else { return };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

/// The answer to a request of the sidecar for the retry topic, in the version that it sends.
fn denial(key: i16) -> Vec<u8> {
    let code = ResponseError::TopicAuthorizationFailed.code();
    let mut out = BytesMut::new();
    match key {
        IncrementalAlterConfigsRequest::KEY => {
            let mut one = AlterConfigsResourceResponse::default();
            (one.error_code, one.resource_type, one.resource_name) = (code, TOPIC, s(RETRY));
            let told = IncrementalAlterConfigsResponse::default().with_responses(vec![one]);
            told.encode(&mut out, 0).unwrap();
        }
        CreateTopicsRequest::KEY => {
            let one = CreatableTopicResult::default().with_name(s(RETRY)).with_error_code(code);
            let told = CreateTopicsResponse::default().with_topics(vec![one]);
            told.encode(&mut out, 4).unwrap();
        }
        ProduceRequest::KEY => {
            let one = PartitionProduceResponse::default().with_error_code(code);
            let topic = TopicProduceResponse::default().with_name(s(RETRY));
            let topic = topic.with_partition_responses(vec![one]);
            let told = ProduceResponse::default().with_responses(vec![topic]);
            told.encode(&mut out, 3).unwrap();
        }
        DeleteRecordsRequest::KEY => {
            let one = DeleteRecordsPartitionResult::default().with_error_code(code);
            let mut topic = DeleteRecordsTopicResult::default().with_name(s(RETRY));
            topic.partitions.push(one);
            let told = DeleteRecordsResponse::default().with_topics(vec![topic]);
            told.encode(&mut out, 1).unwrap();
        }
        _ => panic!("no denial of {key}"),
    }
    out.to_vec()
}

/// A member of `shop` that reads `orders` and the retry topic.
fn member(server: &Server) -> Member {
    joined(server, 1)
}

fn joined(server: &Server, partitions: i32) -> Member {
    let mut member = Member::new(server, "shop", &["orders", RETRY]);
    member.join(&[("orders", 1), (RETRY, partitions)]);
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
    read_partition(client, 0)
}

fn read_partition(client: &mut Client, partition: i32) -> Vec<String> {
    let data = client.leader("orders").fetch(RETRY, partition, 0, 0);
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
fn a_setting_that_stays_keeps_no_other_from_being_mended() {
    let settings = [("retention.ms", "60000"), ("max.message.bytes", "1024")];
    let cluster = Cluster::with(&settings, false);
    cluster.faults().fixed = Some("max.message.bytes");
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    nack_all(&server, &mut client, &[Rec::new("old").at(1_000)]);
    until_read(&server, &mut client, &["old"]);
    let now = ["retention.ms", "max.message.bytes"].map(|name| cluster.setting(name));
    assert_eq!(now, ["-1", "1024"]);
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
    let degraded = || server.json("/readyz")["degraded"].to_string();
    assert!(degraded().contains(&action), "{}", degraded());

    cluster.set("retention.ms", "-1");
    server.pass(30_000);
    until_read(&server, &mut client, &["young", "old"]);
    assert_eq!((reasons(&server), degraded()), (Vec::new(), "[]".to_owned()));
}

#[test]
fn a_right_given_later_mends_the_settings() {
    let cluster = Cluster::with(&[("retention.bytes", "1024")], true);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    nack_all(&server, &mut client, &[Rec::new("a")]);
    until("it is blocked", || reasons(&server).len() == 1);
    assert!(reasons(&server)[0].contains("retention.bytes=-1"), "{:?}", reasons(&server));
    cluster.faults().denied = None;
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

#[test]
fn without_the_right_to_create_nacks_are_taken_later() {
    let cluster = Cluster::start(Some(CreateTopicsRequest::KEY));
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = server.client();
    client.put("orders", 0, &[Rec::new("a")]);
    let nacked = client.nack("shop", "orders-0@0", Rec::new("a"));
    assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
    let told = client.metadata(9, &[RETRY]).topics[0].error_code;
    assert_eq!(told, ResponseError::UnknownTopicOrPartition.code());
    let degraded = || server.json("/readyz")["degraded"].to_string();
    let says = format!("retries waiting: the cluster has no topic {RETRY}");
    assert!(degraded().contains(&says) && degraded().contains("create it"), "{}", degraded());
    cluster.faults().denied = None;
    until("the topic is made", || {
        server.pass(1_000);
        client.metadata(9, &[RETRY]).topics[0].error_code == 0
    });
    until("nothing waits for an operator", || {
        server.pass(1_000);
        degraded() == "[]"
    });
    let mut member = member(&server);
    until_read(&server, &mut member.client, &["a"]);
}

#[test]
fn without_the_right_to_write_retries_are_blocked() {
    let cluster = Cluster::with(&[], false);
    cluster.faults().denied = Some(ProduceRequest::KEY);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    nack_all(&server, &mut client, &[Rec::new("a"), Rec::new("b")]);
    until("they are blocked", || reasons(&server).len() == 2);
    assert!(reasons(&server)[0].contains("DESCRIBE and WRITE"), "{:?}", reasons(&server));
    cluster.faults().denied = None;
    server.pass(30_000);
    until_read(&server, &mut client, &["a", "b"]);
}

#[test]
fn without_the_right_to_delete_committed_retries_stay() {
    let cluster = Cluster::with(&[], false);
    cluster.faults().denied = Some(DeleteRecordsRequest::KEY);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut member = member(&server);
    nack_all(&server, &mut member.client, &[Rec::new("a"), Rec::new("b")]);
    until_read(&server, &mut member.client, &["a", "b"]);
    assert_eq!(member.commit(RETRY, 0, 2), 0);
    until("a denial", || {
        server.pass(3_600_000);
        cluster.faults().denials > 0
    });
    assert_eq!(read(&mut member.client), ["a", "b"]);
    cluster.faults().denied = None;
    until("they are deleted", || {
        server.pass(3_600_000);
        cluster.server.client().list_offset(RETRY, 0, -2).1 == 2
    });
}

#[test]
fn a_partition_without_a_leader_holds_up_no_other() {
    let cluster = Cluster::start(None);
    cluster.make(2, &[]);
    cluster.faults().unled = Some(1);
    let server = Server::told_in_front_of(cluster.addr, "retry: {levels: 20ms, partitions: 2}");
    let mut client = joined(&server, 2).client;
    let keyed = |key: &'static str| Rec { key: Some(key.into()), ..Rec::new(key) };
    let keys = ["a", "b", "c", "d", "e", "f"];
    let of = |partition| keys.into_iter().filter(move |key| lies_in(key) == partition);
    nack_all(&server, &mut client, &keys.map(keyed));
    until_read(&server, &mut client, &of(0).collect::<Vec<_>>());
    assert_eq!(read_partition(&mut client, 1), Vec::<String>::new());
    assert_eq!(server.pending("shop").len(), keys.len(), "they wait");
    cluster.faults().unled = None;
    until("the others follow", || {
        server.pass(1_000);
        read_partition(&mut client, 1).len() == of(1).count()
    });
    assert_eq!(read_partition(&mut client, 1), of(1).collect::<Vec<_>>());
}

fn lies_in(key: &str) -> i32 {
    partition_of(Some(key.as_bytes()), 0, 2)
}

#[test]
fn a_foreign_record_of_the_retry_topic_may_fail() {
    let cluster = Cluster::with(&[], false);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut client = member(&server).client;
    let forged = Rec::new("forged").header("x-retry-origin-message-id", "no place");
    let put = produce_request(RETRY, 0, plain(&[Rec::new("strange"), forged]), -1);
    let put = cluster.server.client().call(9, &put);
    assert_eq!(put.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(read(&mut client), ["strange", "forged"]);
    let by_value = Rec::new("strange");
    let by_reference = Rec::new("").header("x-retry-by-reference", "true");
    for (offset, nack) in [(0, by_value), (1, by_reference)] {
        let nacked = client.nack("shop", &format!("{RETRY}-0@{offset}"), nack);
        assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
    }
    server.pass(20);
    until_read(&server, &mut client, &["strange", "forged", "strange", "forged"]);
}

#[test]
fn resets_across_released_retries_lose_none() {
    let cluster = Cluster::with(&[], false);
    let server = Server::told_in_front_of(cluster.addr, YAML);
    let mut member = member(&server);
    let texts = ["a", "b", "c"];
    nack_all(&server, &mut member.client, &texts.map(Rec::new));
    until_read(&server, &mut member.client, &texts);
    for offset in [3, 0, 2, 1, 3, 2] {
        assert_eq!(member.commit(RETRY, 0, offset), 0);
    }
    // The group reads the third again, and it fails.
    let nacked = member.client.nack("shop", &format!("{RETRY}-0@2"), Rec::new("c"));
    assert_eq!(nacked.error_code, 0);
    assert_eq!(member.commit(RETRY, 0, 3), 0);
    until_read(&server, &mut member.client, &["a", "b", "c", "c"]);
    assert_eq!(server.pending("shop")[0]["reconsume_times"], 2);
    assert_eq!(member.commit(RETRY, 0, 4), 0);
    until("all have ended", || server.pending("shop").is_empty());
}
