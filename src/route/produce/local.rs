//! Produce to a partition of this cluster: every batch kept as it came.

use std::sync::Arc;

use bytes::Bytes;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::route::Router;
use crate::route::produce::{
    Outcome, Waiting, Within, delayed, done, one_batch, refused_inside, refused_outside,
};
use crate::wire::ResponseError;
use crate::wire::batch::{Batch, RecordError, check_records};

use super::nack::UNPACKED_BYTES_MAX;

pub(super) fn begin<'a>(
    router: &'a Router,
    topic: &Arc<Topic>,
    index: i32,
    records: Bytes,
    within: Option<Within<'_>>,
) -> Waiting<'a> {
    let Some(partition) = topic.partition(index) else {
        return done(Outcome::of_broker(&BrokerError::UnknownTopicOrPartition));
    };
    let batch = one_batch(records, topic.settings.max_message_bytes);
    let batch = match batch.and_then(readable) {
        Ok(batch) => batch,
        Err(outcome) => return done(outcome),
    };
    let may_wait = router.config.produce_delay.is_for(&topic.name) && !topic.dead_letters;
    let produced = match (within, batch.header.is_transactional()) {
        (Some(Within { id, implied }), true) => {
            if may_wait && let Some(refused) = delayed::refused_inside(&batch) {
                return done(refused);
            }
            router.broker.produce_transactional(id, implied, (topic, partition), &batch)
        }
        (None, false) if may_wait => return delayed::begin(router, topic, index, batch),
        (None, false) => router.broker.produce(topic, partition, &batch),
        (None, true) => return done(refused_outside()),
        (Some(_), false) => return done(refused_inside()),
    };
    let produced = match produced {
        Ok(produced) => produced,
        Err(error) => return done(Outcome::of_broker(&error)),
    };
    Box::pin(async move {
        match router.broker.acknowledged(produced.seq).await {
            Ok(()) => Outcome::taken(produced.base_offset, produced.log_start),
            Err(error) => Outcome::of_broker(&error),
        }
    })
}

/// The batch, if consumers can read it.
fn readable(batch: Batch) -> Result<Batch, Outcome> {
    let Err(error) = check_records(&batch, UNPACKED_BYTES_MAX) else { return Ok(batch) };
    let code = match error {
        RecordError::Batch | RecordError::Decompress(_) => ResponseError::CorruptMessage,
        // Producers split a batch that is refused so (Java).
        RecordError::TooLarge { .. } => ResponseError::MessageTooLarge,
        RecordError::Count { .. }
        | RecordError::Read(_)
        | RecordError::Offset
        | RecordError::Length => ResponseError::InvalidRecord,
    };
    Err(Outcome::refused(code, error.to_string()))
}
