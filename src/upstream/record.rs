//! Reads one record from one broker: the bytes of an origin that a nack names by reference.

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;

use crate::model::Origin;
use crate::upstream::{Link, UpstreamError};
use crate::wire::batch::{Batch, Hidden, RawRecord, UnreadableBatch, find_record, whole_at};
use crate::wire::{Api, RequestHead, ResponseError, decode_answer, encode_request};

/// Served by Kafka 2.1 to 4.x, also for batches that are compressed by zstd (KIP-110). Only the
/// leader answers this version.
pub const FETCH_ANYWHERE: i16 = 10;
/// From this version any replica answers, not only the leader (KIP-392).
pub const FETCH_ANY_REPLICA: i16 = 11;
/// Bound of a batch unpacked. A broker returns the first batch whole even if it exceeds
/// `FETCH_BYTES`.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// Bytes requested of the partition.
const FETCH_BYTES: i32 = 1 << 20;
const FETCH_WAIT_MS: i32 = 500;
/// The answer ends before the first open transaction, and lists the aborted ones.
const READ_COMMITTED: i8 = 1;

/// The answer of a broker about one origin.
#[derive(Debug)]
pub enum OriginAnswer {
    Record(RawRecord),
    /// A batch covers the offset, and none of its records can be read.
    Unreadable(Box<UnreadableBatch>),
    /// A damaged batch may cover the offset: its end cannot be determined.
    Damaged,
    /// The leader has no record there: the log was truncated, or the offset was never used.
    Gone,
    /// The offset holds no record to deliver: an aborted transaction, a marker, or a record removed
    /// by the log cleaner.
    Empty,
    /// The requester is not authorized.
    Denied,
    /// No decision: another broker leads the partition, or this one may answer later.
    Elsewhere,
}

/// A record to be read on a client's connection.
#[derive(Debug)]
pub struct Question {
    pub origin: Origin,
    /// The waiter; closed when its connection ends first.
    pub reply: oneshot::Sender<OriginAnswer>,
}

impl Question {
    pub fn frame(&self, correlation_id: i32, client_id: &str) -> Result<Bytes, UpstreamError> {
        let (client, request) = (Some(client_id), fetch(&self.origin));
        Ok(encode_request(Api::Fetch, FETCH_ANYWHERE, correlation_id, client, &request)?)
    }

    /// Sends the result to the waiter; `frame` is the whole answer without its length prefix.
    pub fn answered(self, correlation_id: i32, frame: &Bytes) -> Result<(), UpstreamError> {
        let answer = decode_answer(Api::Fetch, FETCH_ANYWHERE, correlation_id, frame)?;
        // The waiter may be gone.
        drop(self.reply.send(answer_for(&answer, &self.origin)));
        Ok(())
    }
}

impl Link {
    /// Reads a record from this broker, with the client id of `head`. Only the leader decides that
    /// a record is gone. A replica may lag behind it, and each replica cleans its log by itself.
    pub async fn read_record(
        &mut self,
        version: i16,
        head: &RequestHead,
        origin: &Origin,
    ) -> Result<OriginAnswer, UpstreamError> {
        let found = self.read_record_at(version, head, origin).await?;
        if version < FETCH_ANY_REPLICA || !matches!(found, OriginAnswer::Gone | OriginAnswer::Empty)
        {
            return Ok(found);
        }
        self.read_record_at(FETCH_ANYWHERE, head, origin).await
    }

    async fn read_record_at(
        &mut self,
        version: i16,
        head: &RequestHead,
        origin: &Origin,
    ) -> Result<OriginAnswer, UpstreamError> {
        let answer = self.call_at(Api::Fetch, version, head, &fetch(origin)).await?;
        Ok(answer_for(&answer, origin))
    }
}

pub(super) fn fetch(origin: &Origin) -> FetchRequest {
    let mut partition = FetchPartition::default();
    partition.partition = origin.partition;
    partition.fetch_offset = origin.offset;
    partition.partition_max_bytes = FETCH_BYTES;
    let mut topic = FetchTopic::default();
    topic.topic = StrBytes::from_string(origin.topic.as_str().to_owned()).into();
    topic.partitions = vec![partition];
    let mut request = FetchRequest::default();
    request.max_wait_ms = FETCH_WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = FETCH_BYTES;
    // Records of aborted transactions are not delivered.
    request.isolation_level = READ_COMMITTED;
    // No fetch session (KIP-227).
    request.session_epoch = -1;
    request.topics = vec![topic];
    request
}

pub(super) fn answer_for(answer: &FetchResponse, origin: &Origin) -> OriginAnswer {
    let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
    // A broker answers with no partitions when the client exceeds its quota (KIP-219).
    let Some(partition) = partition else { return OriginAnswer::Elsewhere };
    let has_batches = partition.records.as_ref().is_some_and(|records| !records.is_empty());
    match ResponseError::try_from_code(partition.error_code) {
        None => match record_in(partition, origin) {
            Some(found) => found,
            // A replica that has not caught up, a new leader, or an open transaction: another
            // broker or a later request finds the record.
            None if !has_batches && origin.offset >= known_end(partition) => {
                OriginAnswer::Elsewhere
            }
            None => OriginAnswer::Gone,
        },
        Some(ResponseError::OffsetOutOfRange | ResponseError::InvalidTopicException) => {
            OriginAnswer::Gone
        }
        Some(ResponseError::TopicAuthorizationFailed) => OriginAnswer::Denied,
        // A new leader, a broker that has just started and knows no topic yet, or a failing one:
        // none of them proves that the record does not exist.
        Some(error) => {
            tracing::debug!(%origin, %error, "a failed record is not read back here and now");
            OriginAnswer::Elsewhere
        }
    }
}

/// End of the records that this broker can return: the last stable offset, or the high watermark.
pub(super) fn known_end(partition: &PartitionData) -> i64 {
    match partition.last_stable_offset {
        stable @ 0.. => stable.min(partition.high_watermark),
        _ => partition.high_watermark,
    }
}

fn record_in(partition: &PartitionData, origin: &Origin) -> Option<OriginAnswer> {
    let all = partition.records.clone()?;
    let aborted = partition.aborted_transactions.iter().flatten();
    let mut hidden = Hidden::new(aborted.map(|one| (one.producer_id.0, one.first_offset)));
    let mut records = all.clone();
    while !records.is_empty() {
        let Ok(batch) = Batch::parse(&records) else { return Some(OriginAnswer::Damaged) };
        let header = &batch.header;
        let is_hidden = hidden.show(header);
        if header.last_offset() >= origin.offset {
            if is_hidden || origin.offset < header.base_offset {
                return Some(OriginAnswer::Empty);
            }
            let end = partition.high_watermark;
            let whole = || whole_at(&all, origin.offset, end, RECORD_BYTES_MAX);
            return match read_in(&batch, origin.offset) {
                Ok(record) => Some(record.map_or(OriginAnswer::Empty, OriginAnswer::Record)),
                Err(()) => Some(whole().map_or(OriginAnswer::Damaged, |whole| {
                    OriginAnswer::Unreadable(Box::new(whole))
                })),
            };
        }
        records = records.slice(batch.bytes.len()..);
    }
    None
}

/// `Err`: the batch is damaged, or its compression is unknown.
fn read_in(batch: &Batch, offset: i64) -> Result<Option<RawRecord>, ()> {
    batch.check_crc().map_err(drop)?;
    let record = find_record(batch, offset, RECORD_BYTES_MAX).map_err(drop)?;
    // The record may be kept for long, so it gets its own memory: the fetch answer is much larger.
    Ok(record.map(|record| record.detached()))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse};

    use super::*;
    use crate::wire::batch::{Headers, TimestampType, empty_batch, marker_batch, produce_batch};

    /// The result for offset 7 of an answer without records.
    fn answer_at(high_watermark: i64, error: i16) -> OriginAnswer {
        let mut partition = PartitionData::default();
        (partition.high_watermark, partition.error_code) = (high_watermark, error);
        partition.records = Some(Bytes::new());
        let mut topic = FetchableTopicResponse::default();
        topic.partitions = vec![partition];
        let mut answer = FetchResponse::default();
        answer.responses = vec![topic];
        answer_for(&answer, &Origin { topic: "orders".into(), partition: 0, offset: 7 })
    }

    #[test]
    fn a_record_keeps_nothing_of_the_answer_it_came_in() {
        let raw = RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from_static(b"key")),
            value: Some(Bytes::from_static(b"value")),
            headers: Headers::NONE,
        };
        let records = produce_batch(std::slice::from_ref(&raw), None).unwrap();
        let place = records.as_ptr_range();
        let mut partition = PartitionData::default();
        (partition.high_watermark, partition.records) = (1, Some(records.clone()));
        let origin = Origin { topic: "orders".into(), partition: 0, offset: 0 };
        let Some(OriginAnswer::Record(record)) = record_in(&partition, &origin) else { panic!() };
        assert_eq!(record, raw);
        for part in [record.key, record.value] {
            assert!(!place.contains(&part.unwrap().as_ptr()));
        }
    }

    /// A transactional batch with this base offset and producer id.
    fn transactional(batch: &[u8], base: i64, producer: i64) -> Bytes {
        let mut batch = batch.to_vec();
        batch[..8].copy_from_slice(&base.to_be_bytes());
        batch[22] |= 1 << 4;
        batch[43..51].copy_from_slice(&producer.to_be_bytes());
        batch.into()
    }

    #[test]
    fn aborted_emptied_and_control_offsets_have_no_record() {
        let answer_in = |records: Bytes, aborted: &[(i64, i64)]| {
            let mut partition = PartitionData::default();
            (partition.high_watermark, partition.records) = (9, Some(records));
            let aborted = aborted.iter().map(|(producer, first)| {
                let mut one = AbortedTransaction::default();
                (one.producer_id, one.first_offset) = ((*producer).into(), *first);
                one
            });
            partition.aborted_transactions = Some(aborted.collect());
            record_in(&partition, &Origin { topic: "orders".into(), partition: 0, offset: 7 })
        };
        let emptied = transactional(&empty_batch(7, 0), 7, 1);
        let behind = transactional(&empty_batch(8, 0), 8, 1);
        let marker = transactional(&marker_batch(1, 0, false, 0), 7, 1);
        for records in [&emptied, &behind, &marker] {
            for aborted in [&[][..], &[(2, 5)], &[(1, 5)]] {
                assert!(matches!(answer_in(records.clone(), aborted), Some(OriginAnswer::Empty)));
            }
        }
    }

    #[test]
    fn a_lagging_replica_does_not_make_a_record_missing() {
        assert!(
            matches!(answer_at(7, 0), OriginAnswer::Elsewhere),
            "a replica behind, or a new leader"
        );
        assert!(matches!(answer_at(8, 0), OriginAnswer::Gone), "it lies below, and there is none");
        let out_of_range = ResponseError::OffsetOutOfRange.code();
        assert!(matches!(answer_at(-1, out_of_range), OriginAnswer::Gone));
        let denied = ResponseError::TopicAuthorizationFailed.code();
        assert!(matches!(answer_at(-1, denied), OriginAnswer::Denied));
    }

    #[test]
    fn a_truncated_answer_does_not_make_a_record_missing() {
        let mut partition = PartitionData::default();
        (partition.high_watermark, partition.records) = (8, Some(Bytes::from_static(&[0; 70])));
        let mut topic = FetchableTopicResponse::default();
        topic.partitions = vec![partition];
        let mut answer = FetchResponse::default();
        answer.responses = vec![topic];
        let origin = Origin { topic: "orders".into(), partition: 0, offset: 7 };
        assert!(matches!(answer_for(&answer, &origin), OriginAnswer::Damaged));
    }

    #[test]
    fn an_answer_without_a_record_does_not_make_it_missing() {
        let origin = Origin { topic: "orders".into(), partition: 0, offset: 7 };
        let throttled = answer_for(&FetchResponse::default(), &origin);
        assert!(matches!(throttled, OriginAnswer::Elsewhere), "{throttled:?}");
        for error in [
            ResponseError::UnknownServerError,
            ResponseError::CorruptMessage,
            ResponseError::UnsupportedCompressionType,
            ResponseError::RequestTimedOut,
        ] {
            assert!(matches!(answer_at(-1, error.code()), OriginAnswer::Elsewhere), "{error}");
        }
    }
}
