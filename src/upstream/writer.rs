//! Writes the sidecar's own records into topics of the cluster: acks=all, idempotent where
//! authorized. Each record has the time of its first attempt, so that no retention deletes it at
//! once, and its own time in a header. A retry keeps its own time, as no time deletes it.
//!
//! A write whose answer is lost is repeated with the same records, and the broker recognizes it by
//! its sequence numbers. After a restart, or when other records are written first, it cannot, and
//! the records are duplicated.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::model::{TopicName, WallMs};
use crate::upstream::numbers::{Numbers, SentBatch, WrittenPartition};
use crate::upstream::outcome::{FailureKind, WriteError, kind_of};
use crate::upstream::{OwnLinks, TopicSeen, Upstream, UpstreamError};
use crate::wire::batch::{ProducerStamp, RawRecord, produce_batch};
use crate::wire::mark::appended_at;
use crate::wire::{Api, ResponseError};

/// The oldest Produce of Kafka 4.x, and the first that takes headers.
const PRODUCE: i16 = 3;
const INIT_PRODUCER_ID: i16 = 0;
/// The first version that may leave partitions or replicas to the cluster (Kafka 2.4).
const CREATE_TOPICS: i16 = 4;
/// For an older broker, which has to be told the number of replicas.
const CREATE_TOPICS_OLD: i16 = 2;
pub(super) const DESCRIBE_CONFIGS: i16 = 1;
/// A broker, as a resource of DescribeConfigs.
const BROKER_RESOURCE: i8 = 4;
const DEFAULT_REPLICAS: &str = "default.replication.factor";
const ACKS_ALL: i16 = -1;
/// Pause between looks for the leaders of a new topic.
const LEADERLESS: Duration = Duration::from_millis(50);
/// Time that a broker may wait for replicas, or for the creation of a topic.
const BROKER_WAIT_MS: i32 = 10_000;
/// Longer than a broker's wait and a connect together.
const PATIENCE: Duration = Duration::from_secs(20);
/// Partitions of a topic of dead letters, because the sidecar keeps one order of them.
const PARTITIONS: i32 = 1;
/// The cluster's own default.
const REPLICAS: i16 = -1;
/// Dead letters wait for an operator without a time limit, and retries for their group.
const CONFIGS: [(&str, &str); 4] = [
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("message.timestamp.type", "CreateTime"),
    // 64 MiB, above each record that the engine takes.
    ("max.message.bytes", "67108864"),
];

/// Writes records for one task, one write at a time.
#[derive(Debug)]
pub struct TopicWriter {
    /// Bound of one write, with the look-up or creation of its topic.
    patience: Duration,
    /// The partitions of a topic that is not there and is made; `None`: none is made.
    new_partitions: Option<i32>,
    /// Each record keeps its own time.
    keeps_time: bool,
    links: OwnLinks,
    topics: BTreeMap<TopicName, TopicSeen>,
    producer: ProducerIdentity,
    /// Sequences of each partition under `producer`.
    numbers: Numbers,
}

/// The producer id, as far as the cluster has given one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ProducerIdentity {
    #[default]
    Unasked,
    Known {
        id: i64,
        epoch: i16,
    },
    /// The cluster gives the sidecar no producer id: writes are not idempotent.
    Nobody,
}

impl Default for TopicWriter {
    fn default() -> Self {
        Self::patient(PATIENCE)
    }
}

impl TopicWriter {
    /// `patience` bounds one whole write.
    pub fn patient(patience: Duration) -> Self {
        Self {
            patience,
            new_partitions: Some(PARTITIONS),
            keeps_time: false,
            links: OwnLinks::default(),
            topics: BTreeMap::new(),
            producer: ProducerIdentity::default(),
            numbers: Numbers::default(),
        }
    }

    /// Writes into topics that are there, and makes none.
    pub fn to_existing_topics() -> Self {
        Self { new_partitions: None, ..Self::default() }
    }

    /// Writes retries into topics that are there. Each keeps its own time.
    pub fn of_retries() -> Self {
        Self { keeps_time: true, ..Self::to_existing_topics() }
    }

    /// Makes topics of that many partitions; `patience` bounds one whole look-up.
    pub fn of_new_topics(partitions: i32, patience: Duration) -> Self {
        Self { new_partitions: Some(partitions), ..Self::patient(patience) }
    }

    /// Forgets what the cluster has told of its topics.
    pub fn forget_topics(&mut self) {
        self.topics.clear();
    }

    /// The partition count of the topic, which is created if it does not exist.
    pub async fn partitions(
        &mut self,
        upstream: &Upstream,
        topic: &TopicName,
    ) -> Result<i32, WriteError> {
        let metadata = tokio::time::timeout(self.patience, self.topic_metadata(upstream, topic));
        let metadata = metadata.await.map_err(|_| UpstreamError::TooSlow)??;
        Ok(i32::try_from(metadata.leaders.len()).unwrap_or(i32::MAX))
    }

    /// Writes the records as one batch; every replica in sync has them on return. Returns the
    /// offset of the first one; `None`: they were there already, or there is none.
    pub async fn write(
        &mut self,
        upstream: &Upstream,
        topic: &TopicName,
        partition: i32,
        records: &[RawRecord],
        now: WallMs,
    ) -> Result<Option<i64>, WriteError> {
        let patience = self.patience;
        let written = self.try_write(upstream, (topic, partition), records, now);
        let written = tokio::time::timeout(patience, written).await;
        let written = written.unwrap_or_else(|_| Err(UpstreamError::TooSlow.into()));
        if let Err(error) = &written
            && error.kind() != FailureKind::Refused
        {
            // The partition may have a new leader.
            self.topics.remove(topic);
        }
        if written.as_ref().is_err_and(|error| error.kind() == FailureKind::Forgotten) {
            self.reset_producer();
        }
        written
    }

    async fn try_write(
        &mut self,
        upstream: &Upstream,
        (topic, partition): (&TopicName, i32),
        records: &[RawRecord],
        now: WallMs,
    ) -> Result<Option<i64>, WriteError> {
        let no_leader =
            || WriteError::Topic { topic: topic.clone(), error: ResponseError::LeaderNotAvailable };
        let metadata = self.topic_metadata(upstream, topic).await?;
        let index = usize::try_from(partition).ok();
        let leader = index.and_then(|index| metadata.leaders.get(index).copied().flatten());
        let leader = leader.ok_or_else(no_leader)?;
        let place = (topic.clone(), partition);
        let Some((batch, sent)) = self.batch(upstream, &place, records, now).await? else {
            return Ok(None);
        };
        let request = produce_request(topic, partition, batch);
        let answer: ProduceResponse =
            self.links.call(upstream, Some(leader), (Api::Produce, PRODUCE), &request).await?;
        let written = answer.responses.first().and_then(|topic| topic.partition_responses.first());
        let written =
            written.filter(|written| written.index == partition).ok_or(WriteError::NoAnswer)?;
        match ResponseError::try_from_code(written.error_code) {
            None => {
                self.numbers.record_written(&place, records.len());
                Ok(Some(written.base_offset).filter(|base| *base >= 0))
            }
            // The broker has the records from an attempt whose answer was lost. For the last five
            // batches it names the offset, without an error.
            Some(ResponseError::DuplicateSequenceNumber) => {
                self.numbers.record_written(&place, records.len());
                Ok(None)
            }
            Some(error) => {
                if kind_of(error) == FailureKind::Refused {
                    self.numbers.record_refused(&place, sent);
                }
                Err(WriteError::Topic { topic: topic.clone(), error })
            }
        }
    }

    /// Encodes the records. Takes a new producer id if other records may be in the log with the
    /// next sequence. `None`: there are no records.
    async fn batch(
        &mut self,
        upstream: &Upstream,
        place: &WrittenPartition,
        records: &[RawRecord],
        now: WallMs,
    ) -> Result<Option<(Bytes, SentBatch)>, WriteError> {
        loop {
            let stamp = self.stamp(upstream, place).await?;
            let sent = match stamp {
                Some(_) => self.numbers.send(place, records, now),
                None => Some(SentBatch { at: now, ..SentBatch::default() }),
            };
            if let Some(sent) = sent {
                let batch = if self.keeps_time {
                    produce_batch(records, stamp)
                } else {
                    let records: Vec<_> =
                        records.iter().map(|record| appended_at(record, sent.at)).collect();
                    produce_batch(&records, stamp)
                };
                return Ok(batch.map(|batch| (batch, sent)));
            }
            self.reset_producer();
        }
    }

    /// The next batch gets a new producer id.
    fn reset_producer(&mut self) {
        self.producer = ProducerIdentity::Unasked;
        self.numbers = Numbers::default();
    }

    /// Looks up a topic, and creates it if it does not exist.
    async fn topic_metadata(
        &mut self,
        upstream: &Upstream,
        topic: &TopicName,
    ) -> Result<TopicSeen, WriteError> {
        if let Some(metadata) = self.topics.get(topic) {
            return Ok(metadata.clone());
        }
        let mut metadata = upstream.see_topic(&mut self.links, topic).await?;
        if let Some(partitions) = self.new_partitions
            && metadata.error == Some(ResponseError::UnknownTopicOrPartition)
        {
            self.create_topic(upstream, (topic, partitions), metadata.controller).await?;
            metadata = self.see_leaders(upstream, topic).await?;
        }
        if let Some(error) = metadata.error {
            return Err(WriteError::Topic { topic: topic.clone(), error });
        }
        if metadata.leaders.is_empty() {
            let error = ResponseError::LeaderNotAvailable;
            return Err(WriteError::Topic { topic: topic.clone(), error });
        }
        self.topics.insert(topic.clone(), metadata.clone());
        Ok(metadata)
    }

    /// Looks up a topic that was just made, until each partition has a leader.
    async fn see_leaders(
        &mut self,
        upstream: &Upstream,
        topic: &TopicName,
    ) -> Result<TopicSeen, WriteError> {
        loop {
            let seen = upstream.see_topic(&mut self.links, topic).await?;
            let is_passing = seen.error.is_some_and(|error| error.is_retriable());
            let is_led = !seen.leaders.is_empty() && seen.leaders.iter().all(Option::is_some);
            if is_led || seen.error.is_some() && !is_passing {
                return Ok(seen);
            }
            tokio::time::sleep(LEADERLESS).await;
        }
    }

    async fn create_topic(
        &mut self,
        upstream: &Upstream,
        (topic, partitions): (&TopicName, i32),
        controller: Option<i32>,
    ) -> Result<(), WriteError> {
        let newest = self.links.newest(upstream, controller, Api::CreateTopics).await?;
        let is_old = newest < Some(CREATE_TOPICS);
        let mut topic_request = CreatableTopic::default();
        topic_request.name = wire_text(topic.as_str()).into();
        topic_request.num_partitions = partitions;
        topic_request.replication_factor = if is_old {
            self.default_replicas(upstream, topic, controller).await?
        } else {
            REPLICAS
        };
        topic_request.configs = CONFIGS
            .iter()
            .map(|(name, value)| {
                let mut config = CreatableTopicConfig::default();
                config.name = wire_text(name);
                config.value = Some(wire_text(value));
                config
            })
            .collect();
        let mut request = CreateTopicsRequest::default();
        request.topics = vec![topic_request];
        request.timeout_ms = BROKER_WAIT_MS;
        let version = if is_old { CREATE_TOPICS_OLD } else { CREATE_TOPICS };
        let api = (Api::CreateTopics, version);
        let answer: CreateTopicsResponse =
            self.links.call(upstream, controller, api, &request).await?;
        let created = answer.topics.first().ok_or(WriteError::NoAnswer)?;
        match ResponseError::try_from_code(created.error_code) {
            None => {
                tracing::info!(%topic, partitions, "a topic was made in the cluster");
                Ok(())
            }
            Some(ResponseError::TopicAlreadyExists) => Ok(()),
            Some(error) => {
                let message = created.error_message.as_ref().filter(|text| !text.is_empty());
                let message = message.map_or_else(|| error.to_string(), ToString::to_string);
                Err(WriteError::NotMade { topic: topic.clone(), error, says: message })
            }
        }
    }

    /// The number of replicas that the controller gives a topic by default.
    async fn default_replicas(
        &mut self,
        upstream: &Upstream,
        topic: &TopicName,
        controller: Option<i32>,
    ) -> Result<i16, WriteError> {
        let node = controller.ok_or(WriteError::NoAnswer)?;
        let mut resource = DescribeConfigsResource::default();
        resource.resource_type = BROKER_RESOURCE;
        resource.resource_name = wire_text(&node.to_string());
        resource.configuration_keys = Some(vec![wire_text(DEFAULT_REPLICAS)]);
        let mut request = DescribeConfigsRequest::default();
        request.resources = vec![resource];
        let api = (Api::DescribeConfigs, DESCRIBE_CONFIGS);
        let answer: DescribeConfigsResponse =
            self.links.call(upstream, controller, api, &request).await?;
        let told = answer.results.first().ok_or(WriteError::NoAnswer)?;
        if let Some(error) = ResponseError::try_from_code(told.error_code) {
            let says = format!("its {DEFAULT_REPLICAS} is not known: {error}");
            return Err(WriteError::NotMade { topic: topic.clone(), error, says });
        }
        // Kafka's own default is 1.
        let value = told.configs.first().and_then(|config| config.value.as_ref());
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(1))
    }

    /// The producer id, epoch and sequence of the next batch; `None`: not idempotent.
    async fn stamp(
        &mut self,
        upstream: &Upstream,
        place: &WrittenPartition,
    ) -> Result<Option<ProducerStamp>, WriteError> {
        if self.producer == ProducerIdentity::Unasked {
            let mut request = InitProducerIdRequest::default();
            request.transactional_id = None;
            request.transaction_timeout_ms = BROKER_WAIT_MS;
            let api = (Api::InitProducerId, INIT_PRODUCER_ID);
            let answer: InitProducerIdResponse =
                self.links.call(upstream, None, api, &request).await?;
            self.producer = match ResponseError::try_from_code(answer.error_code) {
                None => ProducerIdentity::Known {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                },
                Some(error) if kind_of(error) == FailureKind::Denied => {
                    tracing::warn!(
                        %error,
                        "R0218 the cluster denies this sidecar a producer id: a record may be \
                         written twice; allow IDEMPOTENT_WRITE"
                    );
                    ProducerIdentity::Nobody
                }
                Some(error) => return Err(WriteError::ProducerId(error)),
            };
        }
        let sequence = self.numbers.next(place);
        Ok(match self.producer {
            ProducerIdentity::Known { id, epoch } => Some(ProducerStamp { id, epoch, sequence }),
            ProducerIdentity::Unasked | ProducerIdentity::Nobody => None,
        })
    }
}

fn produce_request(topic: &TopicName, partition: i32, batch: Bytes) -> ProduceRequest {
    let mut data = PartitionProduceData::default();
    data.index = partition;
    data.records = Some(batch);
    let mut part = TopicProduceData::default();
    part.name = wire_text(topic.as_str()).into();
    part.partition_data = vec![data];
    let mut request = ProduceRequest::default();
    request.transactional_id = None;
    request.acks = ACKS_ALL;
    request.timeout_ms = BROKER_WAIT_MS;
    request.topic_data = vec![part];
    request
}

pub(super) fn wire_text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
