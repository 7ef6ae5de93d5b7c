//! Whose a Fetch is: it names no group. A listener may be one group's; the address tells which
//! client object it is; else a topic that only one group consumes here, by one member.
//!
//! In a session (KIP-227) only the first Fetch names its topics, later ones what has changed. So
//! what the first one named is kept of a session that is nobody's: it may become somebody's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;

use crate::broker::groups::Wanted;
use crate::model::{GroupId, MemberId, TopicName};
use crate::retry::watch::Fetching;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::watching::{GroupWatch, Watched};
use crate::wire::assignment::Subscription;

/// Bytes of the names that are kept of a session: thousands of topics.
const SESSION_BYTES_MAX: usize = 256 << 10;

/// Topics a member subscribes to; `None`: it was not seen joining.
type Wants = Option<Vec<TopicName>>;

/// Whose Fetches come on a connection.
#[derive(Clone, Debug)]
pub struct Whose {
    /// As of this count of changes, for these topics.
    as_of: u64,
    topics: Arc<[TopicName]>,
    owner: Owner,
}

#[derive(Clone, Debug)]
enum Owner {
    /// Nobody known.
    Nobody,
    /// Nothing is inferred in its group.
    Unwatched,
    Member(Arc<Seat>),
}

#[derive(Debug)]
struct Seat {
    group: GroupId,
    member: MemberId,
    has_lane: bool,
    watch: Arc<GroupWatch>,
}

/// A session of Fetches that was nobody's when it began.
#[derive(Debug)]
pub struct FetchSession {
    /// All of them, in order.
    topics: Vec<TopicName>,
    /// As of this count of changes it is nobody's.
    as_of: Option<u64>,
}

/// A member that may be the one.
struct Consumer {
    group: GroupId,
    member: MemberId,
    wants: Wants,
}

impl Whose {
    /// The group whose member fetches there.
    pub(in crate::route) fn group(&self) -> Option<&GroupId> {
        match &self.owner {
            Owner::Member(seat) => Some(&seat.group),
            Owner::Nobody | Owner::Unwatched => None,
        }
    }
}

impl FetchSession {
    /// One of these topics, unless they are too many to be kept.
    pub(in crate::route) fn of(mut topics: Vec<TopicName>) -> Option<Self> {
        let bytes = |topic: &TopicName| size_of::<TopicName>() + topic.as_str().len();
        let bytes: usize = topics.iter().map(bytes).sum();
        topics.sort_unstable();
        (bytes <= SESSION_BYTES_MAX).then_some(Self { topics, as_of: None })
    }

    fn has(&self, topic: &TopicName) -> bool {
        self.topics.binary_search(topic).is_ok()
    }
}

impl Consumer {
    fn may_want(&self, topics: &[TopicName]) -> bool {
        let wants = |known: &Vec<TopicName>| known.iter().any(|topic| topics.contains(topic));
        self.wants.as_ref().is_none_or(wants)
    }
}

impl Router {
    /// Whose Fetch of these real topics this is; `None`: nobody's that is watched.
    pub fn watched(&self, conn: &Conn, topics: &[TopicName], max_wait_ms: u64) -> Option<Watched> {
        if topics.is_empty() {
            return None;
        }
        let as_of = self.watches.changes();
        let whose = conn.whose(
            |known| known.as_of == as_of && *known.topics == *topics,
            || Whose { as_of, topics: topics.into(), owner: self.owner(conn, topics) },
        );
        match whose.owner {
            Owner::Nobody => {
                self.metrics.fetch_unowned();
                None
            }
            Owner::Unwatched => None,
            Owner::Member(seat) => Some(Watched {
                group: seat.group.clone(),
                by: Fetching {
                    member: seat.member.clone(),
                    came: self.clock.now().mono,
                    conn: conn.id,
                    max_wait_ms,
                    has_lane: seat.has_lane,
                },
                watch: Arc::clone(&seat.watch),
                planned_at: AtomicU64::new(0),
            }),
        }
    }

    /// Whether the session of a Fetch is known here, has these topics, and is nobody's still.
    pub(in crate::route) fn is_nobodys(&self, conn: &Conn, topics: &[TopicName]) -> bool {
        let as_of = self.watches.changes();
        conn.fetch_session(|session| {
            let has_all = |session: &&mut FetchSession| topics.iter().all(|one| session.has(one));
            let Some(session) = session.filter(has_all) else { return false };
            // Nothing leaves where nothing was asked for.
            let holds = session.topics.is_empty()
                || session.as_of == Some(as_of)
                || !matches!(self.owner(conn, &session.topics), Owner::Member(_));
            session.as_of = holds.then_some(as_of);
            holds
        })
    }

    fn owner(&self, conn: &Conn, topics: &[TopicName]) -> Owner {
        let Some(found) = self.consumer(conn, topics) else { return Owner::Nobody };
        let Some(watch) = self.watch_of(&found.group) else { return Owner::Unwatched };
        let has_lane = self.comes_back_by_lane(&found);
        let Consumer { group, member, .. } = found;
        Owner::Member(Arc::new(Seat { group, member, has_lane, watch }))
    }

    fn consumer(&self, conn: &Conn, topics: &[TopicName]) -> Option<Consumer> {
        if let Some(group) = &conn.group {
            let speaks = self.member_of(conn, group);
            let speaks = speaks.and_then(|member| self.known(group, &member));
            return speaks.or_else(|| self.only_one(conn, self.consumers(group)));
        }
        let mut speak: Vec<Consumer> = self.speakers(conn);
        if !speak.is_empty() && conn.token.is_some_and(|token| self.tokens.fetches(token)) {
            self.watches.changed();
        }
        match speak.len() {
            0 => self.only_consumer(conn, topics),
            1 => speak.pop(),
            // One client object in several groups.
            _ => {
                speak.retain(|consumer| consumer.may_want(topics));
                if speak.len() == 1 { speak.pop() } else { None }
            }
        }
    }

    /// Members that speak on this connection or through its address.
    fn speakers(&self, conn: &Conn) -> Vec<Consumer> {
        let mut members: BTreeMap<GroupId, MemberId> =
            conn.token.map(|token| self.tokens.members(token)).unwrap_or_default();
        members.extend(conn.members());
        members.iter().filter_map(|(group, member)| self.known(group, member)).collect()
    }

    /// The only member here of the only group here that consumes one of these topics.
    fn only_consumer(&self, conn: &Conn, topics: &[TopicName]) -> Option<Consumer> {
        let groups = match &self.upstream {
            Some(_) => self.members.groups(),
            None => self.broker.groups.list().into_iter().map(|listed| listed.group).collect(),
        };
        let all = groups.iter().map(|group| self.consumers(group));
        let mut all = all.filter(|members| members.iter().any(|one| one.may_want(topics)));
        let only = all.next()?;
        if all.next().is_some() { None } else { self.only_one(conn, only) }
    }

    /// The only one of these, unless it is known to be another client.
    fn only_one(&self, conn: &Conn, mut members: Vec<Consumer>) -> Option<Consumer> {
        let one = members.pop().filter(|_| members.is_empty())?;
        let is_another = || self.tokens.is_another(&one.group, &one.member, &conn.client());
        (conn.token.is_none() || !is_another()).then_some(one)
    }

    /// The member, if it is one.
    fn known(&self, group: &GroupId, member: &MemberId) -> Option<Consumer> {
        let wants = if self.upstream.is_some() {
            self.members.find(group, member, self.clock.now().mono)?.topics
        } else {
            Some(topics_of(self.broker.groups.wanted_by(group, member)?))
        };
        Some(Consumer { group: group.clone(), member: member.clone(), wants })
    }

    /// Everyone of a group who speaks through here.
    fn consumers(&self, group: &GroupId) -> Vec<Consumer> {
        let consumer = |member, wants| Consumer { group: group.clone(), member, wants };
        if self.upstream.is_some() {
            let seen = self.members.seen(group, self.clock.now().mono).into_iter();
            return seen.map(|seen| consumer(seen.key, seen.topics)).collect();
        }
        let wanted = self.broker.groups.wanted(group).into_iter();
        wanted.map(|(member, wanted)| consumer(member, Some(topics_of(wanted)))).collect()
    }

    /// Topics that members of a group subscribe to, without those of ours.
    pub fn subscribed(&self, group: &GroupId) -> BTreeSet<TopicName> {
        let wants = self.consumers(group).into_iter().filter_map(|consumer| consumer.wants);
        wants.flatten().filter(|topic| !self.names.is_ours(topic)).collect()
    }

    /// Whether what fails at this member need not wait in its own place.
    fn comes_back_by_lane(&self, consumer: &Consumer) -> bool {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let in_place = policies.of(&consumer.group).in_place;
        drop(policies);
        let retry = self.names.retry_topic(&consumer.group);
        let subscribes =
            |known: &Vec<TopicName>| known.iter().any(|topic| self.names.canonical(topic) == retry);
        !in_place
            && consumer.wants.as_ref().is_some_and(subscribes)
            && self.has_lane(&consumer.group)
    }
}

fn topics_of(wanted: Wanted) -> Vec<TopicName> {
    match wanted {
        Wanted::Topics(topics) => topics,
        Wanted::Metadata(metadata) => {
            Subscription::parse(&metadata).map(|known| known.topics).unwrap_or_default()
        }
    }
}
