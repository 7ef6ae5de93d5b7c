//! Produce to a partition of this node.

use std::sync::Arc;

use bytes::Bytes;

use crate::broker::TimeBounds;
use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::route::Router;
use crate::route::produce::batch::one_batch;
use crate::route::produce::delayed;
use crate::route::produce::produce_outcome::{PendingOutcome, ProduceOutcome, done};
use crate::route::produce::produce_transaction::{OUTSIDE_TRANSACTION, ProduceTransaction};

pub(super) fn begin<'a>(
    router: &'a Router,
    topic: &Arc<Topic>,
    index: i32,
    records: Bytes,
    (version, within): (i16, Option<ProduceTransaction<'_>>),
) -> PendingOutcome<'a> {
    let Some(partition) = topic.partition(index) else {
        return done(ProduceOutcome::of_broker(&BrokerError::UnknownTopicOrPartition));
    };
    let may_wait = router.config.produce_delay.is_for(&topic.name);
    let is_bounded = !may_wait || within.is_some();
    let bounds = if is_bounded { TimeBounds::Kafka } else { TimeBounds::None };
    let read = (version, topic.settings.max_message_bytes);
    let batch = match one_batch(router, records, read, bounds) {
        Ok(batch) => batch,
        Err(outcome) => return done(outcome),
    };
    // A batch outside a transaction is taken as such, whatever id its request names, as in Kafka.
    let produced = match (within, batch.header.is_transactional()) {
        (Some(ProduceTransaction { id, implied }), true) => {
            if may_wait && let Some(refused) = delayed::refused_inside(&batch) {
                return done(refused);
            }
            router.broker.produce_transactional(id, implied, (topic, partition), &batch)
        }
        (None, true) => {
            let (error, why) = OUTSIDE_TRANSACTION;
            return done(ProduceOutcome::refused(error, why));
        }
        (_, false) if may_wait => return delayed::begin(router, topic, index, batch),
        (_, false) => router.broker.produce(topic, partition, &batch),
    };
    let produced = match produced {
        Ok(produced) => produced,
        Err(error) => return done(ProduceOutcome::of_broker(&error)),
    };
    Box::pin(async move {
        match router.broker.acknowledged(produced.seq).await {
            Ok(()) => ProduceOutcome::taken(produced.base_offset, produced.log_start),
            Err(error) => ProduceOutcome::of_broker(&error),
        }
    })
}
