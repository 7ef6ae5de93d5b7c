//! `OffsetForLeaderEpoch` 2–4 (KIP-320): the one leader epoch, which ends at the log end.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::topics::topic_names::TopicKind;
use crate::wire::ResponseError;
use crate::wire::batch::LEADER_EPOCH;

pub(in crate::route) fn answer(
    router: &Router,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut response = OffsetForLeaderEpochResponse::default();
    for asked in request.topics {
        let place = router.known(&topic_of(&asked.topic));
        let mut topic = OffsetForLeaderTopicResult::default();
        topic.topic = asked.topic;
        topic.partitions =
            asked.partitions.iter().map(|partition| end_of(router, &place, partition)).collect();
        response.topics.push(topic);
    }
    response
}

fn end_of(
    router: &Router,
    place: &Result<TopicKind, ResponseError>,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let mut answer = EpochEndOffset::default();
    answer.partition = asked.partition;
    let end = match place {
        Ok(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) => {
            topic.partition(asked.partition).map(|p| router.broker.bounds(p).visible_end)
        }
        Ok(TopicKind::DeadLetters(None)) => (asked.partition == 0).then_some(0),
        Err(error) => {
            answer.error_code = error.code();
            return answer;
        }
    };
    match end {
        Some(end) if asked.leader_epoch >= LEADER_EPOCH => {
            answer.leader_epoch = LEADER_EPOCH;
            answer.end_offset = end;
        }
        // Kafka answers an epoch before the first one as undefined (−1, −1).
        Some(_) => {}
        None => answer.error_code = ResponseError::UnknownTopicOrPartition.code(),
    }
    answer
}
