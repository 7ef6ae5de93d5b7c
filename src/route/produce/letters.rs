//! Produce to a dead-letter topic of this node: each record is a dead letter of its group.

use bytes::Bytes;

use crate::broker::TimeBounds;
use crate::broker::error::BrokerError;
use crate::engine::{LETTERS, ProducedLetters};
use crate::model::TopicName;
use crate::route::Router;
use crate::route::nacks::nack_batches::UNPACKED_BYTES_MAX;
use crate::route::produce::batch::one_batch;
use crate::route::produce::nack::{producer_of, refused};
use crate::route::produce::produce_outcome::{PendingOutcome, ProduceOutcome, done};
use crate::route::produce::produce_transaction::OUTSIDE_TRANSACTION;
use crate::wire::ResponseError;
use crate::wire::batch::{Batch, RawRecord, RecordError, RecordView, records};

pub(super) fn begin<'a>(
    router: &'a Router,
    version: i16,
    (topic, index): (&TopicName, i32),
    bytes: Bytes,
) -> PendingOutcome<'a> {
    let Some(group) = router.names.group_of(topic).filter(|_| index == 0) else {
        return done(ProduceOutcome::of_broker(&BrokerError::UnknownTopicOrPartition));
    };
    let limits = (version, router.letter_bytes_max());
    let batch = match one_batch(router, bytes, limits, TimeBounds::None) {
        Ok(batch) => batch,
        Err(outcome) => return done(outcome),
    };
    if batch.header.is_transactional() {
        let (error, why) = OUTSIDE_TRANSACTION;
        return done(ProduceOutcome::refused(error, why));
    }
    let records = match unpacked(&batch) {
        Ok(records) => records,
        Err(error) => {
            let (code, why) = (ResponseError::InvalidRecord, error.to_string());
            return done(ProduceOutcome::refused(code, why));
        }
    };
    let producer = producer_of(&batch, LETTERS);
    let sent = router.engine.produce_letters(ProducedLetters { group, producer, records });
    let topic = topic.clone();
    Box::pin(async move {
        match sent.await {
            Ok(base) => {
                let start = router.engine.letter_bounds(&topic).map_or(0, |bounds| bounds.start);
                ProduceOutcome::taken(base, start)
            }
            Err(error) => refused(&error),
        }
    })
}

fn unpacked(batch: &Batch) -> Result<Vec<RawRecord>, RecordError> {
    records(batch, UNPACKED_BYTES_MAX)?.map(|record| record.map(RecordView::into_raw)).collect()
}
