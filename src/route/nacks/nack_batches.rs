//! Batches of nacks: sent to the engine's queue at once; their keys are stopped once they are
//! durable.

use std::fmt::Display;

use crate::engine::{EngineError, NackBatch, NackReply, NackRequest};
use crate::model::GroupId;
use crate::retry::{Evidence, NackTarget};
use crate::route::Router;
use crate::route::delivery::Stop;
use crate::wire::batch::{RawRecord, order_key};

/// The keys that a batch of nacks stops (`order.mode: key`).
#[derive(Debug)]
pub(in crate::route) struct StoppedKeys {
    group: GroupId,
    /// One element for each nack; empty if the group has no key order.
    each: Vec<Option<Stop>>,
}

impl Router {
    /// Puts a batch into the engine's queue before it returns.
    pub(in crate::route) fn send_nacks(
        &self,
        batch: NackBatch,
        evidence: Evidence,
    ) -> (StoppedKeys, impl Future<Output = Result<NackReply, EngineError>> + use<>) {
        (self.key_stops(&batch), self.engine.said(batch, evidence))
    }

    pub(in crate::route) fn key_stops(&self, batch: &NackBatch) -> StoppedKeys {
        let group = batch.group.clone();
        let keyed = if self.keeps_keys(&group) { &batch.nacks[..] } else { &[] };
        StoppedKeys { each: keyed.iter().map(stop).collect(), group }
    }

    /// Called once the entries of a batch are durable: later records of their keys become
    /// key-blocked.
    pub(in crate::route) async fn stop_keys(&self, stops: StoppedKeys, reply: &NackReply) {
        let StoppedKeys { group, mut each } = stops;
        if let NackReply::Taken(outcomes) = reply {
            let mut outcomes = outcomes.iter();
            each.retain(|_| outcomes.next().is_some_and(Option::is_some));
        }
        self.fall_in(&group, each.into_iter().flatten().collect()).await;
    }
}

impl Router {
    /// Counts a refused batch that was produced to a retry topic, and logs it once for each group
    /// and reason.
    pub(in crate::route) fn nack_refused(
        &self,
        group: &GroupId,
        word: &'static str,
        why: &dyn Display,
    ) {
        self.metrics.nack_refused(group.as_str(), word);
        if self.markers.warns(group.as_str(), "a nack", word) {
            tracing::warn!(
                %group, %why,
                "R0602 a nack was refused; more of this kind are only counted \
                 (reprise_nacks_refused_total)"
            );
        }
    }
}

/// The reason label of `reprise_nacks_refused_total`.
pub(in crate::route) fn word_of(error: &EngineError) -> &'static str {
    match error {
        EngineError::BadNacks(_) => "unknown_record",
        EngineError::BatchTooLarge { .. } => "too_large",
        _ => "not_now",
    }
}

/// The origin and key that this nack stops.
fn stop(request: &NackRequest) -> Option<Stop> {
    let NackTarget::Origin(origin) = &request.nack.named else { return None };
    let key = RawRecord::parse(&request.record).ok()?.key?;
    Some((origin.clone(), order_key(&key)))
}
