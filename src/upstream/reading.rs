//! Reads single records back from the cluster, on connections of our own: the bytes of an origin
//! that a nack names by reference.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{FetchRequest, FetchResponse, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Mutex;

use crate::model::{ClientId, Origin, TopicName};
use crate::upstream::{Address, Link, Upstream, UpstreamError};
use crate::wire::batch::{Batch, RawRecord, find_record};
use crate::wire::{Api, RequestHead, ResponseError};

/// What we call ourselves to brokers.
const CLIENT_ID: &str = "reprise";
/// The first Metadata that can be told not to create topics; Kafka 2.1 and 4.x both serve it.
const METADATA: i16 = 4;
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
pub(super) struct Own(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By node id; one that breaks is dropped.
    links: BTreeMap<i32, Link>,
    leaders: BTreeMap<(TopicName, i32), i32>,
}

impl Upstream {
    /// The record at `origin`; `None`: it is not there any more, or not readable without the
    /// client's credentials. An error may be another time.
    pub async fn read_record(&self, origin: &Origin) -> Result<Option<RawRecord>, UpstreamError> {
        let mut is_closed = false;
        for _ in 0..ASKED_MAX {
            match self.ask_for(origin).await {
                Ok(Found::Moved) => is_closed = false,
                Ok(Found::Record(record)) => return Ok(Some(record)),
                Ok(Found::Nothing) => return Ok(None),
                // A connection of before its broker went, perhaps: a new one tells.
                Err(UpstreamError::Closed | UpstreamError::Io(_)) => is_closed = true,
                Err(error) => return Err(error),
            }
        }
        // To close is how a broker treats those it does not know.
        if is_closed { Ok(None) } else { Err(UpstreamError::NoLeader) }
    }

    async fn ask_for(&self, origin: &Origin) -> Result<Found, UpstreamError> {
        let mut own = self.own.0.lock().await;
        let partition = (origin.topic.clone(), origin.partition);
        let leader = match own.leaders.remove(&partition) {
            Some(leader) => leader,
            None => match self.leader(origin).await? {
                Some(Some(leader)) => leader,
                Some(None) => return Ok(Found::Moved),
                None => return Ok(Found::Nothing),
            },
        };
        let mut link = match own.links.remove(&leader) {
            Some(link) => link,
            None => self.dial(Some(leader)).await?,
        };
        // Whatever ends this before its answer is whole takes connection and leader with it.
        let answer = link.call(&head(Api::Fetch, FETCH), &fetch(origin)).await?;
        own.links.insert(leader, link);
        let found = found(&answer, origin);
        if matches!(found, Found::Record(_)) && own.leaders.len() < LEADERS_MAX {
            own.leaders.insert(partition, leader);
        }
        Ok(found)
    }

    /// `None`: there is no such partition. `Some(None)`: nobody leads it now.
    async fn leader(&self, origin: &Origin) -> Result<Option<Option<i32>>, UpstreamError> {
        let mut topic = MetadataRequestTopic::default();
        topic.name = Some(wire_text(origin.topic.as_str()).into());
        let mut request = MetadataRequest::default();
        request.topics = Some(vec![topic]);
        request.allow_auto_topic_creation = false;
        let mut link = self.dial(None).await?;
        let answer: MetadataResponse = link.call(&head(Api::Metadata, METADATA), &request).await?;
        for broker in &answer.brokers {
            if let Some(address) = Address::of_wire(&broker.host, broker.port) {
                self.learn(broker.node_id.0, address);
            }
        }
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let mut wanted = partitions.filter(|p| p.partition_index == origin.partition);
        let leader = wanted.next().map(|partition| partition.leader_id.0);
        Ok(leader.map(|leader| Some(leader).filter(|leader| *leader >= 0)))
    }
}

fn head(api: Api, version: i16) -> RequestHead {
    RequestHead {
        api,
        api_key: api.key(),
        version,
        correlation_id: 1,
        client_id: Some(ClientId::new(CLIENT_ID)),
        body: Bytes::new(),
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
