//! `Produce` 3–13: to a local partition, to the dead letters, or to a retry topic (evidence
//! `produced-nack`).
//!
//! Everything is appended before the first await, so that overlapping requests of one connection
//! keep their order in the log. Only durability is awaited.

mod batch;
mod delayed;
mod letters;
mod local;
mod nack;
mod produce_delay;
mod produce_outcome;
mod produce_sender;
mod produce_transaction;
mod relayed;

use std::future::poll_fn;
use std::task::Poll;

use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};

use crate::broker::error::BrokerError;
use crate::model::TopicName;
use crate::route::clients::conn::Conn;
use crate::route::convert::{some_text, text, topic_of};
use crate::route::nacks::origin_records::ReadBack;
use crate::route::reply::{AnswerError, Reply};
use crate::route::topics::topic_names::{ProduceTarget, TopicKind};
use crate::route::{Router, code};
use crate::wire::batch::BatchHeader;
use crate::wire::{DecodeError, RequestHead, ResponseError, decode};

pub(super) use nack::{by_reference, origin_at, origin_record};
pub use produce_delay::ProduceDelay;
use produce_outcome::{PendingOutcome, ProduceOutcome, done};
use produce_sender::ProduceSender;
pub(super) use produce_transaction::NOT_TRANSACTIONAL;
use produce_transaction::{OUTSIDE_TRANSACTION, ProduceTransaction};
pub use relayed::ProduceOwner;

/// The values of `acks`.
const ALL: i16 = -1;
const LEADER: i16 = 1;
const NONE: i16 = 0;

/// First version whose first batch adds its partition to the transaction (KIP-890).
const IMPLIED_SINCE: i16 = 12;

pub(super) struct PendingProduce<'a> {
    acks: i16,
    topics: PendingTopics<'a>,
}

type PendingTopics<'a> = Vec<(TopicProduceResponse, Vec<PendingPartition<'a>>)>;

/// The pending response of one partition.
struct PendingPartition<'a> {
    index: i32,
    waiting: PendingOutcome<'a>,
    /// The batch is in the engine's queue, which has no bound of its own.
    is_queued: bool,
}

/// Decodes the request and appends everything in it. `back`: the records read back for its nacks.
pub(super) fn begin<'a>(
    router: &'a Router,
    (conn, back): (&Conn, &ReadBack),
    head: &RequestHead,
) -> Result<PendingProduce<'a>, DecodeError> {
    let request = decode::<ProduceRequest>(head)?;
    router.learn_owners(&request);
    let from = ProduceSender { conn, back, version: head.version };
    Ok(PendingProduce::begin(router, from, request))
}

impl<'a> PendingProduce<'a> {
    fn begin(router: &'a Router, from: ProduceSender<'_>, request: ProduceRequest) -> Self {
        let refusal = refusal(router, &request);
        Self { acks: request.acks, topics: append(router, from, request, refusal) }
    }

    /// Waits until everything is as durable as `acks` promises.
    pub(super) async fn finish(
        self,
        router: &Router,
        head: &RequestHead,
    ) -> Result<Reply, AnswerError> {
        if self.acks == NONE {
            return Ok(match unqueued(self.topics).await {
                None => Reply::Nothing,
                Some(why) => Reply::Close(why),
            });
        }
        let mut response = ProduceResponse::default();
        self.add_to(&mut response).await;
        router.encoded(head, &response)
    }

    async fn add_to(self, response: &mut ProduceResponse) {
        for (mut topic, partitions) in self.topics {
            for PendingPartition { index, waiting, .. } in partitions {
                topic.partition_responses.push(respond(index, waiting.await));
            }
            response.responses.push(topic);
        }
    }
}

/// Waits for nacks in the engine's queue: a client with acks 0 would otherwise fill the queue as
/// fast as the network allows. Returns a refusal if one is known by then. As in Kafka, the
/// connection ends with it, since the client has no other way to learn of it.
async fn unqueued(topics: PendingTopics<'_>) -> Option<String> {
    let mut refusal = None;
    for (topic, partitions) in topics {
        for PendingPartition { index, mut waiting, is_queued } in partitions {
            let outcome = if is_queued {
                Some(waiting.await)
            } else {
                poll_fn(|cx| match waiting.as_mut().poll(cx) {
                    Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                    Poll::Pending => Poll::Ready(None),
                })
                .await
            };
            if let Some(ProduceOutcome { error: Some(error), message, .. }) = outcome {
                let (name, why) = (topic.name.as_str(), message.unwrap_or_default());
                refusal = Some(format!("Produce with acks 0: {error:?} for {name}-{index}: {why}"));
            }
        }
    }
    refusal
}

/// The refusal of the whole request, if any.
fn refusal(router: &Router, request: &ProduceRequest) -> Option<(ResponseError, &'static str)> {
    match request.transactional_id {
        // The cluster's transactions include no nacks.
        Some(_) if router.upstream.is_some() => {
            return Some((ResponseError::InvalidTxnState, NOT_TRANSACTIONAL));
        }
        None if request.topic_data.iter().any(has_transactional_batch) => {
            let (error, why) = OUTSIDE_TRANSACTION;
            let why = if router.upstream.is_some() { NOT_TRANSACTIONAL } else { why };
            return Some((error, why));
        }
        Some(_) | None => {}
    }
    (!matches!(request.acks, ALL | LEADER | NONE))
        .then_some((ResponseError::InvalidRequiredAcks, "acks must be all, 1 or 0"))
}

fn has_transactional_batch(topic: &TopicProduceData) -> bool {
    let records = topic.partition_data.iter().filter_map(|data| data.records.as_ref());
    let mut headers = records.filter_map(|records| BatchHeader::parse(records).ok());
    headers.any(|header| header.magic == 2 && header.is_transactional())
}

/// Appends everything, in the order of the request.
fn append<'a>(
    router: &'a Router,
    from: ProduceSender<'_>,
    request: ProduceRequest,
    refusal: Option<(ResponseError, &'static str)>,
) -> PendingTopics<'a> {
    let id = request.transactional_id;
    let implied = from.version >= IMPLIED_SINCE;
    let within = id.as_ref().map(|id| ProduceTransaction { id: id.as_str(), implied });
    let mut topics = Vec::with_capacity(request.topic_data.len());
    for asked in request.topic_data {
        let mut topic = TopicProduceResponse::default();
        topic.name = asked.name.clone();
        topic.topic_id = asked.topic_id;
        let place = find(router, from.conn, &asked);
        let is_queued = place.as_ref().is_ok_and(|(_, target)| match target {
            ProduceTarget::Nacks(_) | ProduceTarget::Topic(TopicKind::DeadLetters(_)) => true,
            ProduceTarget::Topic(TopicKind::Local(topic)) => {
                router.config.produce_delay.is_for(&topic.name)
            }
        });
        let mut partitions = Vec::with_capacity(asked.partition_data.len());
        for data in asked.partition_data {
            let index = data.index;
            let waiting = match (&refusal, &place) {
                (Some((error, why)), _) => done(ProduceOutcome::refused(*error, *why)),
                (None, Err((error, why))) => done(ProduceOutcome::refused(*error, why.as_str())),
                (None, Ok((name, place))) => one(router, from, (name, place), data, within),
            };
            partitions.push(PendingPartition { index, waiting, is_queued });
        }
        topics.push((topic, partitions));
    }
    topics
}

fn find(
    router: &Router,
    conn: &Conn,
    asked: &TopicProduceData,
) -> Result<(TopicName, ProduceTarget), (ResponseError, String)> {
    let of_broker = |error: BrokerError| (code::of_broker(&error), error.to_string());
    let name = router.named(&topic_of(&asked.name), asked.topic_id).map_err(of_broker)?;
    let place = router.target_for(conn, &name).map_err(|error| match error {
        ResponseError::TopicAuthorizationFailed => {
            (error, "a nack needs READ on its group".to_owned())
        }
        _ => of_broker(BrokerError::UnknownTopicOrPartition),
    })?;
    Ok((name, place))
}

fn one<'a>(
    router: &'a Router,
    from: ProduceSender<'_>,
    (name, target): (&TopicName, &ProduceTarget),
    data: PartitionProduceData,
    within: Option<ProduceTransaction<'_>>,
) -> PendingOutcome<'a> {
    let Some(records) = data.records.filter(|records| !records.is_empty()) else {
        return done(ProduceOutcome::refused(
            ResponseError::InvalidRecord,
            "there is no record batch",
        ));
    };
    match target {
        ProduceTarget::Topic(TopicKind::Local(topic)) => {
            local::begin(router, topic, data.index, records, (from.version, within))
        }
        ProduceTarget::Nacks(_) | ProduceTarget::Topic(_) if within.is_some() => {
            done(ProduceOutcome::refused(ResponseError::InvalidTxnState, NOT_TRANSACTIONAL))
        }
        ProduceTarget::Nacks(pair) => {
            if (0..router.retry_partitions(pair)).contains(&data.index) {
                return nack::begin(router, from, (pair, data.index), records);
            }
            done(ProduceOutcome::of_broker(&BrokerError::UnknownTopicOrPartition))
        }
        ProduceTarget::Topic(TopicKind::DeadLetters(_)) => {
            letters::begin(router, from.version, (name, data.index), records)
        }
    }
}

fn respond(index: i32, outcome: ProduceOutcome) -> PartitionProduceResponse {
    let mut response = PartitionProduceResponse::default();
    response.index = index;
    response.error_code = outcome.error.map_or(0, |error| error.code());
    response.base_offset = outcome.base_offset;
    // With CreateTime the producer's own timestamps stay.
    response.log_append_time_ms = -1;
    response.log_start_offset = outcome.log_start;
    response.error_message = outcome.message.as_deref().and_then(some_text);
    response.record_errors = outcome
        .record_errors
        .into_iter()
        .map(|(index, why)| {
            let mut error = BatchIndexAndErrorMessage::default();
            error.batch_index = index;
            error.batch_index_error_message = Some(text(&why));
            error
        })
        .collect();
    response
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_produce_without_acks_waits_only_for_the_engines_queue() {
        let is_over = |waiting: PendingOutcome<'_>, is_queued| {
            let pending = PendingPartition { index: 0, waiting, is_queued };
            let topics = vec![(TopicProduceResponse::default(), vec![pending])];
            pin!(unqueued(topics)).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(is_over(Box::pin(pending()), false), "the log bounds what waits for it itself");
        assert!(!is_over(Box::pin(pending()), true));
        assert!(is_over(Box::pin(ready(ProduceOutcome::taken(0, 0))), true));
    }
}
