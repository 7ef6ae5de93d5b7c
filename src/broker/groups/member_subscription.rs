//! Subscriptions and clients of the members of a group, by either protocol.

use bytes::Bytes;

use crate::broker::groups::Groups;
use crate::model::{ClientId, GroupId, MemberId, TopicName};

/// The subscription of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSubscription {
    /// Metadata for the chosen assignor, a subscription for consumers; empty before an assignor is
    /// chosen.
    Metadata(Bytes),
    /// Topic names (KIP-848).
    Topics(Vec<TopicName>),
}

impl Groups {
    /// Subscriptions of all members of a group; static members are named `instance:<id>`.
    pub fn wanted(&self, group: &GroupId) -> Vec<(MemberId, MemberSubscription)> {
        let state = self.lock();
        let Some(cell) = state.cells.get(group) else { return Vec::new() };
        let classic = cell.machine.as_classic().map(|group| {
            let each = group.subscriptions();
            each.map(|(member, metadata)| (member, MemberSubscription::Metadata(metadata)))
                .collect::<Vec<_>>()
        });
        let consumer = cell.machine.as_consumer().map(|group| {
            let each = group.subscriptions();
            each.map(|(member, topics)| (member, MemberSubscription::Topics(topics)))
                .collect::<Vec<_>>()
        });
        classic.or(consumer).unwrap_or_default()
    }

    /// The subscription of `member`; `None` if the group has no such member.
    pub fn wanted_by(&self, group: &GroupId, member: &MemberId) -> Option<MemberSubscription> {
        let state = self.lock();
        let machine = &state.cells.get(group)?.machine;
        if let Some(group) = machine.as_classic() {
            let found = group.subscriptions().find(|(key, _)| key == member);
            return found.map(|(_, metadata)| MemberSubscription::Metadata(metadata));
        }
        let found = machine.as_consumer()?.subscriptions().find(|(key, _)| key == member);
        found.map(|(_, topics)| MemberSubscription::Topics(topics))
    }

    /// Members of all groups with that client id and host.
    pub fn joined_as(&self, client: &ClientId, host: &str) -> Vec<(GroupId, MemberId)> {
        let state = self.lock();
        let groups = state.cells.iter().flat_map(|(group, cell)| {
            let classic = cell.machine.as_classic().into_iter();
            let consumer = cell.machine.as_consumer().into_iter();
            let members = classic
                .flat_map(|classic| classic.joined_as(client, host))
                .chain(consumer.flat_map(|consumer| consumer.joined_as(client, host)));
            members.map(|member| (group.clone(), member))
        });
        groups.collect()
    }
}
