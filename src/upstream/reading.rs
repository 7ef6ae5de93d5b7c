//! Reads single records back from the cluster, on connections of our own: the bytes of an origin
//! that a nack names by reference.

use std::collections::BTreeMap;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Mutex;

use crate::model::{Origin, TopicName};
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::batch::{Batch, RawRecord, find_record};
use crate::wire::{Api, ResponseError};

/// The oldest Fetch of Kafka 4.x, served since 1.0.
const FETCH: i16 = 4;
/// A batch is answered whole even when it is larger; it unpacks to at most this.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// Asked of one partition.
const FETCH_BYTES: i32 = 1 << 20;
const FETCH_WAIT_MS: i32 = 500;

/// A leader that has moved is asked for again, this often in all.
const ASKED_MAX: usize = 3;

/// What a leader has to say of an origin.
enum Found {
    Record(RawRecord),
    /// It is not there, or not for us.
    Nothing,
    /// Somebody else leads the partition.
    Moved,
}

/// Leaders remembered at most; one that is forgotten is asked for again.
const LEADERS_MAX: usize = 10_000;

/// Our own connections and what we have asked for.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    links: OwnLinks,
    leaders: BTreeMap<(TopicName, i32), i32>,
}

impl Upstream {
    /// The record at `origin`, read on a connection of our own with our own credentials; `None`:
    /// it is not there any more, or not for us. An error may be another time.
    pub async fn read_record(&self, origin: &Origin) -> Result<Option<RawRecord>, UpstreamError> {
        for _ in 0..ASKED_MAX {
            match self.ask_for(origin).await {
                Ok(Found::Moved) => {}
                Ok(Found::Record(record)) => return Ok(Some(record)),
                // To close is how a broker treats those it does not know.
                Ok(Found::Nothing) | Err(UpstreamError::Closed | UpstreamError::Io(_)) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn ask_for(&self, origin: &Origin) -> Result<Found, UpstreamError> {
        let mut reading = self.reading.0.lock().await;
        let partition = (origin.topic.clone(), origin.partition);
        let State { links, leaders } = &mut *reading;
        // Whatever ends this before its answer is whole takes the leader with it.
        let leader = match leaders.remove(&partition) {
            Some(leader) => leader,
            None => match self.leader(links, origin).await? {
                Some(leader) => leader,
                None => return Ok(Found::Nothing),
            },
        };
        let answer = links.call(self, Some(leader), (Api::Fetch, FETCH), &fetch(origin)).await?;
        let found = found(&answer, origin);
        if matches!(found, Found::Record(_)) && leaders.len() < LEADERS_MAX {
            leaders.insert(partition, leader);
        }
        Ok(found)
    }

    async fn leader(
        &self,
        links: &mut OwnLinks,
        origin: &Origin,
    ) -> Result<Option<i32>, UpstreamError> {
        let seen = self.see_topic(links, &origin.topic).await?;
        let index = usize::try_from(origin.partition).ok();
        Ok(index.and_then(|index| seen.leaders.get(index).copied().flatten()))
    }
}

fn fetch(origin: &Origin) -> FetchRequest {
    let mut partition = FetchPartition::default();
    partition.partition = origin.partition;
    partition.fetch_offset = origin.offset;
    partition.partition_max_bytes = FETCH_BYTES;
    let mut topic = FetchTopic::default();
    topic.topic = wire_text(origin.topic.as_str()).into();
    topic.partitions = vec![partition];
    let mut request = FetchRequest::default();
    request.max_wait_ms = FETCH_WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = FETCH_BYTES;
    request.topics = vec![topic];
    request
}

fn found(answer: &FetchResponse, origin: &Origin) -> Found {
    let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
    let Some(partition) = partition else { return Found::Nothing };
    match ResponseError::try_from_code(partition.error_code) {
        None => record_in(partition, origin).map_or(Found::Nothing, Found::Record),
        Some(
            ResponseError::NotLeaderOrFollower
            | ResponseError::LeaderNotAvailable
            | ResponseError::FencedLeaderEpoch,
        ) => Found::Moved,
        Some(error) => {
            tracing::warn!(%origin, %error, "a failed record cannot be read back");
            Found::Nothing
        }
    }
}

fn record_in(partition: &PartitionData, origin: &Origin) -> Option<RawRecord> {
    let mut records = partition.records.clone()?;
    while !records.is_empty() {
        let batch = Batch::parse(&records).ok()?;
        if batch.header.last_offset() >= origin.offset {
            batch.check_crc().ok()?;
            return find_record(&batch, origin.offset, RECORD_BYTES_MAX).ok().flatten();
        }
        records = records.slice(batch.bytes.len()..);
    }
    None
}

fn wire_text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
