//! Attribution of a Fetch to a member: a Fetch names neither a group nor a member.
//!
//! The member is found by the listener's group, by the client address, or by the connection on
//! which it joined. Without a client address it is found by client id and host. An unattributed
//! Fetch is relayed unchanged and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};

use crate::broker::groups::MemberSubscription;
use crate::model::{GroupId, MemberId, TopicName};
use crate::retry::RetrySubscription;
use crate::retry::detector::MemberFetch;
use crate::route::Router;
use crate::route::clients::client_address::ClientAddress;
use crate::route::clients::conn::Conn;
use crate::route::delivery::TrackedFetch;
use crate::route::delivery::fetch_owner::{Attribution, FetchOwner, FetchSession, Owner};
use crate::wire::assignment::Subscription;

/// A member to which a Fetch may be attributed.
struct OwnerCandidate {
    group: GroupId,
    member: MemberId,
    /// The subscription; `None` if no JoinGroup of the member was seen since the start.
    topics: Option<Vec<TopicName>>,
}

impl OwnerCandidate {
    fn may_fetch(&self, topics: &[TopicName]) -> bool {
        let names_one = |known: &Vec<TopicName>| known.iter().any(|topic| topics.contains(topic));
        self.topics.as_ref().is_none_or(names_one)
    }
}

impl Router {
    /// The member that fetches these real topics; `None` if the Fetch is unattributed, or if
    /// nothing is inferred in its group.
    pub fn watched(
        &self,
        conn: &Conn,
        topics: &[TopicName],
        max_wait_ms: u64,
    ) -> Option<TrackedFetch> {
        if topics.is_empty() {
            return None;
        }
        let as_of = self.detectors.owner_changes();
        let owner = conn.fetch_owner(
            |known| known.as_of == as_of && *known.topics == *topics,
            || FetchOwner {
                as_of,
                topics: topics.into(),
                attribution: self.attribute(conn, topics),
            },
        );
        match owner.attribution {
            Attribution::Unattributed => {
                self.metrics.fetch_unattributed();
                None
            }
            Attribution::Unwatched => None,
            Attribution::Member(owner) => Some(TrackedFetch {
                group: owner.group.clone(),
                by: MemberFetch {
                    member: owner.member.clone(),
                    came: self.clock.now().mono,
                    conn: conn.id,
                    max_wait_ms,
                    retries: owner.retries.clone(),
                },
                detector: Arc::clone(&owner.detector),
                planned_at: AtomicU64::new(0),
            }),
        }
    }

    /// Whether the session on this connection has these topics and is still unattributed.
    pub(in crate::route) fn is_unattributed(&self, conn: &Conn, topics: &[TopicName]) -> bool {
        let as_of = self.detectors.owner_changes();
        conn.fetch_session(|session| {
            let has_all = |session: &&mut FetchSession| topics.iter().all(|one| session.has(one));
            let Some(session) = session.filter(has_all) else { return false };
            // A session without topics is answered without records.
            let holds = session.topics.is_empty()
                || session.as_of == Some(as_of)
                || !matches!(self.attribute(conn, &session.topics), Attribution::Member(_));
            session.as_of = holds.then_some(as_of);
            holds
        })
    }

    fn attribute(&self, conn: &Conn, topics: &[TopicName]) -> Attribution {
        let Some(found) = self.owner_of(conn, topics) else { return Attribution::Unattributed };
        let Some(detector) = self.detector_of(&found.group) else { return Attribution::Unwatched };
        let retries = self.subscribed_retries(&found);
        let OwnerCandidate { group, member, .. } = found;
        Attribution::Member(Arc::new(Owner { group, member, retries, detector }))
    }

    fn owner_of(&self, conn: &Conn, topics: &[TopicName]) -> Option<OwnerCandidate> {
        if let Some(group) = &conn.group {
            return match self.member_of(conn, group) {
                Some(member) => self.candidate(group, &member),
                None => self.owner_by_client(conn, topics, |of, _| of == group),
            };
        }
        let members = self.members_behind(conn);
        if members.is_empty() {
            // A member with a client address fetches through that address.
            let has_none = |group: &_, member: &_| !self.tokens.has_address(group, member);
            return self.owner_by_client(conn, topics, has_none);
        }
        let found = members.iter().filter_map(|(group, member)| self.candidate(group, member));
        let mut found: Vec<OwnerCandidate> = found.collect();
        if found.len() > 1 {
            // One client object is a member of several groups.
            found.retain(|candidate| candidate.may_fetch(topics));
        }
        found.pop().filter(|_| found.is_empty())
    }

    /// Members that joined on this connection or through its client address, by group.
    fn members_behind(&self, conn: &Conn) -> BTreeMap<GroupId, MemberId> {
        let mut members = conn.token.map(|token| self.tokens.members(token)).unwrap_or_default();
        if let Some(ClientAddress::Port(_)) = conn.token
            && !members.is_empty()
        {
            // Several client objects share a port when all of them are taken.
            let same = self.joined_as(conn);
            members.retain(|group, member| same.iter().any(|of| (&of.0, &of.1) == (group, member)));
        }
        members.extend(conn.members());
        members
    }

    /// The one live member that joined with the client id and from the host of this connection and
    /// subscribes to one of the topics. Two such members leave the Fetch unattributed.
    fn owner_by_client(
        &self,
        conn: &Conn,
        topics: &[TopicName],
        is_eligible: impl Fn(&GroupId, &MemberId) -> bool,
    ) -> Option<OwnerCandidate> {
        let joined = self.joined_as(conn).into_iter();
        let eligible = joined.filter(|(group, member)| is_eligible(group, member));
        let found = eligible.filter_map(|(group, member)| self.candidate(&group, &member));
        let mut found = found.filter(|candidate| candidate.may_fetch(topics));
        found.next().filter(|_| found.next().is_none())
    }

    /// Live members that joined with the client id and from the host of this connection.
    fn joined_as(&self, conn: &Conn) -> Vec<(GroupId, MemberId)> {
        let (client, host) = (conn.client(), conn.host());
        match &self.upstream {
            Some(_) => self.members.joined_as(&client, &host, self.clock.now().mono),
            None => self.broker.groups.joined_as(&client, &host),
        }
    }

    /// `None` if the group has no such member.
    fn candidate(&self, group: &GroupId, member: &MemberId) -> Option<OwnerCandidate> {
        let topics = if self.upstream.is_some() {
            self.members.find(group, member, self.clock.now().mono)?.topics
        } else {
            Some(topics_of(self.broker.groups.wanted_by(group, member)?))
        };
        Some(OwnerCandidate { group: group.clone(), member: member.clone(), topics })
    }

    /// The subscription of each member of a group.
    pub(in crate::route) fn subscriptions(&self, group: &GroupId) -> Vec<Vec<TopicName>> {
        if self.upstream.is_some() {
            let seen = self.members.seen(group, self.clock.now().mono).into_iter();
            return seen.filter(|seen| !seen.is_silent).filter_map(|seen| seen.topics).collect();
        }
        let wanted = self.broker.groups.wanted(group).into_iter();
        wanted.map(|(_, wanted)| topics_of(wanted)).collect()
    }

    /// The subscription of one member; `None`: it is unknown.
    pub(in crate::route) fn subscription_of(
        &self,
        group: &GroupId,
        member: &MemberId,
    ) -> Option<Vec<TopicName>> {
        self.candidate(group, member)?.topics
    }

    /// The topics to which members of a group subscribe, without ours.
    pub fn subscribed(&self, group: &GroupId) -> BTreeSet<TopicName> {
        let topics = self.subscriptions(group).into_iter().flatten();
        topics.filter(|topic| !self.names.is_ours(topic)).collect()
    }

    /// The retry topics to which failures of this member move.
    fn subscribed_retries(&self, candidate: &OwnerCandidate) -> RetrySubscription {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let in_place = policies.of(&candidate.group).in_place;
        drop(policies);
        let Some(topics) = candidate.topics.as_ref().filter(|_| !in_place) else {
            return RetrySubscription::default();
        };
        if !self.has_retry_topic(&candidate.group) {
            return RetrySubscription::default();
        }
        let topics = self.names.retry_topics(&candidate.group, topics);
        RetrySubscription::new(topics.map(|(topic, pair)| (topic.clone(), pair.source)))
    }
}

fn topics_of(wanted: MemberSubscription) -> Vec<TopicName> {
    match wanted {
        MemberSubscription::Topics(topics) => topics,
        MemberSubscription::Metadata(metadata) => {
            Subscription::parse(&metadata).map(|known| known.topics).unwrap_or_default()
        }
    }
}
