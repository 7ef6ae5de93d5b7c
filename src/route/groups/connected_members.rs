//! Members of groups, and the connections that each was seen on.

use std::collections::BTreeSet;

use crate::model::{GroupId, MemberId, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;

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

    /// Removes a member of a cluster group.
    pub(super) fn gone_from(&self, group: &GroupId, key: &MemberId, left: bool) {
        self.members.gone(group, key);
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

    /// All topics in a listing of topics.
    pub(in crate::route) fn listed(&self) -> BTreeSet<TopicName> {
        let local = self.broker.topics.list();
        let mut names: BTreeSet<_> = local.iter().map(|topic| topic.name.clone()).collect();
        names.extend(self.names.listed().into_iter().filter(|name| self.place(name).is_some()));
        names
    }
}
