//! Produce to a partition of this cluster: every batch kept as it came.

use std::sync::Arc;

use bytes::Bytes;

use crate::broker::error::BrokerError;
use crate::broker::topic::Topic;
use crate::route::Router;
use crate::route::produce::{Outcome, Waiting, delayed, done, one_batch};

pub(super) fn begin<'a>(
    router: &'a Router,
    topic: &Arc<Topic>,
    index: i32,
    records: Bytes,
) -> Waiting<'a> {
    let Some(partition) = topic.partition(index) else {
        return done(Outcome::of_broker(&BrokerError::UnknownTopicOrPartition));
    };
    let transactional = "transactions are not served here; produce without transactional.id";
    let batch = match one_batch(records, topic.settings.max_message_bytes, transactional) {
        Ok(batch) => batch,
        Err(outcome) => return done(outcome),
    };
    if router.config.produce_delay.is_for(&topic.name) && !topic.dead_letters {
        return delayed::begin(router, topic, index, batch);
    }
    let produced = match router.broker.produce(topic, partition, &batch) {
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
