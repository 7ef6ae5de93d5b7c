//! Produce to a topic with delayed records (`topics.produce_delay`). Delayed records are cut out of
//! their batch and sent to the engine, which appends the rest in the same atomic group.
//!
//! All batches of such a topic go through the engine, so that a producer's batches keep their
//! order.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::broker::AdmissionError;
use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::engine::{DelayBatch, EntrySource};
use crate::model::WallMs;
use crate::retry::{DelayEnd, FailureOutcome, RequestedDelay, delayed};
use crate::route::nacks::nack_batches::UNPACKED_BYTES_MAX;
use crate::route::produce::batch::refused;
use crate::route::produce::produce_outcome::{PendingOutcome, ProduceOutcome, done};
use crate::route::{Router, code};
use crate::wire::ResponseError;
use crate::wire::batch::{Batch, Headers, cut, records};
use crate::wire::mark::{BadDelay, Deliver, read_delay, without_delay};

/// Bound of the rest of a batch, which is stored unpacked: a journal entry holds at most 64 MiB in
/// all.
const REST_BYTES_MAX: usize = UNPACKED_BYTES_MAX / 2;

/// The rest of a batch, and its delayed records with their times.
struct SplitBatch {
    batch: Batch,
    records: Vec<(DelayEnd, Bytes)>,
}

pub(super) fn begin<'a>(
    router: &'a Router,
    topic: &Arc<Topic>,
    index: i32,
    batch: Batch,
) -> PendingOutcome<'a> {
    let SplitBatch { batch, records } = match part(router, topic, batch) {
        Ok(parted) => parted,
        Err(outcome) => return done(outcome),
    };
    let Some(stream) = topic.partition(index).map(|partition| partition.stream) else {
        return done(ProduceOutcome::of_broker(&BrokerError::UnknownTopicOrPartition));
    };
    let (told, produced) = oneshot::channel();
    let (broker, to) = (Arc::clone(&router.broker), Arc::clone(topic));
    let append = Box::new(move |more: EntrySource<'_>| {
        let partition = to.partition(index)?;
        let produced = broker.produce_with(partition, &batch, more);
        let refs = produced.as_ref().ok().map(|(_, refs)| refs.clone());
        // The receiver is dropped if the client has closed its connection.
        drop(told.send(produced.map(|(produced, _)| produced)));
        refs
    });
    let topic = topic.name.clone();
    let sent = router.engine.delay(DelayBatch { topic, partition: index, stream, records, append });
    Box::pin(async move {
        if let Err(error) = sent.await {
            return ProduceOutcome::refused(code::of_engine(&error), error.to_string());
        }
        let gone = Err(BrokerError::UnknownTopicOrPartition);
        let produced = match produced.await.unwrap_or(gone) {
            Ok(produced) => produced,
            Err(error) => return ProduceOutcome::of_broker(&error),
        };
        match router.broker.acknowledged(produced.seq).await {
            Ok(()) => ProduceOutcome::taken(produced.base_offset, produced.log_start),
            Err(error) => ProduceOutcome::of_broker(&error),
        }
    })
}

/// The refusal of a transactional batch with a delayed record: the delay would not wait for the end
/// of the transaction.
pub(super) fn refused_inside(batch: &Batch) -> Option<ProduceOutcome> {
    let all = records(batch, UNPACKED_BYTES_MAX).ok()?;
    let asks = |headers: &Headers| !matches!(read_delay(headers), Ok(None));
    let index = all.flatten().position(|record| asks(&record.headers))?;
    let why = format!(
        "nothing of the batch was taken; record {index} is to wait, and none of a transaction can"
    );
    Some(ProduceOutcome::refused(ResponseError::InvalidRecord, why))
}

/// Cuts out the delayed records. Their offsets stay unused, as after compaction. The producer's
/// sequence numbers and offsets thus stay those of the batch it sent.
fn part(router: &Router, topic: &Topic, batch: Batch) -> Result<SplitBatch, ProduceOutcome> {
    let (bytes, max) = (batch.bytes.len(), topic.settings.max_message_bytes);
    // Java producers split a batch that is refused with this error and send it again.
    let too_large =
        |bytes, max| ProduceOutcome::of_broker(&BrokerError::MessageTooLarge { bytes, max });
    if bytes > max {
        return Err(too_large(bytes, max));
    }
    let refuse = |error: &dyn std::fmt::Display| {
        ProduceOutcome::refused(ResponseError::InvalidRecord, error.to_string())
    };
    let (mut waiting, mut offsets, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    let mut out_of_bounds = Vec::new();
    let now = router.clock.now().wall;
    let all = records(&batch, UNPACKED_BYTES_MAX).map_err(|error| refuse(&error))?;
    for (index, record) in (0_i32..).zip(all) {
        let record = record.map_err(|error| refuse(&error))?;
        let until = until(router, now, &record.headers);
        // A delayed record is checked as if it were produced at its due time.
        let at = until.as_ref().map_or(now, |until| until.map_or(now, |(_, ms)| now.plus(ms)));
        let is_named = out_of_bounds.len() < AdmissionError::NAMED_MAX;
        if is_named && !router.broker.allows_time(at, record.timestamp_ms) {
            out_of_bounds.push((index, record.timestamp_ms));
        }
        match until {
            Ok(None) => {}
            Ok(Some((until, _))) => {
                offsets.push(record.offset);
                let mut raw = record.into_raw();
                raw.headers = without_delay(&raw.headers);
                let stored = raw.to_bytes();
                let most = max.min(REST_BYTES_MAX);
                if stored.len() > most {
                    return Err(too_large(stored.len(), most));
                }
                waiting.push((until, stored));
            }
            Err(why) => bad.push((index, why.to_string())),
        }
    }
    if !out_of_bounds.is_empty() {
        return Err(refused(AdmissionError::Times { records: out_of_bounds }));
    }
    if let Some((index, why)) = bad.first() {
        let message = format!("nothing of the batch was taken; record {index}: {why}");
        let mut outcome = ProduceOutcome::refused(ResponseError::InvalidRecord, message);
        outcome.record_errors = bad;
        return Err(outcome);
    }
    if waiting.is_empty() {
        return Ok(SplitBatch { batch, records: waiting });
    }
    let rest = cut::without(&batch.bytes, &offsets, UNPACKED_BYTES_MAX);
    let rest = rest.map_err(|error| refuse(&error))?;
    if rest.records.len() > REST_BYTES_MAX {
        return Err(too_large(rest.records.len(), REST_BYTES_MAX));
    }
    let batch = Batch::parse(&rest.records).map_err(|error| refuse(&error))?;
    Ok(SplitBatch { batch, records: waiting })
}

/// The due time of a record and its delay in ms; `None`: no delay.
fn until(
    router: &Router,
    now: WallMs,
    headers: &Headers,
) -> Result<Option<(DelayEnd, u64)>, BadDelay> {
    let Some(asked) = read_delay(headers)? else { return Ok(None) };
    let (until, ms) = match asked {
        Deliver::After(ms) => (DelayEnd::After(ms), ms),
        Deliver::At(at) => (DelayEnd::At(WallMs(at)), WallMs(at).since(now)),
        Deliver::Level(level) => {
            let policies = router.policies.read();
            let policies = policies.unwrap_or_else(std::sync::PoisonError::into_inner);
            let want = RequestedDelay { level: Some(level), delay_ms: None };
            match policies.of(&delayed()).levels.next(want, 0) {
                FailureOutcome::After { delay_ms, .. } => (DelayEnd::After(delay_ms), delay_ms),
                FailureOutcome::Never => return Ok(None),
            }
        }
    };
    match router.config.produce_delay.ms_max {
        most if ms > most => Err(BadDelay::TooFar { ms, most }),
        _ => Ok(Some((until, ms))),
    }
}
