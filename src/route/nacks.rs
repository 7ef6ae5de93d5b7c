//! A batch of nacks on its way: into the engine's queue at once, and told to the watch of its group
//! when it is durable.

use std::fmt::Display;

use crate::engine::{EngineError, InPlace, NackBatch, NackReply, NackRequest};
use crate::model::GroupId;
use crate::retry::watch::Seen;
use crate::retry::{Evidence, Named};
use crate::route::Router;
use crate::route::watching::{Stop, place_of};
use crate::wire::batch::{RawRecord, order_key};

/// What is to be told of a batch once it is durable.
#[derive(Debug)]
pub(in crate::route) struct Telling {
    group: GroupId,
    /// Of each nack: that its record failed, and the key that stops.
    each: Vec<(Option<Seen>, Option<Stop>)>,
    /// Some of it may wait in its own place.
    is_in_order: bool,
}

impl Router {
    /// Sends a batch: it is in the engine's queue when this returns.
    pub(in crate::route) fn send_nacks(
        &self,
        batch: NackBatch,
        evidence: Evidence,
    ) -> (Telling, impl Future<Output = Result<NackReply, EngineError>> + use<>) {
        let (telling, in_place) = self.telling(&batch);
        (telling, self.engine.said(batch, evidence, in_place))
    }

    /// What is to be told of a batch, and who charges what of it waits in its own place.
    pub(in crate::route) fn telling(&self, batch: &NackBatch) -> (Telling, Option<InPlace>) {
        let in_place = self.in_place(batch);
        let group = batch.group.clone();
        let is_watched = self.watches.find(&group).is_some();
        let keeps_keys = self.keeps_keys(&group);
        let of = |request: &NackRequest| {
            let seen = if is_watched { seen(&request.nack.named) } else { None };
            (seen, if keeps_keys { stop(request) } else { None })
        };
        let each = batch.nacks.iter().map(of).collect();
        (Telling { group, each, is_in_order: in_place.is_some() }, in_place)
    }

    /// E1, E2, E3: what of a batch has become entries is durable.
    pub(in crate::route) async fn nacked(&self, telling: Telling, reply: &NackReply) {
        let Telling { group, mut each, is_in_order } = telling;
        match reply {
            NackReply::Taken(outcomes) => {
                let mut outcomes = outcomes.iter();
                each.retain(|_| outcomes.next().is_some_and(Option::is_some));
            }
            // Which of it has entries nobody knows now.
            NackReply::Repeated if is_in_order => return,
            // Whoever sent it first may have gone before it was told.
            NackReply::Repeated => {}
        }
        let (seen, stops): (Vec<_>, Vec<_>) = each.into_iter().unzip();
        self.all_seen(&group, seen.into_iter().flatten().collect());
        self.fall_in(&group, stops.into_iter().flatten().collect()).await;
    }
}

impl Router {
    /// A batch produced to a retry topic is refused. Said once for each group and reason; counted
    /// always.
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
                "a nack was refused; more of this kind are only counted \
                 (reprise_nacks_refused_total)"
            );
        }
    }
}

/// Why a batch is refused, in the words of `reprise_nacks_refused_total`.
pub(in crate::route) fn word_of(error: &EngineError) -> &'static str {
    match error {
        EngineError::BadNacks(_) => "unknown_record",
        EngineError::BatchTooLarge { .. } => "too_large",
        _ => "not_now",
    }
}

fn seen(named: &Named) -> Option<Seen> {
    match named {
        Named::Origin(origin) => {
            Some(Seen::Nacked { partition: place_of(origin), offset: origin.offset })
        }
        Named::Lane(lane) => Some(Seen::LaneFailed { lane: *lane }),
        _ => None,
    }
}

/// What stops its key when this is taken.
fn stop(request: &NackRequest) -> Option<Stop> {
    let Named::Origin(origin) = &request.nack.named else { return None };
    let key = RawRecord::parse(&request.record).ok()?.key?;
    Some((origin.clone(), order_key(&key)))
}
