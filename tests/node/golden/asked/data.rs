//! Requests about records and offsets of partitions.

use bytes::Bytes;
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest,
    ProduceRequest,
};
use uuid::Uuid;

use super::{Ask, ask};
use crate::golden::house::{ORDERS, RETRY};
use crate::support::Rec;
use crate::support::batch::{TIME_MS, plain};
use crate::support::client::s;

/// `Produce` version from which topics are named by id.
const PRODUCE_BY_ID: i16 = 13;
const FETCH_BY_ID: i16 = 13;
/// A partition that does not exist.
const NO_PARTITION: i32 = 7;

pub(crate) fn all() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut ProduceRequest| {
            (r.acks, r.timeout_ms) = (-1, 30_000);
            let bad_nack = Rec::new("d").header("x-retry-origin", "nonsense");
            r.topic_data = vec![
                produced(version, ORDERS, &[(0, plain(&[Rec::odd()])), (NO_PARTITION, one())]),
                produced(version, RETRY, &[(0, plain(&[Rec::new("c"), bad_nack]))]),
            ];
        }),
        ask(|version, r: &mut FetchRequest| {
            (r.min_bytes, r.max_bytes) = (1, 1 << 20);
            // Committed records only: the open transaction bounds partition 1.
            r.isolation_level = 1;
            r.topics = vec![
                fetched(version, ORDERS, &[(0, 1), (1, 0), (NO_PARTITION, 0)]),
                fetched(version, RETRY, &[(0, 0)]),
            ];
        }),
        ask(|version, r: &mut ListOffsetsRequest| {
            r.isolation_level = i8::from(version >= 2);
            let of = |index, at| {
                ListOffsetsPartition::default().with_partition_index(index).with_timestamp(at)
            };
            let partitions = vec![of(0, TIME_MS + 1), of(1, -1), of(NO_PARTITION, -2)];
            let orders = ListOffsetsTopic::default().with_name(s(ORDERS.0));
            r.topics = vec![orders.with_partitions(partitions)];
        }),
        ask(|_, r: &mut OffsetForLeaderEpochRequest| {
            let of = |index| OffsetForLeaderPartition::default().with_partition(index);
            let orders = OffsetForLeaderTopic::default().with_topic(s(ORDERS.0));
            r.topics = vec![orders.with_partitions(vec![of(0), of(NO_PARTITION)])];
        }),
        ask(|_, r: &mut DeleteRecordsRequest| {
            let of = |index, offset| {
                let partition = DeleteRecordsPartition::default().with_partition_index(index);
                partition.with_offset(offset)
            };
            let orders = DeleteRecordsTopic::default().with_name(s(ORDERS.0));
            r.topics = vec![orders.with_partitions(vec![of(0, 1), of(NO_PARTITION, -1)])];
            r.timeout_ms = 30_000;
        }),
    ]
}

fn one() -> Bytes {
    plain(&[Rec::new("b")])
}

fn produced(version: i16, topic: (&str, Uuid), batches: &[(i32, Bytes)]) -> TopicProduceData {
    let mut data = TopicProduceData::default();
    if version >= PRODUCE_BY_ID {
        data.topic_id = topic.1;
    } else {
        data.name = s(topic.0);
    }
    let of = |(index, batch): &(i32, Bytes)| {
        PartitionProduceData::default().with_index(*index).with_records(Some(batch.clone()))
    };
    data.with_partition_data(batches.iter().map(of).collect())
}

fn fetched(version: i16, topic: (&str, Uuid), from: &[(i32, i64)]) -> FetchTopic {
    let mut asked = FetchTopic::default();
    if version >= FETCH_BY_ID {
        asked.topic_id = topic.1;
    } else {
        asked.topic = s(topic.0);
    }
    let of = |(index, offset): &(i32, i64)| {
        let partition = FetchPartition::default().with_partition(*index);
        partition.with_fetch_offset(*offset).with_partition_max_bytes(1 << 20)
    };
    asked.with_partitions(from.iter().map(of).collect())
}
