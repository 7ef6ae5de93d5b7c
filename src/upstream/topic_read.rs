//! Reads of a topic from an offset on, in order.

use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::model::{Origin, TopicName};
use crate::upstream::record::{FETCH_ANYWHERE, fetch, known_end};
use crate::upstream::writer::wire_text;
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::batch::{Batch, Hidden, RawRecord, RecordError, records};
use crate::wire::{Api, ResponseError};

/// Served by Kafka 2.1 to 4.x.
const LIST_OFFSETS: i16 = 1;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
/// Bound of a batch unpacked.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// The answer of a leader.
#[derive(Debug)]
pub enum ReadAnswer {
    Read(TopicRead),
    /// The log begins behind the offset, or ends before it.
    OutOfRange,
    Refused(ResponseError),
}

/// Records of one partition, without those of aborted transactions.
#[derive(Debug, Default)]
pub struct TopicRead {
    pub records: Vec<(i64, RawRecord)>,
    /// The offset to read next.
    pub next: i64,
    /// The first offset of the log.
    pub start: i64,
    /// The offset behind the last record that can be read.
    end: i64,
}

impl TopicRead {
    /// Nothing of a log that begins behind the offset.
    pub fn before(start: i64) -> Self {
        Self { records: Vec::new(), next: start, start, end: i64::MAX }
    }

    /// Whether the log had no more records.
    pub fn is_end(&self) -> bool {
        self.next >= self.end
    }

    fn of(partition: &PartitionData, from: i64) -> Self {
        let (start, end) = (partition.log_start_offset, known_end(partition));
        let mut read = Self { records: Vec::new(), next: from, start, end };
        let aborted = partition.aborted_transactions.iter().flatten();
        let mut hidden = Hidden::new(aborted.map(|one| (one.producer_id.0, one.first_offset)));
        let mut rest = partition.records.clone().unwrap_or_default();
        // The last batch may be cut off: the next read begins with it.
        while let Ok(batch) = Batch::parse(&rest) {
            if !hidden.show(&batch.header)
                && let Err(error) = read.add(&batch, from)
            {
                let offset = batch.header.base_offset;
                tracing::warn!(
                    offset, %error,
                    "R0414 records of a dead-letter topic cannot be read and are skipped"
                );
            }
            read.next = read.next.max(batch.header.last_offset().saturating_add(1));
            rest = rest.slice(batch.bytes.len()..);
        }
        read
    }

    fn add(&mut self, batch: &Batch, from: i64) -> Result<(), RecordError> {
        batch.check_crc().map_err(|_| RecordError::Batch)?;
        for record in records(batch, BATCH_BYTES_MAX)? {
            let record = record?;
            if record.offset >= from {
                self.records.push((record.offset, record.into_raw().detached()));
            }
        }
        Ok(())
    }
}

fn has_bytes(partition: &PartitionData) -> bool {
    partition.records.as_ref().is_some_and(|bytes| !bytes.is_empty())
}

impl Upstream {
    /// Reads partition 0 of a topic from an offset on, with the sidecar's own credentials.
    pub async fn read_log(
        &self,
        links: &mut OwnLinks,
        (leader, topic, from): (i32, &TopicName, i64),
    ) -> Result<ReadAnswer, UpstreamError> {
        let mut request = fetch(&Origin { topic: topic.clone(), partition: 0, offset: from });
        request.max_wait_ms = 0;
        let api = (Api::Fetch, FETCH_ANYWHERE);
        let answer = links.call(self, Some(leader), api, &request).await?;
        let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
        let Some(partition) = partition else {
            return Ok(ReadAnswer::Refused(ResponseError::LeaderNotAvailable));
        };
        Ok(match ResponseError::try_from_code(partition.error_code) {
            None => match TopicRead::of(partition, from) {
                read if read.next == from && has_bytes(partition) => {
                    ReadAnswer::Refused(ResponseError::CorruptMessage)
                }
                read => ReadAnswer::Read(read),
            },
            Some(ResponseError::OffsetOutOfRange) => ReadAnswer::OutOfRange,
            Some(error) => ReadAnswer::Refused(error),
        })
    }

    /// The first offset of partition 0 of a topic, and the one behind its last record.
    pub async fn log_bounds(
        &self,
        links: &mut OwnLinks,
        (leader, topic): (i32, &TopicName),
    ) -> Result<(i64, i64), UpstreamError> {
        let mut bounds = [0; 2];
        for (bound, at) in bounds.iter_mut().zip([EARLIEST, LATEST]) {
            let mut partition = ListOffsetsPartition::default();
            (partition.partition_index, partition.timestamp) = (0, at);
            let mut asked = ListOffsetsTopic::default();
            asked.name = wire_text(topic.as_str()).into();
            asked.partitions = vec![partition];
            let mut request = ListOffsetsRequest::default();
            request.replica_id = (-1).into();
            request.topics = vec![asked];
            let api = (Api::ListOffsets, LIST_OFFSETS);
            let told: ListOffsetsResponse = links.call(self, Some(leader), api, &request).await?;
            let told = told.topics.first().and_then(|topic| topic.partitions.first());
            let told = told.filter(|told| told.error_code == 0).ok_or(UpstreamError::NoLeader)?;
            *bound = told.offset;
        }
        let [start, end] = bounds;
        Ok((start, end))
    }
}
