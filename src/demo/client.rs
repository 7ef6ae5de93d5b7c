//! The application of the demo, over the connections that a sidecar has to its cluster: a producer
//! of orders, the shop's consumer, and a reader of the dead letters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FetchRequest, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest,
};
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Clock;
use crate::demo::demo_error::DemoError;
use crate::demo::shop::{self, DEAD_LETTERS, GROUP, PARTITIONS, RETRY_TOPIC, TOPIC};
use crate::demo::tally::{Delivery, DemoEvent, ShopDeadLetter};
use crate::model::{TopicName, TopicPartition, WallMs};
use crate::observe::Metrics;
use crate::socket::Budget;
use crate::upstream::{Address, OwnLinks, TopicWriter, Upstream};
use crate::wire::Api;
use crate::wire::assignment::{Assignment, Subscription, TopicPartitions};
use crate::wire::batch::{Headers, RawRecord, RecordView, TimestampType, batches, records};

/// The sidecar, in the client's own list of brokers.
const NODE: i32 = 0;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Memory of one connection, and the largest answer: twenty small orders are below 16 KiB.
const BYTES_MAX: usize = 4 << 20;

/// JoinGroup without the round trip for a member id (KIP-394 begins at 4).
const JOIN: (Api, i16) = (Api::JoinGroup, 3);
const SYNC: (Api, i16) = (Api::SyncGroup, 3);
const HEARTBEAT: (Api, i16) = (Api::Heartbeat, 3);
const OFFSET_COMMIT: (Api, i16) = (Api::OffsetCommit, 7);
const OFFSET_FETCH: (Api, i16) = (Api::OffsetFetch, 5);
const FETCH: (Api, i16) = (Api::Fetch, 11);

/// Wait of a Fetch without records, and pause between two heartbeats.
const FETCH_WAIT_MS: i32 = 250;
const FETCH_BYTES_MAX: i32 = 1 << 20;
const SESSION_TIMEOUT_MS: i32 = 30_000;

/// One part of the application.
struct DemoClient {
    upstream: Upstream,
    links: OwnLinks,
    writer: TopicWriter,
    /// The next offset of each partition that is read.
    positions: BTreeMap<TopicPartition, i64>,
}

/// The membership of the shop's only member.
struct Membership {
    member: StrBytes,
    generation: i32,
}

/// Places the orders.
pub(super) async fn produce_orders(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
    clock: Clock,
) -> Result<(), DemoError> {
    let mut client = DemoClient::new(&kafka)?;
    for (number, key, value) in shop::orders() {
        let partition = i32::try_from(number % PARTITIONS).unwrap_or(0);
        let record = RawRecord {
            timestamp_ms: clock.now().wall.0,
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from(key)),
            value: Some(Bytes::from(value)),
            headers: Headers::default(),
        };
        client.produce(TOPIC, partition, record).await?;
        let _ = events.send(DemoEvent::Produced { order: number });
    }
    Ok(())
}

/// Handles orders and failed orders until the demo ends.
pub(super) async fn consume_orders(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
    clock: Clock,
) -> Result<(), DemoError> {
    let mut client = DemoClient::new(&kafka)?;
    let membership = client.join().await?;
    loop {
        for (of, record) in client.fetch().await? {
            let next = record.offset.saturating_add(1);
            let delivery = deliver(&mut client, &of, record, clock).await?;
            client.commit(&membership, &of, next).await?;
            let _ = events.send(DemoEvent::Delivered(delivery));
        }
        client.beat(&membership).await?;
    }
}

/// Reads the dead letters until the demo ends.
pub(super) async fn read_dead_letters(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
) -> Result<(), DemoError> {
    let mut client = DemoClient::new(&kafka)?;
    client.positions.insert(partition_of(DEAD_LETTERS, 0), 0);
    loop {
        for (_, record) in client.fetch().await? {
            let headers = record.headers.iter();
            let _ = events.send(DemoEvent::DeadLetter(ShopDeadLetter {
                order: record.key.as_deref().map_or(0, shop::order_of),
                value: text_of(record.value.as_ref()),
                headers: headers
                    .map(|found| (text_of(Some(&found.key)), text_of(found.value.as_ref())))
                    .collect(),
            }));
        }
    }
}

/// Handles one record; a failed one is produced to the retry topic before it is committed.
async fn deliver(
    client: &mut DemoClient,
    of: &TopicPartition,
    record: RecordView,
    clock: Clock,
) -> Result<Delivery, DemoError> {
    let at_ms = clock.now().wall.0;
    let header = |name: &str| record.headers.last(name).flatten().map(|v| text_of(Some(&v)));
    let attempt = header("x-retry-attempt").and_then(|text| text.parse().ok()).unwrap_or(1);
    let due_ms = header("x-retry-due-ms").and_then(|text| text.parse().ok());
    let order = record.key.as_deref().map_or(0, shop::order_of);
    let failed = shop::handle(order, attempt).err();
    if let Some(reason) = failed {
        let origin = format!("{of}@{}", record.offset);
        let headers = [("x-retry-origin", origin.as_str()), ("x-retry-reason", reason)];
        let mut nack = record.into_raw();
        nack.headers = nack.headers.with(&headers);
        client.produce(RETRY_TOPIC, 0, nack).await?;
    }
    Ok(Delivery { order, attempt, at_ms, due_ms, failed })
}

impl DemoClient {
    fn new(kafka: &str) -> Result<Self, DemoError> {
        let address: SocketAddr =
            kafka.parse().map_err(|_| DemoError::Unexpected("an address that cannot be read"))?;
        let address = Address { host: address.ip().to_string(), port: address.port() };
        let (budget, metrics) = (Budget::new(BYTES_MAX), Metrics::new(1)?);
        let bootstrap = vec![address.clone()];
        let upstream = Upstream::new(bootstrap, CONNECT_TIMEOUT, BYTES_MAX, budget, metrics);
        upstream.learn(NODE, address);
        Ok(Self {
            upstream,
            links: OwnLinks::default(),
            writer: TopicWriter::to_existing_topics(),
            positions: BTreeMap::new(),
        })
    }

    async fn call<Req>(
        &mut self,
        api: (Api, i16),
        request: &Req,
    ) -> Result<Req::Response, DemoError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        Ok(self.links.call(&self.upstream, Some(NODE), api, request).await?)
    }

    async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        record: RawRecord,
    ) -> Result<(), DemoError> {
        let (topic, made_at) = (TopicName::new(topic), WallMs(record.timestamp_ms));
        self.writer.write(&self.upstream, &topic, partition, &[record], made_at).await?;
        Ok(())
    }

    /// Joins the group as its only member and leader, and takes every partition.
    async fn join(&mut self) -> Result<Membership, DemoError> {
        let mut protocol = JoinGroupRequestProtocol::default();
        protocol.name = StrBytes::from_static_str("range");
        let topics = vec![TopicName::new(TOPIC), TopicName::new(RETRY_TOPIC)];
        protocol.metadata = Subscription::to(topics).to_bytes();
        let mut request = JoinGroupRequest::default();
        request.group_id = StrBytes::from_static_str(GROUP).into();
        request.protocol_type = StrBytes::from_static_str("consumer");
        request.session_timeout_ms = SESSION_TIMEOUT_MS;
        request.rebalance_timeout_ms = SESSION_TIMEOUT_MS;
        request.protocols = vec![protocol];
        let joined = self.call(JOIN, &request).await?;
        accepted("JoinGroup", joined.error_code)?;
        let (member, generation) = (joined.member_id, joined.generation_id);

        let mut assignment = Assignment::empty();
        for partition in (0..PARTITIONS).filter_map(|index| i32::try_from(index).ok()) {
            assignment.append(&TopicName::new(TOPIC), partition);
            assignment.append(&TopicName::new(RETRY_TOPIC), partition);
        }
        let mut own = SyncGroupRequestAssignment::default();
        (own.member_id, own.assignment) = (member.clone(), assignment.to_bytes());
        let mut request = SyncGroupRequest::default();
        request.group_id = StrBytes::from_static_str(GROUP).into();
        (request.member_id, request.generation_id) = (member.clone(), generation);
        request.assignments = vec![own];
        let synced = self.call(SYNC, &request).await?;
        accepted("SyncGroup", synced.error_code)?;
        let assignment = Assignment::parse(&synced.assignment)
            .map_err(|_| DemoError::Unexpected("an assignment that cannot be read"))?;
        let of_topic = |assigned: &TopicPartitions| {
            let mut topic = OffsetFetchRequestTopic::default();
            topic.name = StrBytes::from_string(assigned.topic.as_str().to_owned()).into();
            topic.partition_indexes.clone_from(&assigned.partitions);
            topic
        };
        let mut request = OffsetFetchRequest::default();
        request.group_id = StrBytes::from_static_str(GROUP).into();
        request.topics = Some(assignment.partitions.iter().map(of_topic).collect());
        let committed = self.call(OFFSET_FETCH, &request).await?;
        accepted("OffsetFetch", committed.error_code)?;
        for topic in &committed.topics {
            for partition in &topic.partitions {
                let of = partition_of(topic.name.as_str(), partition.partition_index);
                self.positions.insert(of, partition.committed_offset.max(0));
            }
        }
        Ok(Membership { member, generation })
    }

    async fn beat(&mut self, membership: &Membership) -> Result<(), DemoError> {
        let mut request = HeartbeatRequest::default();
        request.group_id = StrBytes::from_static_str(GROUP).into();
        request.member_id = membership.member.clone();
        request.generation_id = membership.generation;
        accepted("Heartbeat", self.call(HEARTBEAT, &request).await?.error_code)
    }

    async fn commit(
        &mut self,
        membership: &Membership,
        of: &TopicPartition,
        offset: i64,
    ) -> Result<(), DemoError> {
        let mut partition = OffsetCommitRequestPartition::default();
        (partition.partition_index, partition.committed_offset) = (of.partition, offset);
        let mut topic = OffsetCommitRequestTopic::default();
        topic.name = StrBytes::from_string(of.topic.as_str().to_owned()).into();
        topic.partitions = vec![partition];
        let mut request = OffsetCommitRequest::default();
        request.group_id = StrBytes::from_static_str(GROUP).into();
        request.member_id = membership.member.clone();
        request.generation_id_or_member_epoch = membership.generation;
        request.topics = vec![topic];
        let answer = self.call(OFFSET_COMMIT, &request).await?;
        let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or(DemoError::Unexpected("no answer for the partition"))?;
        accepted("OffsetCommit", partition.error_code)
    }

    /// Fetches the next records with their partitions.
    async fn fetch(&mut self) -> Result<Vec<(TopicPartition, RecordView)>, DemoError> {
        let wanted = |(of, position): (&TopicPartition, &i64)| {
            let mut partition = FetchPartition::default();
            (partition.partition, partition.fetch_offset) = (of.partition, *position);
            partition.partition_max_bytes = FETCH_BYTES_MAX;
            let mut topic = FetchTopic::default();
            topic.topic = StrBytes::from_string(of.topic.as_str().to_owned()).into();
            topic.partitions = vec![partition];
            topic
        };
        let mut request = FetchRequest::default();
        (request.max_wait_ms, request.min_bytes) = (FETCH_WAIT_MS, 1);
        request.max_bytes = FETCH_BYTES_MAX;
        request.topics = self.positions.iter().map(wanted).collect();
        let answer = self.call(FETCH, &request).await?;
        accepted("Fetch", answer.error_code)?;
        let broken = || DemoError::Unexpected("a broken batch");
        let mut found = Vec::new();
        for topic in &answer.responses {
            for partition in &topic.partitions {
                accepted("Fetch", partition.error_code)?;
                let of = partition_of(topic.topic.as_str(), partition.partition_index);
                let position = self.positions.entry(of.clone()).or_default();
                let bytes = partition.records.clone().unwrap_or_default();
                for batch in batches(bytes, BYTES_MAX) {
                    let batch = batch.map_err(|_| broken())?;
                    for record in records(&batch, BYTES_MAX).map_err(|_| broken())? {
                        let record = record.map_err(|_| broken())?;
                        if record.offset >= *position {
                            *position = record.offset.saturating_add(1);
                            found.push((of.clone(), record));
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn accepted(api: &'static str, code: i16) -> Result<(), DemoError> {
    if code == 0 { Ok(()) } else { Err(DemoError::Refused { api, code }) }
}

fn partition_of(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicName::new(topic), partition }
}

/// The text of a value or a header; nothing for null.
fn text_of(bytes: Option<&Bytes>) -> String {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}
