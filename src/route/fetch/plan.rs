//! What each requested partition is read from.

use std::sync::Arc;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, TopicName as WireTopic};
use uuid::Uuid;

use crate::broker::topic::Topic;
use crate::model::{GroupId, LaneOffset, TopicPartition};
use crate::route::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::named::Named;
use crate::route::place::Place;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// `FetchRequest.isolation_level` of a reader that wants no part of open or aborted transactions.
pub(super) const READ_COMMITTED: i8 = 1;

/// One requested topic, as it is to be answered.
pub(super) struct Planned {
    pub(super) name: WireTopic,
    pub(super) id: Uuid,
    pub(super) partitions: Vec<Asked>,
}

impl Planned {
    /// It asks for dead letters of which there are none yet.
    pub(super) fn waits_for_topic(&self) -> bool {
        self.partitions.iter().any(|asked| matches!(asked.source, Source::Nothing))
    }
}

/// One requested partition.
pub(super) struct Asked {
    pub(super) index: i32,
    pub(super) bytes_max: usize,
    pub(super) source: Source,
}

/// Where its records come from.
pub(super) enum Source {
    /// A partition of this cluster.
    Log(Log),
    /// A member's private partition of its retry topic.
    Lane { group: GroupId, from: LaneOffset },
    /// What waits in a group, for a reader that is no member.
    Snapshot { group: GroupId, from: i64 },
    /// A dead-letter topic nobody has written to.
    Nothing,
    /// An error.
    Refused(ResponseError),
}

/// A partition of this cluster.
pub(super) struct Log {
    pub(super) topic: Arc<Topic>,
    pub(super) index: i32,
    pub(super) offset: i64,
    /// Of a topic clients made: no dead letters.
    pub(super) is_real: bool,
    /// Only what no transaction can take back.
    pub(super) committed: bool,
}

impl Log {
    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.name.clone(), partition: self.index }
    }
}

pub(super) fn plan(router: &Router, conn: &Conn, request: &FetchRequest) -> Vec<Planned> {
    let committed = request.isolation_level == READ_COMMITTED;
    let mut named = Named::default();
    let of = |topic| plan_topic(router, conn, topic, committed, &mut named);
    request.topics.iter().map(of).collect()
}

fn plan_topic<'a>(
    router: &Router,
    conn: &Conn,
    asked: &'a FetchTopic,
    committed: bool,
    named: &mut Named<(&'a str, Uuid, i32)>,
) -> Planned {
    let place = match router.named(&topic_of(&asked.topic), asked.topic_id) {
        Ok(name) => router.place_for(conn, &name).map_err(|error| match error {
            ResponseError::UnknownTopicOrPartition if !asked.topic_id.is_nil() => {
                ResponseError::UnknownTopicId
            }
            error => error,
        }),
        Err(error) => Err(code::of_broker(&error)),
    };
    let partitions = asked
        .partitions
        .iter()
        .filter(|of| named.first((asked.topic.as_str(), asked.topic_id, of.partition)))
        .map(|partition| Asked {
            index: partition.partition,
            bytes_max: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
            source: match &place {
                Ok(place) => source(place, partition, committed),
                Err(error) => Source::Refused(*error),
            },
        })
        .collect();
    Planned { name: asked.topic.clone(), id: asked.topic_id, partitions }
}

fn source(place: &Place, asked: &FetchPartition, committed: bool) -> Source {
    let index = asked.partition;
    if !(0..place.partitions()).contains(&index) {
        return Source::Refused(ResponseError::UnknownTopicOrPartition);
    }
    let offset = asked.fetch_offset;
    match place {
        Place::Local(topic) | Place::DeadLetters(Some(topic)) => {
            let is_real = matches!(place, Place::Local(_));
            Source::Log(Log { topic: Arc::clone(topic), index, offset, is_real, committed })
        }
        Place::DeadLetters(None) if offset == 0 => Source::Nothing,
        Place::DeadLetters(None) => Source::Refused(ResponseError::OffsetOutOfRange),
        Place::Retry(group) => match LaneOffset::from_kafka(offset) {
            Some(from) => Source::Lane { group: group.clone(), from },
            None => Source::Snapshot { group: group.clone(), from: offset },
        },
    }
}
