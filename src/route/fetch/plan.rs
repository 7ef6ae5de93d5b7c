//! The source of each requested partition.

use std::sync::Arc;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, TopicName as WireTopic};
use uuid::Uuid;

use crate::broker::topic::Topic;
use crate::model::TopicPartition;
use crate::route::convert::topic_of;
use crate::route::topics::topic_names::TopicKind;
use crate::route::unique_names::UniqueNames;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// `FetchRequest.isolation_level` of a `read_committed` client.
pub(super) const READ_COMMITTED: i8 = 1;

/// One requested topic and the sources of its partitions.
pub(super) struct PlannedTopic {
    pub(super) name: WireTopic,
    pub(super) id: Uuid,
    pub(super) partitions: Vec<PlannedPartition>,
}

impl PlannedTopic {
    /// Whether the Fetch is for a dead-letter topic that does not exist yet.
    pub(super) fn waits_for_topic(&self) -> bool {
        self.partitions.iter().any(|asked| matches!(asked.source, ReadSource::Nothing))
    }
}

pub(super) struct PlannedPartition {
    pub(super) index: i32,
    pub(super) bytes_max: usize,
    pub(super) source: ReadSource,
}

pub(super) enum ReadSource {
    /// A partition of this node.
    Log(PartitionRead),
    /// A dead-letter topic without dead letters, which does not exist yet.
    Nothing,
    /// An error; nothing is read.
    Refused(ResponseError),
}

/// A partition of this node.
pub(super) struct PartitionRead {
    pub(super) topic: Arc<Topic>,
    pub(super) index: i32,
    pub(super) offset: i64,
    /// False for dead-letter topics.
    pub(super) is_real: bool,
    /// `read_committed`: up to the last stable offset.
    pub(super) committed: bool,
}

impl PartitionRead {
    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.name.clone(), partition: self.index }
    }
}

pub(super) fn plan(router: &Router, request: &FetchRequest) -> Vec<PlannedTopic> {
    let committed = request.isolation_level == READ_COMMITTED;
    let mut named = UniqueNames::default();
    let of = |topic| plan_topic(router, topic, committed, &mut named);
    request.topics.iter().map(of).collect()
}

fn plan_topic<'a>(
    router: &Router,
    asked: &'a FetchTopic,
    committed: bool,
    named: &mut UniqueNames<(&'a str, Uuid, i32)>,
) -> PlannedTopic {
    let place = match router.named(&topic_of(&asked.topic), asked.topic_id) {
        Ok(name) => router.known(&name).map_err(|error| match error {
            ResponseError::UnknownTopicOrPartition if !asked.topic_id.is_nil() => {
                ResponseError::UnknownTopicId
            }
            error => error,
        }),
        Err(error) => Err(code::of_broker(&error)),
    };
    if let Ok(TopicKind::Local(topic)) = &place
        && let Some(pair) = router.pair_served_here(&topic.name)
    {
        router.engine.reads_retries(&pair, router.clock.now().mono);
    }
    let partitions = asked
        .partitions
        .iter()
        .filter(|of| named.first((asked.topic.as_str(), asked.topic_id, of.partition)))
        .map(|partition| PlannedPartition {
            index: partition.partition,
            bytes_max: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
            source: match &place {
                Ok(place) => source(place, partition, committed),
                Err(error) => ReadSource::Refused(*error),
            },
        })
        .collect();
    PlannedTopic { name: asked.topic.clone(), id: asked.topic_id, partitions }
}

fn source(place: &TopicKind, asked: &FetchPartition, committed: bool) -> ReadSource {
    let index = asked.partition;
    if !(0..place.partitions()).contains(&index) {
        return ReadSource::Refused(ResponseError::UnknownTopicOrPartition);
    }
    let offset = asked.fetch_offset;
    match place {
        TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic)) => {
            let is_real = matches!(place, TopicKind::Local(_));
            ReadSource::Log(PartitionRead {
                topic: Arc::clone(topic),
                index,
                offset,
                is_real,
                committed,
            })
        }
        TopicKind::DeadLetters(None) if offset == 0 => ReadSource::Nothing,
        TopicKind::DeadLetters(None) => ReadSource::Refused(ResponseError::OffsetOutOfRange),
    }
}
