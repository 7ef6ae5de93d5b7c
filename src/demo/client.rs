//! The application of the demo on a small Kafka client: a producer of orders, the shop's consumer,
//! and a reader of the dead letters.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::{
    FetchResponse, HeartbeatResponse, JoinGroupResponse, OffsetCommitResponse, OffsetFetchResponse,
    ProduceResponse, SyncGroupResponse,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Clock;
use crate::demo::connection::DemoConnection;
use crate::demo::demo_error::DemoError;
use crate::demo::messages::{self, Membership, text_of};
use crate::demo::shop::{self, DEAD_LETTERS, GROUP, PARTITIONS, RETRY_TOPIC, TOPIC};
use crate::demo::tally::{Delivery, DemoEvent, ShopDeadLetter};
use crate::model::{TopicName, TopicPartition};
use crate::wire::Api;
use crate::wire::assignment::Assignment;
use crate::wire::batch::{Headers, RawRecord, RecordView, TimestampType};

/// Places the orders.
pub(super) async fn produce_orders(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
    clock: Clock,
) -> Result<(), DemoError> {
    let mut connection = DemoConnection::open(&kafka).await?;
    for (number, key, value) in shop::orders() {
        let partition = i32::try_from(number % PARTITIONS).unwrap_or(0);
        let record = RawRecord {
            timestamp_ms: clock.now().wall.0,
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from(key)),
            value: Some(Bytes::from(value)),
            headers: Headers::default(),
        };
        produce(&mut connection, &partition_of(TOPIC, partition), record).await?;
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
    let mut connection = DemoConnection::open(&kafka).await?;
    let (membership, mut positions) = join(&mut connection).await?;
    loop {
        for (of, record) in fetch(&mut connection, &positions).await? {
            if positions.get(&of).is_none_or(|position| record.offset < *position) {
                continue;
            }
            let next = record.offset.saturating_add(1);
            let delivery = deliver(&mut connection, &of, record, clock).await?;
            commit(&mut connection, &membership, &of, next).await?;
            positions.insert(of, next);
            let _ = events.send(DemoEvent::Delivered(delivery));
        }
        let beat: HeartbeatResponse = connection
            .call(Api::Heartbeat, messages::HEARTBEAT, &messages::heartbeat(&membership))
            .await?;
        accepted("Heartbeat", beat.error_code)?;
    }
}

/// Reads the dead letters until the demo ends.
pub(super) async fn read_dead_letters(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
) -> Result<(), DemoError> {
    let mut connection = DemoConnection::open(&kafka).await?;
    let mut positions = BTreeMap::from([(partition_of(DEAD_LETTERS, 0), 0)]);
    loop {
        for (of, record) in fetch(&mut connection, &positions).await? {
            positions.insert(of, record.offset.saturating_add(1));
            let header = |name: &Bytes| String::from_utf8_lossy(name).into_owned();
            let headers = record.headers.iter();
            let _ = events.send(DemoEvent::DeadLetter(ShopDeadLetter {
                order: record.key.as_deref().map_or(0, shop::order_of),
                value: text_of(record.value.as_ref()),
                headers: headers
                    .map(|found| (header(&found.key), text_of(found.value.as_ref())))
                    .collect(),
            }));
        }
    }
}

/// Handles one record; a failed one is produced to the retry topic before it is committed.
async fn deliver(
    connection: &mut DemoConnection,
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
        produce(connection, &partition_of(RETRY_TOPIC, 0), nack).await?;
    }
    Ok(Delivery { order, attempt, at_ms, due_ms, failed })
}

/// Joins the group as its only member; returns the committed offsets of its partitions.
async fn join(
    connection: &mut DemoConnection,
) -> Result<(Membership, BTreeMap<TopicPartition, i64>), DemoError> {
    let request = messages::join(GROUP, &[TOPIC, RETRY_TOPIC]);
    let joined: JoinGroupResponse =
        connection.call(Api::JoinGroup, messages::JOIN, &request).await?;
    accepted("JoinGroup", joined.error_code)?;
    let membership = Membership {
        group: GROUP.to_owned(),
        member: joined.member_id.to_string(),
        generation: joined.generation_id,
    };
    let orders = (0..PARTITIONS).filter_map(|partition| i32::try_from(partition).ok());
    let orders: Vec<TopicPartition> = orders.map(|index| partition_of(TOPIC, index)).collect();
    let request = messages::sync(&membership, &orders);
    let synced: SyncGroupResponse =
        connection.call(Api::SyncGroup, messages::SYNC, &request).await?;
    accepted("SyncGroup", synced.error_code)?;
    let assigned = Assignment::parse(&synced.assignment)
        .map_err(|_| DemoError::Unexpected("an assignment that cannot be read"))?;
    let mut partitions = Vec::new();
    for assigned in &assigned.partitions {
        for index in &assigned.partitions {
            partitions.push(partition_of(assigned.topic.as_str(), *index));
        }
    }
    let positions = committed(connection, &partitions).await?;
    Ok((membership, positions))
}

/// The committed offset of each partition; 0 where there is none.
async fn committed(
    connection: &mut DemoConnection,
    partitions: &[TopicPartition],
) -> Result<BTreeMap<TopicPartition, i64>, DemoError> {
    let request = messages::committed_offsets(GROUP, partitions);
    let answer: OffsetFetchResponse =
        connection.call(Api::OffsetFetch, messages::OFFSET_FETCH, &request).await?;
    accepted("OffsetFetch", answer.error_code)?;
    let mut positions = BTreeMap::new();
    for topic in &answer.topics {
        for partition in &topic.partitions {
            let of = partition_of(topic.name.as_str(), partition.partition_index);
            positions.insert(of, partition.committed_offset.max(0));
        }
    }
    Ok(positions)
}

async fn fetch(
    connection: &mut DemoConnection,
    positions: &BTreeMap<TopicPartition, i64>,
) -> Result<Vec<(TopicPartition, RecordView)>, DemoError> {
    let answer: FetchResponse =
        connection.call(Api::Fetch, messages::FETCH, &messages::fetch(positions)).await?;
    accepted("Fetch", answer.error_code)?;
    messages::fetched(&answer)
}

async fn produce(
    connection: &mut DemoConnection,
    of: &TopicPartition,
    record: RawRecord,
) -> Result<(), DemoError> {
    let request = messages::produce(of, record)?;
    let answer: ProduceResponse =
        connection.call(Api::Produce, messages::PRODUCE, &request).await?;
    let partition = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    let partition = partition.ok_or(DemoError::Unexpected("no answer for the partition"))?;
    accepted("Produce", partition.error_code)
}

async fn commit(
    connection: &mut DemoConnection,
    membership: &Membership,
    of: &TopicPartition,
    offset: i64,
) -> Result<(), DemoError> {
    let request = messages::commit(membership, of, offset);
    let answer: OffsetCommitResponse =
        connection.call(Api::OffsetCommit, messages::OFFSET_COMMIT, &request).await?;
    let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
    let partition = partition.ok_or(DemoError::Unexpected("no answer for the partition"))?;
    accepted("OffsetCommit", partition.error_code)
}

fn accepted(api: &'static str, code: i16) -> Result<(), DemoError> {
    if code == 0 { Ok(()) } else { Err(DemoError::Refused { api, code }) }
}

fn partition_of(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicName::new(topic), partition }
}
