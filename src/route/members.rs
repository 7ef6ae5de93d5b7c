//! Members of groups whose coordinator is a real broker, as far as they speak through here.
//!
//! The embedded coordinator knows its members; of the cluster's groups only what passes by is
//! known: what a member subscribed to when it joined, and that it is still heard of.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::model::{GroupId, MemberId, MonoMs};

/// Members remembered at most; more than any pod has.
const MEMBERS_MAX: usize = 100_000;
/// How long a member may be silent that was not seen joining: Kafka's default session timeout.
const SESSION_MS: u64 = 45_000;

/// What a member said when it joined, and the last time it was heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// Its metadata for the chosen protocol; empty when it was not seen joining.
    metadata: Bytes,
    session_ms: u64,
    heard: MonoMs,
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
}

/// All groups that are seen from here.
#[derive(Debug, Default)]
pub struct Members(Mutex<BTreeMap<GroupId, Group>>);

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
    /// A member's join was answered.
    pub(super) fn joined(&self, group: &GroupId, joined: Joined, now: MonoMs) {
        let mut groups = self.lock();
        let known: usize = groups.values().map(|group| group.members.len()).sum();
        if known >= MEMBERS_MAX {
            return;
        }
        let group = groups.entry(group.clone()).or_default();
        let Joined { key, protocol, metadata, session_ms, led } = joined;
        group.members.insert(key, Known { metadata, session_ms, heard: now });
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
        self.lock().get(group)?.members.get(key).map(|known| known.metadata.clone())
    }

    /// What any member subscribes to, as its leader was told here.
    pub(super) fn led(&self, group: &GroupId, member: &MemberId) -> Option<Bytes> {
        self.lock().get(group)?.led.get(member).cloned()
    }

    /// A member was heard of; one that was not seen joining is known from now on.
    pub(super) fn heard(&self, group: &GroupId, key: &MemberId, now: MonoMs) {
        let mut groups = self.lock();
        let known: usize = groups.values().map(|group| group.members.len()).sum();
        match groups.get_mut(group).and_then(|group| group.members.get_mut(key)) {
            Some(known) => known.heard = now,
            None if known < MEMBERS_MAX => {
                let known = Known { metadata: Bytes::new(), session_ms: SESSION_MS, heard: now };
                groups.entry(group.clone()).or_default().members.insert(key.clone(), known);
            }
            None => {}
        }
    }

    /// A member left or was told that it is none.
    pub(super) fn gone(&self, group: &GroupId, key: &MemberId) {
        let mut groups = self.lock();
        let Some(known) = groups.get_mut(group) else { return };
        known.members.remove(key);
        if known.members.is_empty() {
            groups.remove(group);
        }
    }

    /// Takes out who was not heard of for its session timeout.
    pub(super) fn expire(&self, now: MonoMs) -> Vec<(GroupId, MemberId)> {
        let mut silent = Vec::new();
        self.lock().retain(|name, group| {
            group.members.retain(|key, known| {
                let stays = now.since(known.heard) <= known.session_ms;
                if !stays {
                    silent.push((name.clone(), key.clone()));
                }
                stays
            });
            !group.members.is_empty()
        });
        silent
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, Group>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(key: &str, session_ms: u64) -> Joined {
        Joined {
            key: key.into(),
            protocol: "range".to_owned(),
            metadata: Bytes::from_static(b"topics"),
            session_ms,
            led: BTreeMap::new(),
        }
    }

    #[test]
    fn a_silent_member_is_gone_after_its_own_session_timeout() {
        let (members, group) = (Members::default(), GroupId::from("shop"));
        members.joined(&group, joined("a", 10_000), MonoMs(0));
        members.joined(&group, joined("b", 30_000), MonoMs(0));
        members.heard(&group, &"restarted".into(), MonoMs(0));
        assert_eq!(members.expire(MonoMs(10_000)), []);
        assert_eq!(members.expire(MonoMs(10_001)), [(group.clone(), "a".into())]);
        members.heard(&group, &"b".into(), MonoMs(30_000));
        assert_eq!(members.expire(MonoMs(30_001)), []);
        assert_eq!(members.expire(MonoMs(45_001)), [(group.clone(), "restarted".into())]);
        assert!(members.subscription(&group, &"b".into()).is_some(), "it was heard of since");
    }

    #[test]
    fn whoever_joins_after_the_leader_takes_nothing_from_it() {
        let (members, group) = (Members::default(), GroupId::from("shop"));
        let led = BTreeMap::from([(MemberId::from("b"), Bytes::from_static(b"b's topics"))]);
        members.joined(&group, Joined { led, ..joined("a", 10_000) }, MonoMs(0));
        members.joined(&group, joined("b", 10_000), MonoMs(0));
        let told = members.led(&group, &"b".into());
        assert_eq!(told, Some(Bytes::from_static(b"b's topics")));
    }

    #[test]
    fn what_a_member_subscribes_to_goes_with_it() {
        let (members, group) = (Members::default(), GroupId::from("shop"));
        members.joined(&group, joined("a", 10_000), MonoMs(0));
        assert_eq!(members.protocol(&group), "range");
        assert_eq!(members.subscription(&group, &"a".into()), Some(Bytes::from_static(b"topics")));
        members.gone(&group, &"a".into());
        assert_eq!(members.subscription(&group, &"a".into()), None);
    }
}
