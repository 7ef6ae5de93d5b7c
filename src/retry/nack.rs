//! A nack: the named delivery, the requested delay, and the source of the record's bytes.

use serde::{Deserialize, Serialize};

use crate::model::{ClientId, MemberId, Origin, RetryPlace, TopicName};
use crate::retry::FailureHistory;

/// A message that says that a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    pub named: NackTarget,
    /// The delivery that the nack's copied headers describe. The ledger may not know its place.
    pub copied: Option<CopiedDelivery>,
    /// The requested delay.
    pub want: RequestedDelay,
    /// Limit of retries given with this failure; `None`: the limit of the rules.
    pub max_reconsume_times: Option<u32>,
    pub reason: Option<String>,
    /// The topic whose retry topic the nack was produced to.
    pub produced_for: Option<TopicName>,
    /// The group's committed offset of the origin's partition, where known.
    pub committed: Option<i64>,
    /// Failures that the detector charged before.
    pub carried: FailureHistory,
    /// Source of the bytes, should the nack begin an entry.
    pub bytes: Bytes,
    /// Size of those bytes.
    pub record_bytes: u64,
}

impl Nack {
    /// A nack without bytes, limit and text.
    pub fn of(named: NackTarget) -> Self {
        Self {
            named,
            copied: None,
            want: RequestedDelay::default(),
            max_reconsume_times: None,
            reason: None,
            produced_for: None,
            committed: None,
            carried: FailureHistory::default(),
            bytes: Bytes::Value,
            record_bytes: 0,
        }
    }
}

/// A delivery, as the headers that came with it describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedDelivery {
    pub first: Origin,
    /// Failures before it; `None`: a nack of a delivery that the ledger has forgotten begins anew.
    pub failures: Option<u32>,
    /// Number among the deliveries of the record.
    pub number: Option<u32>,
    /// Redrives before it.
    pub redrives: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackTarget {
    Origin(Origin),
    /// One delivery through the group's retry topic.
    Delivery(RetryPlace),
    /// None: a new delayed record of the group.
    Nothing,
    /// A delivery without a first origin: its record is gone from the retry topic, or others have
    /// written it.
    Orphan,
    /// The origin text does not parse: a bad nack.
    Unreadable,
    /// An offset of the group's retry topic without a delivery: a bad nack.
    NoDelivery,
    /// A delivery through another group's retry topic: a bad nack.
    OtherGroup,
}

/// Delay requested with a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedDelay {
    /// `None` or 0: the ladder. Above 0: that level. Below 0: a dead letter, now.
    pub level: Option<i32>,
    /// An exact delay; wins over a level of 0 or above.
    pub delay_ms: Option<u64>,
}

/// Source of a new entry's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The value of the nack's own record.
    Value,
    /// The origin's partition still has them.
    ReferenceOk,
    /// The origin's partition has lost them: a nack that would begin an entry is bad.
    ReferenceGone,
}

/// The client that reported an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reporter {
    /// The member, if the connection is known to belong to one.
    pub member: Option<MemberId>,
    /// The client id of the request header.
    pub client: ClientId,
}
