//! `DescribeProducers` 0: the producers of a partition, and the start of their open transactions.

use std::sync::PoisonError;

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};

use crate::broker::producers::ProducerView;
use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::topics::topic_names::TopicKind;
use crate::route::unique_names::UniqueNames;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(
    router: &Router,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut response = DescribeProducersResponse::default();
    let mut named = UniqueNames::default();
    for mut asked in request.topics {
        asked.partition_indexes.retain(|index| named.first((asked.name.clone(), *index)));
        let place = router.known(&topic_of(&asked.name));
        let mut topic = TopicResponse::default();
        topic.name = asked.name;
        for index in asked.partition_indexes {
            let mut partition = PartitionResponse::default();
            partition.partition_index = index;
            match producers(&place, index) {
                Ok(shown) => partition.active_producers = shown.into_iter().map(state).collect(),
                Err(error) => partition.error_code = error.code(),
            }
            topic.partitions.push(partition);
        }
        response.topics.push(topic);
    }
    response
}

fn producers(
    place: &Result<TopicKind, ResponseError>,
    index: i32,
) -> Result<Vec<ProducerView>, ResponseError> {
    match place {
        Ok(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) => {
            let unknown = ResponseError::UnknownTopicOrPartition;
            let partition = topic.partition(index).ok_or(unknown)?;
            let producers = partition.producers.lock();
            Ok(producers.unwrap_or_else(PoisonError::into_inner).shown())
        }
        Ok(TopicKind::DeadLetters(None)) if index == 0 => Ok(Vec::new()),
        Ok(_) => Err(ResponseError::UnknownTopicOrPartition),
        Err(error) => Err(*error),
    }
}

fn state(shown: ProducerView) -> ProducerState {
    let mut state = ProducerState::default();
    state.producer_id = shown.id.into();
    state.producer_epoch = i32::from(shown.epoch);
    state.last_sequence = shown.last_sequence;
    state.last_timestamp = shown.seen.0;
    // One node is the coordinator for ever, so the epoch never changes.
    state.coordinator_epoch = 0;
    state.current_txn_start_offset = shown.open_since.unwrap_or(-1);
    state
}
