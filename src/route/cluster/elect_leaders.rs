//! `ElectLeaders` 0–2: this node leads every partition, so no election is needed.
//!
//! Kafka's controller answers `ELECTION_NOT_NEEDED` for each named partition. A request for all
//! partitions omits those with the preferred leader, here all of them.

use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};

use crate::route::Router;
use crate::route::convert::{some_text, topic_of};
use crate::wire::{RequestHead, ResponseError};

/// `ElectionType`: preferred is 0, unclean is 1.
const TYPES: std::ops::RangeInclusive<i8> = 0..=1;
/// First version with an error for the whole request.
const ERROR_SINCE: i16 = 1;

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let is_known = TYPES.contains(&request.election_type);
    let mut response = ElectLeadersResponse::default();
    if !is_known && head.version >= ERROR_SINCE {
        response.error_code = ResponseError::InvalidRequest.code();
    }
    let topics = request.topic_partitions.unwrap_or_default();
    let result = |topic: TopicPartitions| {
        let mut result = ReplicaElectionResult::default();
        let place = router.place(&topic_of(&topic.topic));
        let known = place.map_or(0, |place| place.partitions());
        let partitions = topic.partitions.iter();
        result.partition_result = partitions
            .map(|partition| {
                let (error, why) = if !is_known {
                    (ResponseError::InvalidRequest, "unknown election type")
                } else if (0..known).contains(partition) {
                    (ResponseError::ElectionNotNeeded, "this node leads the partition already")
                } else {
                    (ResponseError::UnknownTopicOrPartition, "there is no such partition here")
                };
                let mut one = PartitionResult::default();
                (one.partition_id, one.error_code) = (*partition, error.code());
                one.error_message = some_text(why);
                one
            })
            .collect();
        result.topic = topic.topic;
        result
    };
    response.replica_election_results = topics.into_iter().map(result).collect();
    response
}
