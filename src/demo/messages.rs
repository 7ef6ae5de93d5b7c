//! The requests of the demo's client, and the records of a Fetch answer.

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::demo::demo_error::DemoError;
use crate::model::{TopicName, TopicPartition};
use crate::wire::assignment::{Assignment, Subscription};
use crate::wire::batch::{Batch, RawRecord, RecordView, produce_batch, records};

/// JoinGroup without the round trip for a member id (KIP-394 begins at 4).
pub(super) const JOIN: i16 = 3;
pub(super) const SYNC: i16 = 3;
pub(super) const HEARTBEAT: i16 = 3;
pub(super) const OFFSET_FETCH: i16 = 5;
pub(super) const OFFSET_COMMIT: i16 = 7;
pub(super) const PRODUCE: i16 = 9;
pub(super) const FETCH: i16 = 11;

/// Wait of a Fetch without records, and pause between two heartbeats.
const FETCH_WAIT_MS: i32 = 250;
const FETCH_BYTES_MAX: i32 = 1 << 20;
const SESSION_TIMEOUT_MS: i32 = 30_000;

/// The membership of the shop's only member.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    pub(super) group: String,
    pub(super) member: String,
    pub(super) generation: i32,
}

fn text<T: From<StrBytes>>(text: &str) -> T {
    StrBytes::from_string(text.to_owned()).into()
}

pub(super) fn join(group: &str, topics: &[&str]) -> JoinGroupRequest {
    let topics = topics.iter().map(|topic| TopicName::new(topic)).collect();
    let mut protocol = JoinGroupRequestProtocol::default();
    (protocol.name, protocol.metadata) = (text("range"), Subscription::to(topics).to_bytes());
    let mut request = JoinGroupRequest::default();
    (request.group_id, request.protocol_type) = (text(group), text("consumer"));
    request.session_timeout_ms = SESSION_TIMEOUT_MS;
    request.rebalance_timeout_ms = SESSION_TIMEOUT_MS;
    request.protocols = vec![protocol];
    request
}

/// SyncGroup of a leader that is the only member and takes every partition.
pub(super) fn sync(membership: &Membership, partitions: &[TopicPartition]) -> SyncGroupRequest {
    use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
    let mut assignment = Assignment::empty();
    for of in partitions {
        assignment.append(&of.topic, of.partition);
    }
    let mut mine = SyncGroupRequestAssignment::default();
    (mine.member_id, mine.assignment) = (text(&membership.member), assignment.to_bytes());
    let mut request = SyncGroupRequest::default();
    (request.group_id, request.member_id) = (text(&membership.group), text(&membership.member));
    request.generation_id = membership.generation;
    request.assignments = vec![mine];
    request
}

pub(super) fn heartbeat(membership: &Membership) -> HeartbeatRequest {
    let mut request = HeartbeatRequest::default();
    (request.group_id, request.member_id) = (text(&membership.group), text(&membership.member));
    request.generation_id = membership.generation;
    request
}

/// OffsetFetch of every partition of the group.
pub(super) fn committed_offsets(group: &str, partitions: &[TopicPartition]) -> OffsetFetchRequest {
    use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
    let of = |partition: &TopicPartition| {
        let mut topic = OffsetFetchRequestTopic::default();
        topic.name = text(partition.topic.as_str());
        topic.partition_indexes = vec![partition.partition];
        topic
    };
    let mut request = OffsetFetchRequest::default();
    request.group_id = text(group);
    request.topics = Some(partitions.iter().map(of).collect());
    request
}

pub(super) fn commit(
    membership: &Membership,
    of: &TopicPartition,
    offset: i64,
) -> OffsetCommitRequest {
    let mut partition = OffsetCommitRequestPartition::default();
    (partition.partition_index, partition.committed_offset) = (of.partition, offset);
    let mut topic = OffsetCommitRequestTopic::default();
    (topic.name, topic.partitions) = (text(of.topic.as_str()), vec![partition]);
    let mut request = OffsetCommitRequest::default();
    (request.group_id, request.member_id) = (text(&membership.group), text(&membership.member));
    request.generation_id_or_member_epoch = membership.generation;
    request.topics = vec![topic];
    request
}

/// Produce of one record, acknowledged when it is durable.
pub(super) fn produce(of: &TopicPartition, record: RawRecord) -> Result<ProduceRequest, DemoError> {
    let batch = produce_batch(&[record], None).ok_or(DemoError::Unexpected("no batch"))?;
    let mut data = PartitionProduceData::default();
    (data.index, data.records) = (of.partition, Some(batch));
    let mut topic = TopicProduceData::default();
    (topic.name, topic.partition_data) = (text(of.topic.as_str()), vec![data]);
    let mut request = ProduceRequest::default();
    (request.acks, request.timeout_ms) = (-1, SESSION_TIMEOUT_MS);
    request.topic_data = vec![topic];
    Ok(request)
}

pub(super) fn fetch<'a>(
    positions: impl IntoIterator<Item = (&'a TopicPartition, &'a i64)>,
) -> FetchRequest {
    let of = |(partition, position): (&TopicPartition, &i64)| {
        let mut wanted = FetchPartition::default();
        (wanted.partition, wanted.fetch_offset) = (partition.partition, *position);
        wanted.partition_max_bytes = FETCH_BYTES_MAX;
        let mut topic = FetchTopic::default();
        (topic.topic, topic.partitions) = (text(partition.topic.as_str()), vec![wanted]);
        topic
    };
    let mut request = FetchRequest::default();
    (request.max_wait_ms, request.min_bytes) = (FETCH_WAIT_MS, 1);
    request.max_bytes = FETCH_BYTES_MAX;
    request.topics = positions.into_iter().map(of).collect();
    request
}

/// The records of an answer with their partitions, in its order.
pub(super) fn fetched(
    answer: &FetchResponse,
) -> Result<Vec<(TopicPartition, RecordView)>, DemoError> {
    let mut all = Vec::new();
    for topic in &answer.responses {
        for partition in &topic.partitions {
            if partition.error_code != 0 {
                return Err(DemoError::Refused { api: "Fetch", code: partition.error_code });
            }
            let of = TopicPartition {
                topic: TopicName::new(topic.topic.as_str()),
                partition: partition.partition_index,
            };
            let mut rest = partition.records.clone().unwrap_or_default();
            while let Ok(batch) = Batch::parse(&rest) {
                rest = rest.slice(batch.bytes.len()..);
                let views = records(&batch, FETCH_RECORDS_BYTES_MAX);
                for view in views.map_err(|_| DemoError::Unexpected("a broken batch"))? {
                    let view = view.map_err(|_| DemoError::Unexpected("a broken record"))?;
                    all.push((of.clone(), view));
                }
            }
        }
    }
    Ok(all)
}

/// Plain bytes of one batch at most.
const FETCH_RECORDS_BYTES_MAX: usize = 4 << 20;

/// The text of a key, a value or a header; nothing for null.
pub(super) fn text_of(bytes: Option<&Bytes>) -> String {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}
