//! Membership for the retry topic: members, their connections and their retry partitions.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::engine::{EngineError, LaneSlot};
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::wire::assignment::Subscription;

/// Assignors whose user data holds the member's previous assignment.
const STICKY: &[&str] = &["sticky", "cooperative-sticky"];
/// Assignor of Kafka Streams, which throws when assignment and task count differ.
pub(super) const STREAMS: &str = "stream";

impl Router {
    /// Records the member of `group` on this connection.
    pub(in crate::route) fn bind_member(&self, conn: &Conn, group: &GroupId, member: MemberId) {
        self.alive(group, &member);
        let bind = |token| self.tokens.bind(token, group, member.clone());
        let bound = conn.token.is_some_and(bind);
        if conn.bind_member(group, member) || bound {
            self.detectors.change_owners();
        }
    }

    /// Records a sign of life of a member of a cluster group on this connection.
    pub(in crate::route) fn note_alive(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
    ) {
        let is_live_anew = self.members.heard(group, (key, member_id), self.clock.now().mono);
        let is_other = self.members.speaks(group, key, conn.client(), conn.host());
        if is_live_anew || is_other {
            self.detectors.change_owners();
        }
        self.bind_member(conn, group, key.clone());
    }

    /// Removes a member of a cluster group: its retries return to the group's queue.
    pub(super) fn gone_from(&self, group: &GroupId, key: &MemberId, left: bool) {
        self.members.gone(group, key);
        self.engine.leave(group, key.clone());
        self.lost(group, key, None, left);
    }

    /// The leader of a cluster group received the member list: other members known here are lost.
    /// They are removed before their partitions are delivered to anyone.
    pub(super) fn gone_but(&self, group: &GroupId, members: &BTreeSet<MemberId>) {
        for known in self.members.seen(group, self.clock.now().mono) {
            if !known.has_epoch && !members.contains(&known.key) {
                self.gone_from(group, &known.key, false);
            }
        }
    }

    /// The member of `group` on this connection: from its JoinGroup or SyncGroup here, otherwise
    /// from the client address.
    pub(in crate::route) fn member_of(&self, conn: &Conn, group: &GroupId) -> Option<MemberId> {
        conn.member(group).or_else(|| conn.token.and_then(|token| self.tokens.member(token, group)))
    }

    /// The retry partition of the connection's member, if it has one.
    pub(in crate::route) async fn slot_of(
        &self,
        conn: &Conn,
        group: &GroupId,
    ) -> Result<Option<LaneSlot>, EngineError> {
        match self.member_of(conn, group) {
            Some(member) => self.engine.slot_of(group, member).await,
            None => Ok(None),
        }
    }

    /// All topics in a listing of topics.
    pub(in crate::route) fn listed(&self) -> BTreeSet<TopicName> {
        let local = self.broker.topics.list();
        let mut names: BTreeSet<_> = local.iter().map(|topic| topic.name.clone()).collect();
        names.extend(self.names.listed().into_iter().filter(|name| self.place(name).is_some()));
        names
    }
}

/// The metadata of a JoinGroup without our partitions among the owned and previous ones: the
/// assignor must not count them.
pub(super) fn without_ours(router: &Router, assignor: &str, metadata: &Bytes) -> Bytes {
    let Ok(mut subscription) = Subscription::parse(metadata) else { return metadata.clone() };
    let before = subscription.clone();
    let is_own = |topic: &str| router.is_own(&TopicName::new(topic));
    subscription.strip_owned(is_own);
    if STICKY.contains(&assignor) {
        subscription.strip_remembered(is_own);
    }
    // Unchanged metadata keeps the client's bytes.
    if subscription == before { metadata.clone() } else { subscription.to_bytes() }
}

pub(super) fn subscribes(metadata: &Bytes, topic: &TopicName) -> bool {
    Subscription::parse(metadata)
        .is_ok_and(|subscription| subscription.topics.iter().any(|known| known == topic))
}
