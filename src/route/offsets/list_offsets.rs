//! `ListOffsets` 1–10: the offset for a time or for a special timestamp. Special timestamps: −1
//! latest, −2 earliest, −3 of the greatest time, −4 earliest local, −5 latest tiered (always none).

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::broker::error::BrokerError;
use crate::broker::topic::Partition;
use crate::route::convert::topic_of;
use crate::route::topics::topic_names::TopicKind;
use crate::route::unique_names::UniqueNames;
use crate::route::{Router, code};
use crate::wire::batch::LEADER_EPOCH;
use crate::wire::{RequestHead, ResponseError};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
/// `ListOffsetsRequest.isolation_level` of a `read_committed` client.
const READ_COMMITTED: i8 = 1;
/// First version with leader epochs (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 4;
/// No offset and no time.
const NONE: (i64, i64) = (-1, -1);

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let mut response = ListOffsetsResponse::default();
    let mut named = UniqueNames::default();
    for mut asked in request.topics {
        asked.partitions.retain(|of| named.first((asked.name.clone(), of.partition_index)));
        let name = topic_of(&asked.name);
        let place = router.known(&name);
        let mut topic = ListOffsetsTopicResponse::default();
        topic.name = asked.name;
        for partition in &asked.partitions {
            let committed = request.isolation_level == READ_COMMITTED;
            let place = if is_known(partition.timestamp, head.version) {
                &place
            } else {
                &Err(ResponseError::UnsupportedVersion)
            };
            let mut answer = one(router, place, partition, committed);
            if head.version < LEADER_EPOCH_SINCE {
                answer.leader_epoch = -1;
            }
            topic.partitions.push(answer);
        }
        response.topics.push(topic);
    }
    response
}

/// Whether the timestamp is a time, or a special timestamp of this version.
fn is_known(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        _ => return false,
    };
    since <= version
}

fn one(
    router: &Router,
    place: &Result<TopicKind, ResponseError>,
    asked: &ListOffsetsPartition,
    committed: bool,
) -> ListOffsetsPartitionResponse {
    let found = match place {
        Ok(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) => {
            match topic.partition(asked.partition_index) {
                Some(partition) => of_log(router, partition, asked.timestamp, committed)
                    .map_err(|error| code::of_broker(&error)),
                None => Err(ResponseError::UnknownTopicOrPartition),
            }
        }
        Ok(TopicKind::DeadLetters(None)) if asked.partition_index == 0 => Ok((0, -1)),
        Ok(_) => Err(ResponseError::UnknownTopicOrPartition),
        Err(error) => Err(*error),
    };
    let mut answer = ListOffsetsPartitionResponse::default();
    answer.partition_index = asked.partition_index;
    match found {
        Ok((offset, timestamp)) => {
            answer.offset = offset;
            answer.timestamp = timestamp;
            answer.leader_epoch = LEADER_EPOCH;
        }
        Err(error) => {
            answer.error_code = error.code();
            (answer.offset, answer.timestamp) = NONE;
        }
    }
    answer
}

/// Offset and time in a partition with a log.
fn of_log(
    router: &Router,
    partition: &Partition,
    timestamp: i64,
    committed: bool,
) -> Result<(i64, i64), BrokerError> {
    let bounds = router.broker.bounds(partition);
    let end = if committed { router.broker.stable_end(partition) } else { bounds.visible_end };
    let found = match timestamp {
        LATEST => return Ok((end, -1)),
        EARLIEST | EARLIEST_LOCAL => return Ok((bounds.start, -1)),
        MAX_TIMESTAMP => router.broker.latest_time(partition)?,
        LATEST_TIERED => None,
        time => router.broker.offset_at_time(partition, time)?,
    };
    // `read_committed` clients do not see records behind the last stable offset.
    Ok(found.filter(|(offset, _)| !committed || *offset < end).unwrap_or(NONE))
}
