//! Evidence `admin-nack`: a request to the admin port reports a failed record. No client connection
//! proves the right to read the record, and no produced record brings its bytes.
//!
//! **Invariant:** a record is read only where a member of the group may read it in the cluster. Our
//! own credentials are never used for it.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::timeout;

use crate::broker::OffsetOutcome;
use crate::engine::{EngineError, NackBatch, NackReply, NackRequest};
use crate::model::{ClientId, GroupId, Origin, TopicName};
use crate::retry::{
    BadNack, Bytes, Evidence, FailureHistory, Nack, NackOutcome, NackTarget, OrderMode, Reporter,
    RequestedDelay,
};
use crate::route::Router;
use crate::route::groups::members::NoTaker;
use crate::route::nacks::nack_batches::name;
use crate::route::produce::{by_reference, origin_at};
use crate::upstream::{OriginAnswer, OwnLinks, TopicSeen, Upstream, UpstreamError};
use crate::wire::ResponseError;
use crate::wire::batch::RawRecord;

/// Bound for reading a record of the cluster.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bound of the part for members' connections, if the record can be read without them.
const MEMBERS_PATIENCE: Duration = Duration::from_millis(1500);
/// The client id in the record's history.
const CLIENT: &str = "admin";

/// A nack from the admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminNack {
    pub group: GroupId,
    /// The record as the application saw it: its origin, or an offset of the group's retry topic.
    pub record: Origin,
    /// The requested level or delay of the next delivery.
    pub want: RequestedDelay,
    /// The reason of the failure.
    pub reason: Option<String>,
}

/// The reason why a nack is refused.
#[derive(Debug, thiserror::Error)]
pub enum PostRefusal {
    /// The group has no retry topic.
    #[error("the group {0:?} has no retries here (retry.delivery: off)")]
    RetriesOff(String),
    /// No member would receive the retry.
    #[error(
        "the record would not come back to the group {group:?}, for nobody reads {topic}: {why}. \
         Start the application with {topic} in its subscription, or send \"dlq\": true for the \
         dead letters"
    )]
    NoWayBack {
        group: String,
        /// The retry topic of the record.
        topic: TopicName,
        /// The reason why no member receives its retries.
        why: NoTaker,
    },
    #[error("there is no topic {0:?}; topic is its name as the application sees it")]
    NoTopic(String),
    /// The topic has fewer partitions.
    #[error("partition {partition} is none of {topic:?}, which has {partitions}, from 0 on")]
    NoPartition {
        topic: String,
        partition: i32,
        /// The number of partitions of the topic.
        partitions: i32,
    },
    /// The level is not in the group's delay table.
    #[error(
        "level {level} is out of range: 1 to {most} are in the table of this group, 0 is the next \
         one by itself, -1 the dead letters"
    )]
    NoLevel {
        level: i32,
        /// The highest level of the table.
        most: u32,
    },
    /// No delivery of the retry topic has this offset.
    #[error("no hand-out of {0} has the offset {1}; it is the one the application got it with")]
    NoHandOut(TopicName, i64),
    /// The record does not exist.
    #[error("there is no record {0}: it was never written, or is gone by retention")]
    NoRecord(Origin),
    /// The record cannot be read now, or not with our rights.
    #[error("the record {record} cannot be read: {why}")]
    Unread {
        record: Origin,
        /// The reason, and what to do.
        why: String,
    },
    /// The verdict table refuses the nack.
    #[error("{0}: {1}")]
    Bad(Origin, BadNack),
    /// The engine failed.
    #[error(transparent)]
    Engine(EngineError),
}

impl Router {
    /// Takes a nack from the admin port; durable on return. `None`: its partition waits for the
    /// record.
    pub async fn post(&self, posted: AdminNack) -> Result<Option<NackOutcome>, PostRefusal> {
        let AdminNack { group, record, want, reason } = posted;
        let source = self.source_of(&record.topic);
        self.may_come_back(&group, source.as_ref(), want)?;
        let named = name(self, &group, record.clone());
        let record = match &named {
            NackTarget::Origin(origin) => origin.clone(),
            _ => record,
        };
        let found = match &named {
            NackTarget::Origin(origin) => self.bytes_at(&group, origin).await?,
            _ => in_range(&record, 1).map(|()| Ok(None))?,
        };
        let (unread, found) = match found {
            Ok(found) => (None, found),
            Err(why) => (Some(why), None),
        };
        let committed = match &named {
            NackTarget::Origin(origin) => self.committed(&group, origin),
            _ => None,
        };
        let (bytes, stored) = by_reference(&named, found);
        let record_bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        let nack = Nack {
            named,
            copied: None,
            want,
            max_reconsume_times: None,
            reason,
            produced_for: None,
            committed,
            carried: FailureHistory::default(),
            bytes,
            record_bytes,
        };
        debug_assert_ne!(nack.bytes, Bytes::Value, "nobody has sent any");
        let batch = NackBatch {
            group: group.clone(),
            by: Reporter { member: None, client: ClientId::new(CLIENT) },
            producer: None,
            nacks: vec![NackRequest { nack, record: stored }],
        };
        let reply = match self.engine.said(batch, Evidence::AdminNack).await {
            Ok(reply) => reply,
            Err(EngineError::BadNacks(bad)) => {
                let why = bad.first().map_or(BadNack::NotRemembered, |(_, why)| *why);
                if why == BadNack::BytesGone && unread.is_none() {
                    self.no_more(&group, &record);
                }
                return Err(match (why, unread) {
                    (BadNack::BytesGone, Some(why)) => PostRefusal::Unread { record, why },
                    (BadNack::BytesGone, None) => PostRefusal::NoRecord(record),
                    (BadNack::NoDelivery, _) => PostRefusal::NoHandOut(record.topic, record.offset),
                    (why, _) => PostRefusal::Bad(record, why),
                });
            }
            Err(error) => return Err(PostRefusal::Engine(error)),
        };
        self.names.register(&self.pair_in_use(&group, source.as_ref()));
        match reply {
            NackReply::Taken(outcomes) => {
                outcomes.first().copied().ok_or(PostRefusal::Engine(EngineError::Stopped))
            }
            NackReply::Repeated => Err(PostRefusal::Engine(EngineError::Stopped)),
        }
    }

    /// Refuses a retry that no member would receive; dead letters are always possible.
    fn may_come_back(
        &self,
        group: &GroupId,
        source: Option<&TopicName>,
        want: RequestedDelay,
    ) -> Result<(), PostRefusal> {
        let (has_retries, watched, in_order, most) = {
            let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
            let policy = policies.of(group);
            let in_order = policy.order == OrderMode::Partition;
            (policy.has_retries, policy.inference, in_order, policy.levels.len())
        };
        if !has_retries {
            return Err(PostRefusal::RetriesOff(group.to_string()));
        }
        let level = want.level.unwrap_or_default();
        if level < -1 || u32::try_from(level).is_ok_and(|level| level > most) {
            return Err(PostRefusal::NoLevel { level, most });
        }
        if !watched || level < 0 || in_order {
            return Ok(());
        }
        self.taker_of(group, source).map(|_| ()).map_err(|why| {
            let topic = self.names.retry_topic(&self.names.pair(group, source));
            PostRefusal::NoWayBack { group: group.to_string(), topic, why }
        })
    }

    /// The stored form of an origin record. An inner error: it cannot be read, which matters only
    /// if a new entry needs the bytes.
    pub(in crate::route) async fn bytes_at(
        &self,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Result<Option<RawRecord>, String>, PostRefusal> {
        if let Some(upstream) = &self.upstream {
            let read = self.read_for(upstream, group, origin);
            return match timeout(PATIENCE, read).await {
                Ok(read) => read,
                Err(_) => Ok(Err("the cluster does not answer in time; try again".to_owned())),
            };
        }
        let Some(place) = self.place(&origin.topic) else {
            return Err(PostRefusal::NoTopic(origin.topic.to_string()));
        };
        in_range(origin, place.partitions())?;
        Ok(match origin_at(self, origin) {
            OffsetOutcome::Record(record) => Ok(Some(record)),
            OffsetOutcome::Open => {
                Err("its transaction is open; try again when it has ended".to_owned())
            }
            OffsetOutcome::Nobodys | OffsetOutcome::Nothing => Ok(None),
            OffsetOutcome::Unreadable => Err(UNREADABLE.to_owned()),
        })
    }

    /// Reads a record of the cluster in the name of group members, at any broker. A connection of
    /// our own is used only without credentials: then every client may read what we may.
    async fn read_for(
        &self,
        upstream: &Upstream,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Result<Option<RawRecord>, String>, PostRefusal> {
        let seen = upstream.see_topic(&mut OwnLinks::default(), &origin.topic).await;
        if let Ok(TopicSeen { error, leaders, .. }) = &seen {
            if *error == Some(ResponseError::UnknownTopicOrPartition) {
                return Err(PostRefusal::NoTopic(origin.topic.to_string()));
            }
            if error.is_none() {
                in_range(origin, i32::try_from(leaders.len()).unwrap_or(i32::MAX))?;
            }
        }
        let leader = seen.ok().and_then(|seen| seen.leader(origin.partition));
        let members = self.said_to_members(group, leader, origin);
        let told = if upstream.is_anonymous() {
            // Members are not waited for if an anonymous connection can read the record.
            timeout(MEMBERS_PATIENCE, members).await.unwrap_or(Ok(None))
        } else {
            members.await
        };
        match told.map(|found| said(found?, "the group's members")) {
            Ok(Some(said)) => return Ok(said),
            Err(error) if !upstream.is_anonymous() => return Ok(Err(error.to_string())),
            Ok(None) | Err(_) => {}
        }
        if upstream.is_anonymous() {
            return Ok(match upstream.read_record(origin).await {
                Ok(found) => said(found, "who shows no credentials")
                    .unwrap_or_else(|| Err(UpstreamError::NoLeader.to_string())),
                Err(error) => Err(error.to_string()),
            });
        }
        Ok(Err(format!(
            "no member of {group} is connected, through here, to the broker that leads its \
             partition, and the sidecar's own credentials say nothing of what the group may read; \
             nack it from the application, or when a member has the partition"
        )))
    }
}

/// The error for a record that exists and cannot be decoded.
const UNREADABLE: &str = "its batch cannot be read: its checksum is wrong, or its codec unknown";

/// A broker's answer to `who` about a record; `None`: another broker has to be asked.
fn said(found: OriginAnswer, who: &str) -> Option<Result<Option<RawRecord>, String>> {
    Some(match found {
        OriginAnswer::Record(record) => Ok(Some(record)),
        OriginAnswer::Gone | OriginAnswer::Empty => Ok(None),
        OriginAnswer::Unreadable(_) | OriginAnswer::Damaged => Err(UNREADABLE.to_owned()),
        OriginAnswer::Denied => Err(format!("the cluster does not let {who} READ its topic")),
        OriginAnswer::Elsewhere => return None,
    })
}

fn in_range(origin: &Origin, partitions: i32) -> Result<(), PostRefusal> {
    if (0..partitions).contains(&origin.partition) {
        return Ok(());
    }
    let (topic, partition) = (origin.topic.to_string(), origin.partition);
    Err(PostRefusal::NoPartition { topic, partition, partitions })
}
