//! E3: the admin port is told that a record failed. No client's connection says who may read it, no
//! produced record brings its bytes.
//!
//! **Invariant:** what a member of the group may not read at the cluster is not read for it, and
//! our own credentials are never shown for it.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::timeout;

use crate::broker::At;
use crate::engine::{EngineError, NackBatch, NackReply, NackRequest};
use crate::model::{ClientId, GroupId, Origin, TopicName};
use crate::retry::{
    BadNack, Bytes, Carried, Evidence, Nack, NackOutcome, Named, OrderMode, Reporter, Want,
};
use crate::route::Router;
use crate::route::membership::NoTaker;
use crate::route::produce::{by_reference, name, origin_at};
use crate::upstream::{Found, OwnLinks, TopicSeen, Upstream, UpstreamError};
use crate::wire::ResponseError;
use crate::wire::batch::RawRecord;

/// How long a record of the cluster may take to be read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of it members may take, where it can be read without them.
const MEMBERS_PATIENCE: Duration = Duration::from_millis(1500);
/// What stands for the client in the record's story.
const CLIENT: &str = "admin";

/// What the admin port was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Whose failure.
    pub group: GroupId,
    /// What failed, as the application saw it: where it was produced, or a hand-out of the group's
    /// retry topic.
    pub record: Origin,
    /// When it is to come back.
    pub want: Want,
    /// Why it failed.
    pub reason: Option<String>,
}

/// Why it is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PostRefusal {
    /// The group is passed through.
    #[error("the group {0:?} has no retries here (retry.lane: off)")]
    NoLane(String),
    /// No member would get it again.
    #[error(
        "the record of the group {group:?} would not come back: {why}. Start the application with \
         {topic} in its subscription, or send \"dlq\": true for the dead letters"
    )]
    NoWayBack {
        /// The group that failed it.
        group: String,
        /// The retry topic of that group.
        topic: TopicName,
        /// Why its retries are not taken.
        why: NoTaker,
    },
    /// Nobody has it.
    #[error("there is no topic {0:?}; topic is its name as the application sees it")]
    NoTopic(String),
    /// It has fewer.
    #[error("partition {partition} is none of {topic:?}, which has {partitions}, from 0 on")]
    NoPartition {
        /// Of which topic.
        topic: String,
        /// As asked.
        partition: i32,
        /// How many there are.
        partitions: i32,
    },
    /// Not in the table.
    #[error(
        "level {level} is out of range: 1 to {most} are in the table of this group, 0 is the next \
         one by itself, -1 the dead letters"
    )]
    NoLevel {
        /// As asked.
        level: i32,
        /// The last one.
        most: u32,
    },
    /// Nothing has it.
    #[error("no hand-out of {0} has the offset {1}; it is the one the application got it with")]
    NoHandOut(TopicName, i64),
    /// Its bytes are nowhere.
    #[error("there is no record {0}: it was never written, or is gone by retention")]
    NoRecord(Origin),
    /// Its bytes cannot be had now, or not by us.
    #[error("the record {record} cannot be read: {why}")]
    Unread {
        /// Which.
        record: Origin,
        /// Why, and what to do.
        why: String,
    },
    /// The table says no.
    #[error("{0}: {1}")]
    Bad(Origin, BadNack),
    /// It was not taken.
    #[error(transparent)]
    Engine(EngineError),
}

impl Router {
    /// Takes a nack that no client sends; durable on return. `None`: its partition waits for it.
    pub async fn post(&self, posted: Posted) -> Result<Option<NackOutcome>, PostRefusal> {
        let Posted { group, record, want, reason } = posted;
        self.may_come_back(&group, want).await?;
        let named = name(self, &group, record.clone());
        let record = match &named {
            Named::Origin(origin) => origin.clone(),
            _ => record,
        };
        let found = match &named {
            Named::Origin(origin) => self.bytes_at(&group, origin).await?,
            _ => self.is_first(&record).map(|()| Ok(None))?,
        };
        let (unread, found) = match found {
            Ok(found) => (None, found),
            Err(why) => (Some(why), None),
        };
        let committed = match &named {
            Named::Origin(origin) => self.committed(&group, origin),
            _ => None,
        };
        let (bytes, stored) = by_reference(&named, found);
        let record_bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        let nack = Nack {
            named,
            want,
            max_reconsume_times: None,
            reason,
            committed,
            carried: Carried::default(),
            bytes,
            record_bytes,
            key: None,
        };
        debug_assert_ne!(nack.bytes, Bytes::Value, "nobody has sent any");
        let batch = NackBatch {
            group: group.clone(),
            by: Reporter { member: None, client: ClientId::new(CLIENT) },
            producer: None,
            nacks: vec![NackRequest { nack, record: stored }],
        };
        let (stops, sent) = self.send_nacks(batch, Evidence::AdminNack);
        let reply = match sent.await {
            Ok(reply) => reply,
            Err(EngineError::BadNacks(bad)) => {
                let why = bad.first().map_or(BadNack::NotRemembered, |(_, why)| *why);
                if why == BadNack::BytesGone && unread.is_none() {
                    self.no_more(&group, &record);
                }
                return Err(match (why, unread) {
                    (BadNack::BytesGone, Some(why)) => PostRefusal::Unread { record, why },
                    (BadNack::BytesGone, None) => PostRefusal::NoRecord(record),
                    (BadNack::Unreadable, _) => PostRefusal::NoHandOut(record.topic, record.offset),
                    (why, _) => PostRefusal::Bad(record, why),
                });
            }
            Err(error) => return Err(PostRefusal::Engine(error)),
        };
        self.names.meet(&group);
        self.stop_keys(stops, &reply).await;
        match reply {
            NackReply::Taken(outcomes) => {
                outcomes.first().copied().ok_or(PostRefusal::Engine(EngineError::Stopped))
            }
            NackReply::Repeated => Err(PostRefusal::Engine(EngineError::Stopped)),
        }
    }

    /// Only what asks for the dead letters is taken where nobody would ever get it.
    async fn may_come_back(&self, group: &GroupId, want: Want) -> Result<(), PostRefusal> {
        let (lane, watched, in_order, most) = {
            let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
            let policy = policies.of(group);
            let in_order = policy.order == OrderMode::Partition;
            (policy.lane, policy.inference, in_order, policy.levels.len())
        };
        if !lane {
            return Err(PostRefusal::NoLane(group.to_string()));
        }
        let level = want.level.unwrap_or_default();
        if level < -1 || u32::try_from(level).is_ok_and(|level| level > most) {
            return Err(PostRefusal::NoLevel { level, most });
        }
        if !watched || level < 0 || in_order {
            return Ok(());
        }
        let known = self.engine.group(group).await.map_err(PostRefusal::Engine)?;
        let Some(why) = self.no_taker(group, known.as_ref()) else { return Ok(()) };
        let topic = self.names.retry_topic(group);
        Err(PostRefusal::NoWayBack { group: group.to_string(), topic, why })
    }

    /// A retry topic has one partition.
    fn is_first(&self, record: &Origin) -> Result<(), PostRefusal> {
        if record.partition == 0 {
            return Ok(());
        }
        let topic = self.names.canonical(&record.topic).to_string();
        Err(PostRefusal::NoPartition { topic, partition: record.partition, partitions: 1 })
    }

    /// The bytes of a record as produced. An error inside: they cannot be had, which matters only
    /// if an entry would begin with them.
    pub(super) async fn bytes_at(
        &self,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Result<Option<RawRecord>, String>, PostRefusal> {
        if let Some(upstream) = self.upstream.as_ref().filter(|_| !self.is_own(&origin.topic)) {
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
            At::Record(record) => Ok(Some(record)),
            At::Open => Err("its transaction is open; try again when it has ended".to_owned()),
            At::Nobodys | At::Nothing => Ok(None),
            At::Unreadable => Err(UNREADABLE.to_owned()),
        })
    }

    /// A record of the cluster: asked for in the name of members of the group, wherever they are
    /// connected. On a connection of our own only where we show no credentials: there everybody may
    /// read what we may.
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
            // They are not waited for where we can be told ourselves.
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

/// Why a record that is there cannot be given.
const UNREADABLE: &str = "its batch cannot be read: its checksum is wrong, or its codec unknown";

/// What a broker's answer to `who` says of a record; `None`: another one is to be asked.
fn said(found: Found, who: &str) -> Option<Result<Option<RawRecord>, String>> {
    Some(match found {
        Found::Record(record) => Ok(Some(record)),
        Found::Gone | Found::Empty => Ok(None),
        Found::Unreadable(_) | Found::Damaged => Err(UNREADABLE.to_owned()),
        Found::Denied => Err(format!("the cluster does not let {who} READ its topic")),
        Found::Elsewhere => return None,
    })
}

fn in_range(origin: &Origin, partitions: i32) -> Result<(), PostRefusal> {
    if (0..partitions).contains(&origin.partition) {
        return Ok(());
    }
    let (topic, partition) = (origin.topic.to_string(), origin.partition);
    Err(PostRefusal::NoPartition { topic, partition, partitions })
}
