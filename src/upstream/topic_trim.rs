//! Deletes the first records of a partition.

use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::model::TopicName;
use crate::upstream::writer::wire_text;
use crate::upstream::{OwnLinks, Upstream, WriteError};
use crate::wire::{Api, ResponseError};

/// Served by Kafka 2.1 to 4.x.
const DELETE_RECORDS: i16 = 1;
/// Time that a broker may wait for its replicas.
const BROKER_WAIT_MS: i32 = 10_000;

impl Upstream {
    /// Deletes the records of a partition before an offset, with the sidecar's own credentials.
    pub async fn delete_records(
        &self,
        links: &mut OwnLinks,
        (topic, partition): (&TopicName, i32),
        end: i64,
    ) -> Result<(), WriteError> {
        let failed = |error| WriteError::Topic { topic: topic.clone(), error };
        let seen = self.see_topic(links, topic).await?;
        let leader = seen.leader(partition);
        let leader = leader
            .ok_or_else(|| failed(seen.error.unwrap_or(ResponseError::LeaderNotAvailable)))?;
        let mut asked = DeleteRecordsPartition::default();
        (asked.partition_index, asked.offset) = (partition, end);
        let mut of = DeleteRecordsTopic::default();
        of.name = wire_text(topic.as_str()).into();
        of.partitions = vec![asked];
        let mut request = DeleteRecordsRequest::default();
        request.topics = vec![of];
        request.timeout_ms = BROKER_WAIT_MS;
        let api = (Api::DeleteRecords, DELETE_RECORDS);
        let told: DeleteRecordsResponse = links.call(self, Some(leader), api, &request).await?;
        let told = told.topics.first().and_then(|topic| topic.partitions.first());
        let told = told.ok_or(WriteError::NoAnswer)?;
        ResponseError::try_from_code(told.error_code).map_or(Ok(()), |error| Err(failed(error)))
    }
}
