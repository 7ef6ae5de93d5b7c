//! Produce to a retry topic: each record is a nack of another record (docs/semantics.md).
//!
//! A batch is taken as a whole or refused as a whole; the answer names each bad record and the
//! reason.

use bytes::Bytes;

use crate::broker::error::BrokerError;
use crate::broker::{OffsetOutcome, TimeBounds};
use crate::engine::{EngineError, NackBatch, NackRequest, ProducerSequence};
use crate::model::{GroupId, Origin, RetryPair};
use crate::retry::{
    self, BadNack, CopiedDelivery, Evidence, FailureHistory, Nack, NackTarget, Reporter,
    RequestedDelay,
};
use crate::route::clients::conn::Conn;
use crate::route::nacks::nack_batches::{UNPACKED_BYTES_MAX, name, word_of};
use crate::route::nacks::origin_records::{ReadBack, UnreadReason};
use crate::route::produce::batch::one_batch;
use crate::route::produce::produce_outcome::{PendingOutcome, ProduceOutcome, done};
use crate::route::produce::produce_sender::ProduceSender;
use crate::route::produce::produce_transaction::OUTSIDE_TRANSACTION;
use crate::route::topics::retry_topics::RetrySources;
use crate::route::topics::topic_names::TopicKind;
use crate::route::{Router, code};
use crate::wire::ResponseError;
use crate::wire::batch::{Batch, RawRecord, RecordView, records};
use crate::wire::mark::{self, read_nack};

pub(super) fn begin<'a>(
    router: &'a Router,
    from: ProduceSender<'_>,
    (pair, partition): (&RetryPair, i32),
    bytes: Bytes,
) -> PendingOutcome<'a> {
    let mut sources = RetrySources::new();
    let request = batch_of(router, from.version, bytes).and_then(|batch| {
        if batch.header.is_transactional() {
            let (error, why) = OUTSIDE_TRANSACTION;
            return Err(ProduceOutcome::refused(error, why));
        }
        read(router, (from.conn, from.back), (pair, partition), &batch, &mut sources)
    });
    let (sent, unsure) = match request {
        Ok((request, deliveries)) => {
            let unsure = (!deliveries.is_empty()).then(|| (request.clone(), deliveries));
            (router.engine.said(request, Evidence::Nack), unsure)
        }
        Err(outcome) => return done(outcome),
    };
    let (pair, group) = (pair.clone(), pair.group.clone());
    for source in &sources {
        router.names.register(&router.pair_in_use(&group, source.as_ref()));
    }
    Box::pin(async move {
        let mut told = sent.await;
        if let (Err(EngineError::BadNacks(bad)), Some((mut request, deliveries))) = (&told, unsure)
        {
            for unsure in deliveries {
                if !bad.contains(&(unsure.index, BadNack::NotRemembered)) {
                    continue;
                }
                if let Some(why) = unsure.unread {
                    router.nack_refused(&group, why.word(), &why);
                    return ProduceOutcome::refused(why.code(), why.to_string());
                }
                remember(router, &mut request, &unsure);
            }
            told = router.engine.said(request, Evidence::Nack).await;
        }
        match told {
            Ok(_) => {
                router.retries_began(&pair, &sources);
                ProduceOutcome::taken(0, 0)
            }
            Err(error) => {
                router.nack_refused(&group, word_of(&error), &error);
                refused(&error)
            }
        }
    })
}

/// Checks the batch like one for an ordinary topic, except for timestamps, which are those of the
/// origins. Its size is bounded by the origins' topics.
fn batch_of(router: &Router, version: i16, bytes: Bytes) -> Result<Batch, ProduceOutcome> {
    let limits = (version, router.config.frame_bytes_max);
    let batch = one_batch(router, bytes, limits, TimeBounds::None)?;
    let (bytes, max) = (batch.bytes.len(), router.nack_bytes_max(&batch, UNPACKED_BYTES_MAX));
    if bytes > max {
        return Err(ProduceOutcome::of_broker(&BrokerError::MessageTooLarge { bytes, max }));
    }
    Ok(batch)
}

/// The producer id and the sequences of a batch, if it has some.
pub(super) fn producer_of(batch: &Batch, partition: i32) -> Option<ProducerSequence> {
    let header = &batch.header;
    (header.producer_id >= 0).then(|| ProducerSequence {
        id: header.producer_id,
        partition,
        epoch: header.producer_epoch,
        first: header.base_sequence,
        last: header.last_sequence(),
    })
}

pub(super) fn refused(error: &EngineError) -> ProduceOutcome {
    let mut outcome = ProduceOutcome::refused(code::of_engine(error), error.to_string());
    if let EngineError::BadNacks(bad) = error {
        let named = |(index, why): &(usize, retry::BadNack)| {
            (i32::try_from(*index).unwrap_or(i32::MAX), why.to_string())
        };
        outcome.record_errors = bad.iter().map(named).collect();
    }
    outcome
}

/// Reads every record of a batch as a nack; a bad record refuses the whole batch.
fn read(
    router: &Router,
    (conn, back): (&Conn, &ReadBack),
    (pair, partition): (&RetryPair, i32),
    batch: &Batch,
    sources: &mut RetrySources,
) -> Result<(NackBatch, Vec<UnsureDelivery>), ProduceOutcome> {
    let group = &pair.group;
    let refuse = |error: &dyn std::fmt::Display| {
        ProduceOutcome::refused(ResponseError::InvalidRecord, error.to_string())
    };
    let (mut nacks, mut unsure) = (Vec::new(), Vec::new());
    let mut bad = Vec::new();
    for record in records(batch, UNPACKED_BYTES_MAX).map_err(|error| refuse(&error))? {
        let record = record.map_err(|error| refuse(&error))?;
        match nack(router, back, (pair, &mut *sources), record) {
            Ok((nack, delivery)) => {
                unsure.extend(delivery.map(|of| UnsureDelivery { index: nacks.len(), ..of }));
                nacks.push(nack);
            }
            Err(InvalidNack::Bad(why)) => {
                bad.push((i32::try_from(nacks.len() + bad.len()).unwrap_or(0), why));
            }
            Err(InvalidNack::Unread(why)) => {
                router.nack_refused(group, why.word(), &why);
                return Err(ProduceOutcome::refused(why.code(), why.to_string()));
            }
        }
    }
    if let Some((index, why)) = bad.first() {
        let message = format!("nothing of the batch was taken; record {index}: {why}");
        router.nack_refused(group, "malformed", &message);
        let mut outcome = ProduceOutcome::refused(ResponseError::InvalidRecord, message);
        outcome.record_errors = bad.into_iter().map(|(i, why)| (i, why.to_string())).collect();
        return Err(outcome);
    }
    let batch = NackBatch {
        group: group.clone(),
        by: Reporter { member: router.member_of(conn, group), client: conn.client() },
        producer: producer_of(batch, partition),
        nacks,
    };
    Ok((batch, unsure))
}

/// A delivery that a nack names without the delivery's headers.
struct UnsureDelivery {
    /// Index of the nack in its batch.
    index: usize,
    place: Origin,
    /// The reason why the cluster's record is not read.
    unread: Option<UnreadReason>,
}

/// Adds the headers of a delivery that the ledger has forgotten, as its topic of this node has it.
/// Its record may be gone since the group committed past it.
fn remember(router: &Router, request: &mut NackBatch, unsure: &UnsureDelivery) {
    let (group, delivery) = (&request.group, &unsure.place);
    let Some(NackRequest { nack, record }) = request.nacks.get_mut(unsure.index) else { return };
    let found = router.upstream.is_none().then(|| origin_record(router, delivery)).flatten();
    let copied = found.as_ref().and_then(|found| mark::read_delivery(&found.headers));
    nack.copied = copied.map(|copied| copied_delivery(router, (group, Some(delivery)), copied));
    match found {
        Some(found) if nack.bytes != retry::Bytes::Value => {
            *record = stripped(found);
            nack.record_bytes = u64::try_from(record.len()).unwrap_or(u64::MAX);
        }
        None if nack.bytes == retry::Bytes::Value && has_passed(router, group, delivery) => {
            nack.named = NackTarget::Orphan;
        }
        _ => {}
    }
}

/// Whether the group has committed past the delivery.
fn has_passed(router: &Router, group: &GroupId, delivery: &Origin) -> bool {
    router.committed(group, delivery).is_some_and(|past| past > delivery.offset)
}

/// The reason why a record is no valid nack, which refuses the whole batch.
enum InvalidNack {
    Bad(mark::BadNackHeaders),
    Unread(UnreadReason),
}

impl From<mark::BadNackHeaders> for InvalidNack {
    fn from(why: mark::BadNackHeaders) -> Self {
        Self::Bad(why)
    }
}

fn nack(
    router: &Router,
    back: &ReadBack,
    (pair, sources): (&RetryPair, &mut RetrySources),
    record: RecordView,
) -> Result<(NackRequest, Option<UnsureDelivery>), InvalidNack> {
    let group = &pair.group;
    let (asked, headers) = read_nack(&record.headers)?;
    let mut copied = asked.delivery.filter(|_| !asked.by_reference);
    let is_of_other = asked.group.as_ref().is_some_and(|of| of != group);
    let (named, place) = match asked.named {
        _ if is_of_other => (NackTarget::OtherGroup, None),
        mark::NackedRecord::Origin(origin) => (name(router, group, origin.clone()), Some(origin)),
        mark::NackedRecord::None => (NackTarget::Nothing, None),
    };
    let awaited = place.as_ref().filter(|_| named == NackTarget::NoDelivery);
    let awaited = awaited.and_then(|origin| router.retry_pair(&origin.topic));
    if awaited.is_some_and(|of| router.awaits_retry_topic(&of)) {
        return Err(InvalidNack::Unread(UnreadReason::NoTopic));
    }
    let source = place.as_ref().map(|origin| router.source_of(&origin.topic));
    sources.insert(source.unwrap_or_else(|| pair.source.clone()));
    let mut raw = record.into_raw();
    raw.headers = headers;
    let (mut unread, mut is_orphan) = (None, false);
    let (bytes, stored) = match &named {
        NackTarget::Origin(origin) if asked.by_reference => {
            let found = if router.upstream.is_some() {
                back.get(group, origin).map_err(InvalidNack::Unread)?
            } else {
                origin_record(router, origin)
            };
            by_reference(&named, found)
        }
        NackTarget::Delivery(_) if copied.is_none() => {
            let place = place.as_ref().filter(|_| router.upstream.is_some());
            let found = place.map(|place| back.get(group, place)).transpose();
            unread = found.as_ref().err().copied();
            let found = found.ok().flatten().flatten();
            copied = found.as_ref().and_then(|found| mark::read_delivery(&found.headers));
            is_orphan = found.is_some() && copied.is_none();
            match found {
                _ if !asked.by_reference => (retry::Bytes::Value, raw.to_bytes()),
                Some(found) => (retry::Bytes::ReferenceOk, stripped(found)),
                None => by_reference(&named, None),
            }
        }
        _ => (retry::Bytes::Value, raw.to_bytes()),
    };
    let committed = match &named {
        NackTarget::Origin(origin) => router.committed(group, origin),
        _ => None,
    };
    let named = if is_orphan { NackTarget::Orphan } else { named };
    let is_unsure = matches!(named, NackTarget::Delivery(_)) && copied.is_none();
    let of = (group, place.as_ref());
    let request = NackRequest {
        nack: Nack {
            named,
            copied: copied.map(|copied| copied_delivery(router, of, copied)),
            want: RequestedDelay { level: asked.level, delay_ms: asked.delay_ms },
            max_reconsume_times: asked.max_reconsume_times,
            reason: asked.reason,
            produced_for: pair.source.clone(),
            committed,
            carried: FailureHistory::default(),
            bytes,
            record_bytes: u64::try_from(stored.len()).unwrap_or(u64::MAX),
        },
        record: stored,
    };
    let place = place.filter(|_| is_unsure);
    Ok((request, place.map(|place| UnsureDelivery { index: 0, place, unread })))
}

/// By itself a delivery that the group has not committed past is a replay if the ledger does not
/// know it, and begins anew.
fn copied_delivery(
    router: &Router,
    (group, place): (&GroupId, Option<&Origin>),
    copied: mark::DeliveryHeaders,
) -> CopiedDelivery {
    let mark::DeliveryHeaders { first, failures, number, redrives } = copied;
    let is_late = place.is_some_and(|place| has_passed(router, group, place));
    if router.upstream.is_some() || is_late {
        CopiedDelivery { first, failures, number, redrives }
    } else {
        CopiedDelivery { first, failures: None, number: None, redrives: 0 }
    }
}

/// The stored form of a record that a nack names without its bytes: the origin record, without our
/// headers.
pub(in crate::route) fn by_reference(
    named: &NackTarget,
    found: Option<RawRecord>,
) -> (retry::Bytes, Bytes) {
    match (named, found) {
        (NackTarget::Origin(_), Some(found)) => (retry::Bytes::ReferenceOk, stripped(found)),
        (NackTarget::Origin(_), None) => (retry::Bytes::ReferenceGone, Bytes::new()),
        // A delivery of the retry topic: its entry has the bytes already.
        _ => (retry::Bytes::ReferenceOk, Bytes::new()),
    }
}

/// The stored form of a record, without our headers.
fn stripped(mut found: RawRecord) -> Bytes {
    found.headers = mark::strip(&found.headers);
    found.to_bytes()
}

/// A record of a topic of this node; `None` in an open or aborted transaction.
pub(in crate::route) fn origin_record(router: &Router, origin: &Origin) -> Option<RawRecord> {
    match origin_at(router, origin) {
        OffsetOutcome::Record(record) => Some(record),
        OffsetOutcome::Open
        | OffsetOutcome::Nobodys
        | OffsetOutcome::Nothing
        | OffsetOutcome::Unreadable => None,
    }
}

/// The content of an origin's offset in a topic of this node.
pub(in crate::route) fn origin_at(router: &Router, origin: &Origin) -> OffsetOutcome {
    let place = router.place(&origin.topic);
    let Some(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) = place else {
        return OffsetOutcome::Nothing;
    };
    let Some(of) = topic.partition(origin.partition) else { return OffsetOutcome::Nothing };
    router.broker.at(of, origin.offset).unwrap_or_else(|error| {
        tracing::warn!(
            %origin, %error,
            "R0425 the record of a nack cannot be read: the nack is refused; check the disk"
        );
        OffsetOutcome::Unreadable
    })
}
