//! Membership cache: members of the cluster's groups that are connected through this sidecar.
//!
//! The embedded coordinator knows its members. Of the cluster's groups the sidecar knows only the
//! relayed requests: subscriptions and signs of life. A member without a sign of life for its
//! session timeout is *silent*: it stays in the cache, but does not count as a member.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::model::{ClientId, GroupId, MemberId, MonoMs, TopicName};
use crate::wire::assignment::Subscription;

/// A member without a sign of life for so long is removed. The time is longer than a coordinator's
/// outage or a group's rebalance.
const GONE_MS: u64 = 30 * 60 * 1000;
/// Bound of members, above the number that any pod has.
const MEMBERS_MAX: usize = 100_000;

/// A member's last join and its last sign of life.
#[derive(Clone, Debug)]
struct CachedMember {
    /// The metadata for the chosen protocol; `None`: no join was seen.
    metadata: Option<Bytes>,
    session_ms: u64,
    heard: MonoMs,
    /// The member uses the consumer protocol (KIP-848): it has an epoch, not a generation.
    has_epoch: bool,
    /// Client id, and host as Kafka writes it.
    client: (ClientId, String),
    /// No sign of life for the session timeout, which was reported.
    is_silent: bool,
}

/// The absence of a member's signs of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSilence {
    /// For its session timeout: the coordinator may be away, or the member waits in a rebalance.
    Silent,
    /// For so long that the member is removed.
    Gone,
}

/// A member, for the admin API and the CLI.
#[derive(Clone, Debug)]
pub struct MemberSeen {
    /// The instance id of a static member, otherwise the member id.
    pub key: MemberId,
    pub client_id: ClientId,
    /// The client's address, as Kafka writes it.
    pub host: String,
    /// The subscription; `None`: no join was seen.
    pub topics: Option<Vec<TopicName>>,
    /// The member uses the consumer protocol (KIP-848).
    pub has_epoch: bool,
    pub session_ms: u64,
    /// No sign of life for the session timeout, or none since the start.
    pub is_silent: bool,
}

#[derive(Debug, Default)]
struct GroupMembers {
    /// By `group::member_key`, which is stable for static members.
    members: BTreeMap<MemberId, CachedMember>,
    /// All subscriptions of the group by member id, as a leader connected here received them.
    led: BTreeMap<MemberId, Bytes>,
    /// Keys of static members by member id: not every request repeats the instance id.
    keys: BTreeMap<MemberId, MemberId>,
}

/// All groups with members connected here.
#[derive(Debug)]
pub struct MembershipCache {
    groups: Mutex<BTreeMap<GroupId, GroupMembers>>,
    /// The session timeout of members whose own one is known only to the coordinator.
    pub session_ms: u64,
}

fn topics_of(metadata: &Bytes) -> Vec<TopicName> {
    Subscription::parse(metadata).map(|known| known.topics).unwrap_or_default()
}

impl CachedMember {
    fn new(metadata: Option<Bytes>, session_ms: u64, now: MonoMs) -> Self {
        Self {
            metadata,
            session_ms,
            heard: now,
            has_epoch: false,
            client: (ClientId::new(""), String::new()),
            is_silent: false,
        }
    }

    /// Whether the coordinator still has the member, as far as its heartbeats show.
    fn is_live(&self, now: MonoMs) -> bool {
        !self.is_silent && now.since(self.heard) <= self.session_ms
    }

    fn seen(&self, key: &MemberId, now: MonoMs) -> MemberSeen {
        MemberSeen {
            key: key.clone(),
            client_id: self.client.0.clone(),
            host: self.client.1.clone(),
            topics: self.metadata.as_ref().map(topics_of),
            has_epoch: self.has_epoch,
            session_ms: self.session_ms,
            is_silent: !self.is_live(now),
        }
    }
}

fn is_full(groups: &BTreeMap<GroupId, GroupMembers>) -> bool {
    groups.values().map(|group| group.members.len()).sum::<usize>() >= MEMBERS_MAX
}

impl GroupMembers {
    /// Maps the member id of a static member to its key; a former member id of it is removed.
    fn knows_by(&mut self, member_id: &MemberId, key: &MemberId) {
        if member_id != key && self.keys.get(member_id) != Some(key) {
            self.keys.retain(|_, known| known != key);
            self.keys.insert(member_id.clone(), key.clone());
        }
    }

    fn remove(&mut self, key: &MemberId) {
        self.members.remove(key);
        self.keys.retain(|_, known| known != key);
    }
}

#[derive(Clone, Debug)]
pub(in crate::route) struct MemberJoin {
    pub(in crate::route) key: MemberId,
    pub(in crate::route) metadata: Bytes,
    pub(super) session_ms: u64,
    /// All subscriptions of the group, if this member is the leader.
    pub(super) led: BTreeMap<MemberId, Bytes>,
}

impl MembershipCache {
    /// `session_ms`: the session timeout of members whose own one is known only to the coordinator.
    pub fn new(session_ms: u64) -> Self {
        Self { groups: Mutex::default(), session_ms }
    }

    /// The key of a member; a static member is found by its instance id, from this request or an
    /// earlier one.
    pub(in crate::route) fn key_of(&self, group: &GroupId, member: &MemberId) -> Option<MemberId> {
        self.lock().get(group)?.keys.get(member).cloned()
    }

    /// Records that a member uses the consumer protocol (KIP-848).
    pub(super) fn has_epochs(&self, group: &GroupId, key: &MemberId) {
        self.with(group, key, |known| known.has_epoch = true);
    }

    /// Records a successful join.
    pub(super) fn joined(&self, group: &GroupId, joined: MemberJoin, now: MonoMs) {
        let mut groups = self.lock();
        if is_full(&groups) {
            return;
        }
        let group = groups.entry(group.clone()).or_default();
        let MemberJoin { key, metadata, session_ms, led } = joined;
        group.members.insert(key, CachedMember::new(Some(metadata), session_ms, now));
        if !led.is_empty() {
            group.led = led;
        }
    }

    /// The subscription metadata of a member connected here.
    pub(super) fn subscription(&self, group: &GroupId, key: &MemberId) -> Option<Bytes> {
        self.lock().get(group)?.members.get(key)?.metadata.clone()
    }

    /// Records a sign of life of the member under that member id; adds the member if it is unknown.
    /// True: it was not live before.
    pub(super) fn heard(
        &self,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        now: MonoMs,
    ) -> bool {
        let mut groups = self.lock();
        let is_new = !groups.get(group).is_some_and(|group| group.members.contains_key(key));
        if is_new {
            if is_full(&groups) {
                return false;
            }
            let known = CachedMember::new(None, self.session_ms, now);
            groups.entry(group.clone()).or_default().members.insert(key.clone(), known);
        }
        let Some(group) = groups.get_mut(group) else { return false };
        group.knows_by(member_id, key);
        let Some(known) = group.members.get_mut(key) else { return false };
        let was_live = known.is_live(now) && !is_new;
        (known.heard, known.is_silent) = (now, false);
        !was_live
    }

    /// Records the subscription of a KIP-848 member; true: it changed.
    pub(super) fn subscribes(&self, group: &GroupId, key: &MemberId, metadata: Bytes) -> bool {
        let is_other = |known: &mut CachedMember| {
            let before = known.metadata.replace(metadata);
            before != known.metadata
        };
        self.with(group, key, is_other) == Some(true)
    }

    /// The topics a member subscribes to; `None`: no subscription was seen here.
    pub(super) fn wants(&self, group: &GroupId, key: &MemberId) -> Option<Vec<TopicName>> {
        self.subscription(group, key).map(|metadata| topics_of(&metadata))
    }

    /// Records the client id and host of a member; true: they changed.
    pub(super) fn speaks(
        &self,
        group: &GroupId,
        key: &MemberId,
        client: ClientId,
        host: String,
    ) -> bool {
        let client = (client, host);
        let is_other = |known: &mut CachedMember| {
            let before = std::mem::replace(&mut known.client, client);
            before != known.client
        };
        self.with(group, key, is_other) == Some(true)
    }

    /// Live members of all groups with that client id and host.
    pub(in crate::route) fn joined_as(
        &self,
        client: &ClientId,
        host: &str,
        now: MonoMs,
    ) -> Vec<(GroupId, MemberId)> {
        let groups = self.lock();
        let is_same = |known: &CachedMember| known.client.0 == *client && known.client.1 == host;
        let members = groups.iter().flat_map(|(group, known)| {
            let live =
                known.members.iter().filter(|(_, known)| is_same(known) && known.is_live(now));
            live.map(|(key, _)| (group.clone(), key.clone()))
        });
        members.collect()
    }

    /// Whether no member at all is connected through here.
    pub(in crate::route) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Groups with members connected here.
    pub fn groups(&self) -> Vec<GroupId> {
        self.lock().keys().cloned().collect()
    }

    /// The members of a group that are connected here, silent ones included.
    pub fn seen(&self, group: &GroupId, now: MonoMs) -> Vec<MemberSeen> {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| &group.members);
        members.map(|(key, known)| known.seen(key, now)).collect()
    }

    /// The number of members of a group that are connected here and not silent.
    pub fn count_live(&self, group: &GroupId, now: MonoMs) -> usize {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.filter(|known| known.is_live(now)).count()
    }

    /// Members of a group that are connected elsewhere, from the last list that a leader here
    /// received: the number of all, and of those whose topics it takes.
    pub fn elsewhere(
        &self,
        group: &GroupId,
        takes: impl Fn(&[TopicName]) -> bool,
    ) -> (usize, usize) {
        let groups = self.lock();
        let Some(group) = groups.get(group) else { return (0, 0) };
        let is_here = |id: &MemberId| {
            let key = group.keys.get(id).unwrap_or(id);
            group.members.contains_key(key)
        };
        let away: Vec<&Bytes> =
            group.led.iter().filter(|(id, _)| !is_here(id)).map(|(_, wanted)| wanted).collect();
        (away.len(), away.iter().filter(|wanted| takes(&topics_of(wanted))).count())
    }

    /// One member; `None`: it is unknown here.
    pub(in crate::route) fn find(
        &self,
        group: &GroupId,
        key: &MemberId,
        now: MonoMs,
    ) -> Option<MemberSeen> {
        self.with(group, key, |known| known.seen(key, now))
    }

    /// KIP-848 members without a sign of life for half their session. The coordinator removes a
    /// member before it reassigns its partitions, and heartbeats come far more often.
    pub(super) fn quiet(&self, group: &GroupId, now: MonoMs) -> Vec<MemberId> {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| &group.members);
        let is_quiet = |known: &CachedMember| {
            known.has_epoch && now.since(known.heard) >= known.session_ms / 2
        };
        members.filter(|(_, known)| is_quiet(known)).map(|(key, _)| key.clone()).collect()
    }

    /// Whether a member uses the consumer protocol (KIP-848).
    pub(in crate::route) fn has_epoch(&self, group: &GroupId, key: &MemberId) -> bool {
        let groups = self.lock();
        let known = groups.get(group).and_then(|group| group.members.get(key));
        known.is_some_and(|known| known.has_epoch)
    }

    /// Removes a member that left, or that the coordinator does not know.
    pub(in crate::route) fn gone(&self, group: &GroupId, key: &MemberId) {
        let mut groups = self.lock();
        let Some(known) = groups.get_mut(group) else { return };
        known.remove(key);
        if known.members.is_empty() {
            groups.remove(group);
        }
    }

    /// Members without a sign of life for their session timeout, each reported once, and members
    /// that are removed for good.
    pub(super) fn unheard(&self, now: MonoMs) -> Vec<(GroupId, MemberId, MemberSilence)> {
        let mut unheard = Vec::new();
        self.lock().retain(|name, group| {
            let mut gone = Vec::new();
            for (key, known) in &mut group.members {
                let quiet_ms = now.since(known.heard);
                let word = if quiet_ms > known.session_ms.max(GONE_MS) {
                    gone.push(key.clone());
                    MemberSilence::Gone
                } else if quiet_ms > known.session_ms && !known.is_silent {
                    known.is_silent = true;
                    MemberSilence::Silent
                } else {
                    continue;
                };
                unheard.push((name.clone(), key.clone(), word));
            }
            for key in gone {
                group.remove(&key);
            }
            !group.members.is_empty()
        });
        unheard
    }

    /// Called when a member receives an assignment: members of the group without a sign of life for
    /// 90 % of their session timeout are out. Each is reported once. The coordinator's timer starts
    /// a moment before the sidecar sees the heartbeat.
    pub(super) fn missed(&self, group: &GroupId, now: MonoMs) -> Vec<MemberId> {
        let mut groups = self.lock();
        let members = groups.get_mut(group).into_iter().flat_map(|group| &mut group.members);
        let missed = members.filter_map(|(key, known)| {
            let is_out = now.since(known.heard) >= known.session_ms / 10 * 9;
            let is_news = is_out && !known.is_silent;
            known.is_silent |= is_out;
            is_news.then(|| key.clone())
        });
        missed.collect()
    }

    /// `None`: the member is unknown.
    fn with<T>(
        &self,
        group: &GroupId,
        key: &MemberId,
        f: impl FnOnce(&mut CachedMember) -> T,
    ) -> Option<T> {
        self.lock().get_mut(group)?.members.get_mut(key).map(f)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, GroupMembers>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
