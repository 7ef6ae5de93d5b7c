//! Records that a partition waits for, but that the cluster's log has lost: to retention or
//! `DeleteRecords`.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{FetchResponse, ListOffsetsRequest};

use crate::model::{Origin, TopicName, TopicPartition};
use crate::route::convert::{topic_of, wire_topic};
use crate::route::fetch::conditioned::{BrokerFetch, FetchPoll};
use crate::route::fetch::member::FetchGuard;
use crate::upstream::{OriginAnswer, UpstreamError};
use crate::wire::ResponseError;
use crate::wire::api::Api;

/// The first version with one offset for each partition; every broker serves it.
const LIST_OFFSETS_VERSION: i16 = 1;
/// `ListOffsets` timestamp of the earliest offset.
const EARLIEST: i64 = -2;
/// `replica_id` of a consumer.
const CONSUMER: i32 = -1;

impl<G: FetchGuard> FetchPoll<'_, G> {
    /// For fetch offsets behind the awaited record nothing is fetched upstream. The broker is
    /// therefore asked where the partition starts.
    pub(super) async fn left_behind(&mut self) -> Result<(), UpstreamError> {
        let mut topics: BTreeMap<TopicName, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for asked in &self.wanted.asked {
            let TopicPartition { topic, partition } = &asked.partition;
            if self.guard.awaited(&asked.partition).is_some_and(|first| first < asked.offset) {
                let earliest = ListOffsetsPartition::default().with_timestamp(EARLIEST);
                let earliest = earliest.with_partition_index(*partition);
                topics.entry(topic.clone()).or_default().push(earliest);
            }
        }
        if topics.is_empty() {
            return Ok(());
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            let topic = ListOffsetsTopic::default().with_name(wire_topic(&name));
            topic.with_partitions(partitions)
        });
        let request = ListOffsetsRequest::default().with_replica_id(CONSUMER.into());
        let request = request.with_topics(topics.collect());
        let BrokerFetch { link, head, .. } = &mut self.asking;
        let told = link.call_at(Api::ListOffsets, LIST_OFFSETS_VERSION, head, &request).await?;
        for topic in &told.topics {
            for begins in topic.partitions.iter().filter(|begins| begins.error_code == 0) {
                let (topic, partition) = (topic_of(&topic.name), begins.partition_index);
                self.guard.begin([(TopicPartition { topic, partition }, begins.offset)]);
            }
        }
        Ok(())
    }

    /// A partition that starts behind the awaited record no longer waits. At `OFFSET_OUT_OF_RANGE`
    /// the client resets its offset, so the awaited record is read before that.
    pub(super) async fn missing(&mut self, response: &FetchResponse) -> Result<(), UpstreamError> {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let mut looks = Vec::new();
        for (data, place) in partitions.zip(self.wanted.places(&self.request)) {
            let asked = place.and_then(|place| self.wanted.asked.get(place));
            let Some(asked) = asked else { continue };
            let Some(first) = self.guard.awaited(&asked.partition) else { continue };
            if data.error_code == 0 {
                self.guard.begin([(asked.partition.clone(), data.log_start_offset)]);
            } else if data.error_code == ResponseError::OffsetOutOfRange.code() {
                looks.push((asked.partition.clone(), first));
            }
        }
        for (of, offset) in looks {
            let TopicPartition { topic, partition } = of.clone();
            let origin = Origin { topic, partition, offset };
            let BrokerFetch { link, head, record_version } = &mut self.asking;
            let found = link.read_record(*record_version, head, &origin).await?;
            if matches!(found, OriginAnswer::Gone | OriginAnswer::Empty) {
                self.guard.begin([(of, offset.saturating_add(1))]);
            }
        }
        Ok(())
    }
}
