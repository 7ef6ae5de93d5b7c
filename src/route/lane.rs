//! Who takes part in the retry-topic lane.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::engine::{EngineError, LaneSlot};
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::wire::assignment::Subscription;

/// Assignors whose user data is what a member was last given.
const STICKY: &[&str] = &["sticky", "cooperative-sticky"];
/// Assignor of Kafka Streams: it throws when assignment and task count differ.
pub(super) const STREAMS: &str = "stream";

impl Router {
    /// Remembers which member of `group` speaks on this connection.
    pub(super) fn speaks_for(&self, conn: &Conn, group: &GroupId, member: MemberId) {
        self.alive(group, &member);
        let bind = |token| self.tokens.bind(token, group, member.clone());
        let bound = conn.token.is_some_and(bind);
        if conn.speaks_for(group, member) || bound {
            self.detectors.change_owners();
        }
    }

    /// A member of a group of the cluster was heard of on this connection, under that id.
    pub(super) fn heard_of(
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
        self.speaks_for(conn, group, key.clone());
    }

    /// A member of a group of the cluster is gone: what it held returns to the queue.
    pub(super) fn gone_from(&self, group: &GroupId, key: &MemberId, left: bool) {
        self.members.gone(group, key);
        self.engine.leave(group, key.clone());
        self.lost(group, key, None, left);
    }

    /// The leader of a group of the cluster was told who is in it: whoever else spoke through here
    /// is gone, and is missed before anybody is given what it had.
    pub(super) fn gone_but(&self, group: &GroupId, members: &BTreeSet<MemberId>) {
        for known in self.members.seen(group, self.clock.now().mono) {
            if !known.has_epoch && !members.contains(&known.key) {
                self.gone_from(group, &known.key, false);
            }
        }
    }

    /// The member of `group` on this connection: by what it joined or synced here, else by the
    /// client object the address tells.
    pub(super) fn member_of(&self, conn: &Conn, group: &GroupId) -> Option<MemberId> {
        conn.member(group).or_else(|| conn.token.and_then(|token| self.tokens.member(token, group)))
    }

    /// The lane slot of the caller, if it is a member that has one.
    pub(super) async fn slot_of(
        &self,
        conn: &Conn,
        group: &GroupId,
    ) -> Result<Option<LaneSlot>, EngineError> {
        match self.member_of(conn, group) {
            Some(member) => self.engine.slot_of(group, member).await,
            None => Ok(None),
        }
    }

    /// Every topic a listing of all topics shows.
    pub(super) fn listed(&self) -> BTreeSet<TopicName> {
        let local = self.broker.topics.list();
        let mut names: BTreeSet<_> = local.iter().map(|topic| topic.name.clone()).collect();
        names.extend(self.names.listed());
        names
    }
}

/// The metadata of a JoinGroup without partitions of ours among those the member holds or was last
/// given: they never count.
pub(super) fn without_ours(router: &Router, assignor: &str, metadata: &Bytes) -> Bytes {
    let Ok(mut subscription) = Subscription::parse(metadata) else { return metadata.clone() };
    let before = subscription.clone();
    let is_own = |topic: &str| router.is_own(&TopicName::new(topic));
    subscription.strip_owned(is_own);
    if STICKY.contains(&assignor) {
        subscription.strip_remembered(is_own);
    }
    // Nothing of ours: as it came.
    if subscription == before { metadata.clone() } else { subscription.to_bytes() }
}

/// Whether a member's subscription names that topic.
pub(super) fn subscribes(metadata: &Bytes, topic: &TopicName) -> bool {
    Subscription::parse(metadata)
        .is_ok_and(|subscription| subscription.topics.iter().any(|known| known == topic))
}
