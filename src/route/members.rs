//! Members of groups whose coordinator is a real broker, as far as they speak through here.
//!
//! The embedded coordinator knows its members; of the cluster's groups only what passes by is
//! known: what a member subscribed to when it joined, and that it is still heard of. A member that
//! is not heard of for its session timeout is *silent*: it is remembered, and counts neither as a
//! member nor as a taker of retries.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kafka_protocol::messages::consumer_group_heartbeat_response::TopicPartitions;

use crate::group::member_key;
use crate::model::{ClientId, GroupId, MemberId, MonoMs, TopicName};
use crate::wire::assignment::Subscription;

/// A member that was not heard of for so long is gone: longer than a coordinator is away, or than
/// the others of a group take to join.
const GONE_MS: u64 = 30 * 60 * 1000;
/// Members remembered at most; more than any pod has.
const MEMBERS_MAX: usize = 100_000;

/// What a member said when it joined, and the last time it was heard of.
#[derive(Clone, Debug)]
struct Known {
    /// Its metadata for the chosen protocol; `None` when it was not seen joining.
    metadata: Option<Bytes>,
    session_ms: u64,
    heard: MonoMs,
    /// What its coordinator last told it to hold (KIP-848).
    held: Option<Vec<TopicPartitions>>,
    /// What of ours it was told besides.
    ours: Vec<TopicName>,
    /// It is a member by KIP-848: it has an epoch, not a generation.
    has_epoch: bool,
    /// It has joined here by KIP-848, or was told to.
    has_joined: bool,
    /// Client id, and host as Kafka writes it.
    client: (ClientId, String),
    presence: Presence,
}

/// Signs of life of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Heard of since the start.
    Heard,
    /// Known from before the start only.
    Remembered,
    /// Not heard of for the session timeout, which the engine was told.
    Silent,
}

/// A member that is not heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// For its session timeout: its coordinator may be away, or it waits for others to join.
    Silent,
    /// For so long that it is gone, whatever happened.
    Gone,
}

/// A member, for people.
#[derive(Clone, Debug)]
pub struct MemberSeen {
    /// The name that outlives its process.
    pub key: MemberId,
    /// What it calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub host: String,
    /// What it subscribes to; `None`: it was not seen joining.
    pub topics: Option<Vec<TopicName>>,
    /// It is a member by KIP-848.
    pub has_epoch: bool,
    /// Not heard of for the session timeout, or not since the start.
    pub is_silent: bool,
}

/// One group.
#[derive(Debug, Default)]
struct Group {
    /// By the name that outlives the process (`group::member_key`).
    members: BTreeMap<MemberId, Known>,
    /// As of the last join seen.
    protocol: String,
    /// The whole group's subscriptions by member id, as its leader was told them here.
    led: BTreeMap<MemberId, Bytes>,
    /// Names of static members, which do not say them each time, by member id.
    keys: BTreeMap<MemberId, MemberId>,
    /// Who holds a topic of ours that only one member may.
    claims: BTreeMap<TopicName, MemberId>,
}

/// All groups that are seen from here.
#[derive(Debug)]
pub struct Members {
    groups: Mutex<BTreeMap<GroupId, Group>>,
    /// How long a member may be silent whose session its coordinator alone knows.
    session_ms: u64,
}

fn topics_of(metadata: &Bytes) -> Vec<TopicName> {
    Subscription::parse(metadata).map(|known| known.topics).unwrap_or_default()
}

impl Known {
    fn new(metadata: Option<Bytes>, session_ms: u64, now: MonoMs) -> Self {
        Self {
            metadata,
            session_ms,
            heard: now,
            held: None,
            ours: Vec::new(),
            has_epoch: false,
            has_joined: false,
            client: (ClientId::new(""), String::new()),
            presence: Presence::Heard,
        }
    }

    /// The coordinator has not dropped it, as far as its heartbeats tell.
    fn is_live(&self, now: MonoMs) -> bool {
        self.presence == Presence::Heard && now.since(self.heard) <= self.session_ms
    }

    fn seen(&self, key: &MemberId, now: MonoMs) -> MemberSeen {
        MemberSeen {
            key: key.clone(),
            client_id: self.client.0.clone(),
            host: self.client.1.clone(),
            topics: self.metadata.as_ref().map(topics_of),
            has_epoch: self.has_epoch,
            is_silent: !self.is_live(now),
        }
    }
}

fn is_full(groups: &BTreeMap<GroupId, Group>) -> bool {
    groups.values().map(|group| group.members.len()).sum::<usize>() >= MEMBERS_MAX
}

impl Group {
    /// A static member speaks under that id; nobody speaks under the one before.
    fn knows_by(&mut self, member_id: &MemberId, key: &MemberId) {
        if member_id != key && self.keys.get(member_id) != Some(key) {
            self.keys.retain(|_, known| known != key);
            self.keys.insert(member_id.clone(), key.clone());
        }
    }

    fn remove(&mut self, key: &MemberId) {
        self.members.remove(key);
        self.keys.retain(|_, known| known != key);
        self.claims.retain(|_, holder| holder != key);
    }
}

/// A member that has joined.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) key: MemberId,
    pub(super) protocol: String,
    pub(super) metadata: Bytes,
    pub(super) session_ms: u64,
    /// Everybody's subscription, if this member leads.
    pub(super) led: BTreeMap<MemberId, Bytes>,
}

impl Members {
    /// `session_ms`: how long a member may be silent whose session its coordinator alone knows.
    pub fn new(session_ms: u64) -> Self {
        Self { groups: Mutex::default(), session_ms }
    }

    /// The name of a member that outlives its process, if it is static: as it says now, or said
    /// when it was last heard of.
    pub(super) fn key_of(
        &self,
        group: &GroupId,
        member: &MemberId,
        instance_id: Option<&str>,
    ) -> MemberId {
        if instance_id.is_some() {
            return member_key(member, instance_id);
        }
        let groups = self.lock();
        let known = groups.get(group).and_then(|group| group.keys.get(member));
        known.unwrap_or(member).clone()
    }

    /// Whether this member is the one here that holds a topic of ours; it is from now on if nobody
    /// does who is still heard of.
    pub(super) fn claim(
        &self,
        group: &GroupId,
        key: &MemberId,
        topic: &TopicName,
        now: MonoMs,
    ) -> bool {
        let mut groups = self.lock();
        let group = groups.entry(group.clone()).or_default();
        let holder = group.claims.get(topic).and_then(|holder| group.members.get(holder));
        // Its coordinator has missed it when others are assigned anew; heartbeats are far closer.
        let is_alive = holder.is_some_and(|known| now.since(known.heard) < known.session_ms / 2);
        if !is_alive {
            group.claims.insert(topic.clone(), key.clone());
        }
        group.claims.get(topic) == Some(key)
    }

    /// A member by KIP-848 is told these topics of ours; whether they are others than before.
    pub(super) fn holds_ours(&self, group: &GroupId, key: &MemberId, ours: &[TopicName]) -> bool {
        let is_news = self.with(group, key, |known| {
            known.has_epoch = true;
            let is_news = known.ours != ours;
            known.ours = ours.to_vec();
            is_news
        });
        is_news == Some(true)
    }

    /// A member's join was answered.
    pub(super) fn joined(&self, group: &GroupId, joined: Joined, now: MonoMs) {
        let mut groups = self.lock();
        if is_full(&groups) {
            return;
        }
        let group = groups.entry(group.clone()).or_default();
        let Joined { key, protocol, metadata, session_ms, led } = joined;
        let wanted = topics_of(&metadata);
        group.claims.retain(|topic, holder| *holder != key || wanted.contains(topic));
        group.members.insert(key, Known::new(Some(metadata), session_ms, now));
        group.protocol = protocol;
        if !led.is_empty() {
            group.led = led;
        }
    }

    /// The protocol the group chose when a member last joined through here.
    pub(super) fn protocol(&self, group: &GroupId) -> String {
        self.lock().get(group).map(|group| group.protocol.clone()).unwrap_or_default()
    }

    /// What a member of this sidecar subscribes to.
    pub(super) fn subscription(&self, group: &GroupId, key: &MemberId) -> Option<Bytes> {
        self.lock().get(group)?.members.get(key)?.metadata.clone()
    }

    /// What any member subscribes to, as its leader was told here.
    pub(super) fn led(&self, group: &GroupId, member: &MemberId) -> Option<Bytes> {
        self.lock().get(group)?.led.get(member).cloned()
    }

    /// A member was heard of under that id; one that was not seen joining is known from now on.
    /// True if the member was not live before.
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
            let known = Known::new(None, self.session_ms, now);
            groups.entry(group.clone()).or_default().members.insert(key.clone(), known);
        }
        let Some(group) = groups.get_mut(group) else { return false };
        group.knows_by(member_id, key);
        let Some(known) = group.members.get_mut(key) else { return false };
        let was_live = known.is_live(now) && !is_new;
        (known.heard, known.presence) = (now, Presence::Heard);
        !was_live
    }

    /// A member held a slot before the start. It is silent until it is heard of.
    pub(super) fn remember(&self, group: &GroupId, key: &MemberId, now: MonoMs) {
        let mut groups = self.lock();
        if is_full(&groups) {
            return;
        }
        let known =
            Known { presence: Presence::Remembered, ..Known::new(None, self.session_ms, now) };
        groups.entry(group.clone()).or_default().members.entry(key.clone()).or_insert(known);
    }

    /// A member by KIP-848 joins here, or is told to; whether it does for the first time.
    pub(super) fn joins(&self, group: &GroupId, key: &MemberId) -> bool {
        let joined = |known: &mut Known| std::mem::replace(&mut known.has_joined, true);
        self.with(group, key, joined) == Some(false)
    }

    /// A member by KIP-848 names its subscription; true if it is another one than before.
    pub(super) fn subscribes(&self, group: &GroupId, key: &MemberId, metadata: Bytes) -> bool {
        let is_other = |known: &mut Known| {
            let before = known.metadata.replace(metadata);
            before != known.metadata
        };
        self.with(group, key, is_other) == Some(true)
    }

    /// The topics a member subscribes to; `None`: it has not said so here.
    pub(super) fn wants(&self, group: &GroupId, key: &MemberId) -> Option<Vec<TopicName>> {
        self.subscription(group, key).map(|metadata| topics_of(&metadata))
    }

    /// A member by KIP-848 is told what to hold.
    pub(super) fn holds(&self, group: &GroupId, key: &MemberId, topics: Vec<TopicPartitions>) {
        self.with(group, key, |known| known.held = Some(topics));
    }

    /// What a member was last told to hold; `None`: nothing, or before a restart.
    pub(super) fn held(&self, group: &GroupId, key: &MemberId) -> Option<Vec<TopicPartitions>> {
        self.lock().get(group)?.members.get(key)?.held.clone()
    }

    /// A member's requests come from that client id and host; true if from others before.
    pub(super) fn speaks(
        &self,
        group: &GroupId,
        key: &MemberId,
        client: ClientId,
        host: String,
    ) -> bool {
        let client = (client, host);
        let is_other = |known: &mut Known| {
            let before = std::mem::replace(&mut known.client, client);
            before != known.client
        };
        self.with(group, key, is_other) == Some(true)
    }

    /// Live members of all groups with that client id and host.
    pub(super) fn joined_as(
        &self,
        client: &ClientId,
        host: &str,
        now: MonoMs,
    ) -> Vec<(GroupId, MemberId)> {
        let groups = self.lock();
        let is_same = |known: &Known| known.client.0 == *client && known.client.1 == host;
        let members = groups.iter().flat_map(|(group, known)| {
            let live =
                known.members.iter().filter(|(_, known)| is_same(known) && known.is_live(now));
            live.map(|(key, _)| (group.clone(), key.clone()))
        });
        members.collect()
    }

    /// Whether no member at all speaks through here.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Groups with members here.
    pub fn groups(&self) -> Vec<GroupId> {
        self.lock().keys().cloned().collect()
    }

    /// The members of a group that speak through here, silent ones included.
    pub fn seen(&self, group: &GroupId, now: MonoMs) -> Vec<MemberSeen> {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| &group.members);
        members.map(|(key, known)| known.seen(key, now)).collect()
    }

    /// The members of a group that speak through here and are not silent.
    pub fn count_live(&self, group: &GroupId, now: MonoMs) -> usize {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.filter(|known| known.is_live(now)).count()
    }

    /// Whether a member speaks through here and is not silent.
    pub(super) fn is_live(&self, group: &GroupId, key: &MemberId, now: MonoMs) -> bool {
        self.with(group, key, |known| known.is_live(now)) == Some(true)
    }

    /// Members of a group that are connected elsewhere, as a leader here was last told of them:
    /// all, and those that subscribe to `topic`.
    pub fn elsewhere(&self, group: &GroupId, topic: &TopicName) -> (usize, usize) {
        let groups = self.lock();
        let Some(group) = groups.get(group) else { return (0, 0) };
        let is_here = |id: &MemberId| {
            let key = group.keys.get(id).unwrap_or(id);
            group.members.contains_key(key)
        };
        let away: Vec<&Bytes> =
            group.led.iter().filter(|(id, _)| !is_here(id)).map(|(_, wanted)| wanted).collect();
        (away.len(), away.iter().filter(|wanted| topics_of(wanted).contains(topic)).count())
    }

    /// One of them; `None`: there is no such member here.
    pub(super) fn find(&self, group: &GroupId, key: &MemberId, now: MonoMs) -> Option<MemberSeen> {
        self.with(group, key, |known| known.seen(key, now))
    }

    /// Members by KIP-848 that were not heard of for half their session: their coordinator has
    /// missed them when another is given what they had; heartbeats are far closer.
    pub(super) fn quiet(&self, group: &GroupId, now: MonoMs) -> Vec<MemberId> {
        let groups = self.lock();
        let members = groups.get(group).into_iter().flat_map(|group| &group.members);
        let is_quiet =
            |known: &Known| known.has_epoch && now.since(known.heard) >= known.session_ms / 2;
        members.filter(|(_, known)| is_quiet(known)).map(|(key, _)| key.clone()).collect()
    }

    /// Whether a member was seen to be one by KIP-848.
    pub(super) fn has_epoch(&self, group: &GroupId, key: &MemberId) -> bool {
        let groups = self.lock();
        let known = groups.get(group).and_then(|group| group.members.get(key));
        known.is_some_and(|known| known.has_epoch)
    }

    /// A member left or was told that it is none.
    pub(super) fn gone(&self, group: &GroupId, key: &MemberId) {
        let mut groups = self.lock();
        let Some(known) = groups.get_mut(group) else { return };
        known.remove(key);
        if known.members.is_empty() {
            groups.remove(group);
        }
    }

    /// Members that were not heard of for their session timeout, told once; and those that were
    /// not for so long that they are taken out.
    pub(super) fn unheard(&self, now: MonoMs) -> Vec<(GroupId, MemberId, Unheard)> {
        let mut unheard = Vec::new();
        self.lock().retain(|name, group| {
            let mut gone = Vec::new();
            for (key, known) in &mut group.members {
                let quiet_ms = now.since(known.heard);
                let word = if quiet_ms > known.session_ms.max(GONE_MS) {
                    gone.push(key.clone());
                    Unheard::Gone
                } else if quiet_ms > known.session_ms && known.presence != Presence::Silent {
                    known.presence = Presence::Silent;
                    Unheard::Silent
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

    /// Members of a group of which others were just assigned what it held: those that were not
    /// heard of for about their session timeout are out, and told once. Its coordinator counts
    /// from a moment before we heard of them.
    pub(super) fn missed(&self, group: &GroupId, now: MonoMs) -> Vec<MemberId> {
        let mut groups = self.lock();
        let members = groups.get_mut(group).into_iter().flat_map(|group| &mut group.members);
        let missed = members.filter_map(|(key, known)| {
            let is_out = now.since(known.heard) >= known.session_ms / 10 * 9;
            let is_news = is_out && known.presence != Presence::Silent;
            if is_out {
                known.presence = Presence::Silent;
            }
            is_news.then(|| key.clone())
        });
        missed.collect()
    }

    /// `None`: no such member is known.
    fn with<T>(
        &self,
        group: &GroupId,
        key: &MemberId,
        f: impl FnOnce(&mut Known) -> T,
    ) -> Option<T> {
        self.lock().get_mut(group)?.members.get_mut(key).map(f)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
