//! The reserved names of this sidecar, and the ids of their topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use uuid::Uuid;

use crate::model::{GroupId, TopicName};
use crate::wire::names::{SidecarTopic, Templates, topic_id};

/// Templates that the log line about a conflict proposes.
const OTHER_RETRY: &str = "reprise.retries.{group}";
const OTHER_DEAD_LETTERS: &str = "reprise.dead-letters.{group}";
/// Bound of ids and mangled groups; beyond it the first by order is evicted.
const REMEMBERED_MAX: usize = 100_000;

/// Retry and dead-letter topics: group to name, name to group, id to name.
#[derive(Debug)]
pub struct Names {
    templates: Templates,
    known: RwLock<KnownNames>,
    /// The size of `conflicts`, for a fast check: most processes have none.
    conflict_count: AtomicUsize,
}

#[derive(Debug, Default)]
struct KnownNames {
    /// The cluster id from which topic ids are derived.
    cluster_id: String,
    /// `cluster_id` is that of the upstream cluster.
    is_told: bool,
    by_id: BTreeMap<Uuid, TopicName>,
    /// Groups whose name was mangled for the topic name.
    groups: BTreeMap<TopicName, GroupId>,
    listed: BTreeSet<TopicName>,
    /// Reserved names in conflict: another owner has such a topic, which is served instead.
    conflicts: BTreeSet<TopicName>,
    /// Reserved names for which the cluster has answered whether it has such a topic.
    compared: BTreeSet<TopicName>,
}

impl Names {
    /// Topic ids are UUID v5 of `<cluster id>/<name>`.
    pub fn new(templates: Templates, cluster_id: &str) -> Self {
        let known = KnownNames { cluster_id: cluster_id.to_owned(), ..KnownNames::default() };
        Self { templates, known: RwLock::new(known), conflict_count: AtomicUsize::new(0) }
    }

    /// In front of a cluster, topic ids derive from its id, so that they are equal in every
    /// sidecar. The first Metadata sets it, before any of our ids leaves.
    pub fn of_cluster(&self, cluster_id: &str) {
        if self.knows_cluster() && self.read().cluster_id == cluster_id {
            return;
        }
        let mut known = self.write();
        known.is_told = true;
        cluster_id.clone_into(&mut known.cluster_id);
        let names: Vec<TopicName> = known.by_id.values().chain(&known.listed).cloned().collect();
        known.by_id = names.into_iter().map(|n| (topic_id(cluster_id, n.as_str()), n)).collect();
    }

    /// Whether the id of the upstream cluster is known.
    pub(in crate::route) fn knows_cluster(&self) -> bool {
        self.read().is_told
    }

    /// The topics of a subscription to the group's retry topic, without ours.
    pub(in crate::route) fn beside_retries(
        &self,
        group: &GroupId,
        topics: &[TopicName],
    ) -> Option<BTreeSet<TopicName>> {
        self.templates.beside_retries(group, topics)
    }

    pub fn retry_topic(&self, group: &GroupId) -> TopicName {
        let name = self.templates.retry_topic(group);
        self.remember(&name, group);
        name
    }

    pub fn dead_letter_topic(&self, group: &GroupId) -> TopicName {
        let name = self.templates.dlq_topic(group);
        self.remember(&name, group);
        name
    }

    /// Called when the group has retries: its two topics get their ids, and appear in listings.
    pub fn register(&self, group: &GroupId) {
        let names = [self.retry_topic(group), self.dead_letter_topic(group)];
        if self.read().listed.contains(&names[0]) {
            return;
        }
        for name in names {
            self.topic_id(&name);
            let mut known = self.write();
            if known.listed.len() < REMEMBERED_MAX {
                known.listed.insert(name);
            }
        }
    }

    /// The group whose retry topic has that name.
    pub fn group_of_retry(&self, name: &TopicName) -> Option<GroupId> {
        match self.owned(name)? {
            (SidecarTopic::Retry(_), group) => Some(group),
            (SidecarTopic::Dlq(_), _) => None,
        }
    }

    /// The group whose retry or dead-letter topic has that name.
    pub fn group_of(&self, name: &TopicName) -> Option<GroupId> {
        self.owned(name).map(|(_, group)| group)
    }

    pub fn is_dead_letters(&self, name: &TopicName) -> bool {
        matches!(self.owned(name), Some((SidecarTopic::Dlq(_), _)))
    }

    pub fn is_ours(&self, name: &TopicName) -> bool {
        self.owned(name).is_some()
    }

    /// The topic kind and group of a reserved name, also if it is in conflict.
    pub(in crate::route) fn spelled(&self, name: &TopicName) -> Option<(SidecarTopic, GroupId)> {
        let owned = self.templates.owned(name.as_str())?;
        let (SidecarTopic::Retry(key) | SidecarTopic::Dlq(key)) = &owned;
        let group = self.full_group(name, key.as_group());
        Some((owned, group))
    }

    /// The topic kind and group of a name; `None`: another owner has the topic.
    fn owned(&self, name: &TopicName) -> Option<(SidecarTopic, GroupId)> {
        self.spelled(name).filter(|_| !self.is_conflict(name))
    }

    /// Whether the bytes of a request may contain a reserved name.
    pub(in crate::route) fn may_be_in(&self, request: &[u8]) -> bool {
        self.templates.may_be_in(request)
    }

    /// Whether another owner has a topic with this reserved name.
    pub(super) fn is_conflict(&self, name: &TopicName) -> bool {
        self.conflicts() > 0 && self.read().conflicts.contains(name)
    }

    /// Whether the cluster has answered whether it has a topic with this reserved name.
    pub(super) fn is_compared(&self, name: &TopicName) -> bool {
        self.read().compared.contains(name)
    }

    /// Records whether `owner` has a topic with this reserved name; true: that has changed.
    pub(super) fn learn_conflict(&self, name: &TopicName, exists: bool, owner: &str) -> bool {
        let mut known = self.write();
        if known.compared.len() >= REMEMBERED_MAX {
            known.compared.pop_first();
        }
        known.compared.insert(name.clone());
        if exists == known.conflicts.contains(name) {
            return false;
        }
        if !exists {
            known.conflicts.remove(name);
        } else if known.conflicts.len() < REMEMBERED_MAX {
            known.conflicts.insert(name.clone());
        } else {
            return false;
        }
        self.conflict_count.store(known.conflicts.len(), Ordering::Release);
        drop(known);
        self.tell_conflict(name, exists, owner);
        true
    }

    /// Logs one line whenever a conflict begins or ends.
    fn tell_conflict(&self, topic: &TopicName, exists: bool, owner: &str) {
        let Some((kind, group)) = self.spelled(topic) else { return };
        match kind {
            _ if !exists => {
                tracing::info!(%topic, %group, "a name conflict is over: the topic is served here");
            }
            SidecarTopic::Retry(_) => tracing::warn!(
                %topic, %group,
                "R0300 {owner} has a topic by the name of this group's retry topic: it passes \
                 untouched, and no retry comes back through it. Delete the topic; or, once no \
                 retry waits, set `names: {{retry: \"{OTHER_RETRY}\"}}` and restart"
            ),
            SidecarTopic::Dlq(_) => tracing::warn!(
                %topic, %group,
                "R0301 {owner} has a topic by the name of this group's dead-letter topic: it \
                 passes untouched, and dead letters are kept here without a topic (`reprise dlq`). \
                 Delete the topic; or, once none is left, set `names: {{dead_letters: \
                 \"{OTHER_DEAD_LETTERS}\"}}` and restart"
            ),
        }
    }

    /// The number of reserved names in conflict.
    pub fn conflicts(&self) -> usize {
        self.conflict_count.load(Ordering::Acquire)
    }

    /// The first `count` names in conflict.
    pub fn conflict_names(&self, count: usize) -> Vec<TopicName> {
        self.read().conflicts.iter().take(count).cloned().collect()
    }

    /// Topics of groups that have retries, without those in conflict.
    pub fn listed(&self) -> Vec<TopicName> {
        let known = self.read();
        known.listed.difference(&known.conflicts).cloned().collect()
    }

    pub fn topic_id(&self, name: &TopicName) -> Uuid {
        let id = topic_id(&self.read().cluster_id, name.as_str());
        if !self.read().by_id.contains_key(&id) {
            let mut known = self.write();
            if known.by_id.len() >= REMEMBERED_MAX {
                known.by_id.pop_first();
            }
            known.by_id.insert(id, name.clone());
        }
        id
    }

    /// The name of an id that was made before.
    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        self.read().by_id.get(&id).cloned()
    }

    fn full_group(&self, name: &TopicName, rest: GroupId) -> GroupId {
        self.read().groups.get(name).cloned().unwrap_or(rest)
    }

    /// Stores the group of a mangled name; any other name contains its group.
    fn remember(&self, name: &TopicName, group: &GroupId) {
        if self.templates.key(group).as_str() == group.as_str()
            || self.read().groups.contains_key(name)
        {
            return;
        }
        let mut known = self.write();
        if known.groups.len() >= REMEMBERED_MAX {
            known.groups.pop_first();
        }
        known.groups.insert(name.clone(), group.clone());
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownNames> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownNames> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_with_an_illegal_name_has_a_reversible_topic() {
        let names = Names::new(Templates::default(), "c");
        let group = GroupId::new("my shop/1");
        let topic = names.retry_topic(&group);
        assert_ne!(topic.as_str(), "reprise.retry.my shop/1");
        assert_eq!(names.group_of_retry(&topic), Some(group));
    }

    #[test]
    fn topic_ids_derive_from_the_cluster_id_once_known() {
        let names = Names::new(Templates::default(), "ours");
        names.register(&"shop".into());
        let before = names.topic_id(&"reprise.retry.shop".into());
        names.of_cluster("theirs");
        let after = names.topic_id(&"reprise.retry.shop".into());
        assert_eq!(
            after,
            Names::new(Templates::default(), "theirs").topic_id(&"reprise.retry.shop".into())
        );
        assert_ne!(before, after);
        assert_eq!(names.name_of(after), Some("reprise.retry.shop".into()));
        assert_eq!(names.name_of(before), None);
    }

    #[test]
    fn only_groups_with_retries_are_listed_but_any_id_resolves() {
        let names = Names::new(Templates::default(), "c");
        names.retry_topic(&"quiet".into());
        names.register(&"shop".into());
        let listed: Vec<_> = names.listed().iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["reprise.dlq.shop", "reprise.retry.shop"]);
        let id = names.topic_id(&"reprise.retry.other".into());
        assert_eq!(names.name_of(id), Some("reprise.retry.other".into()));
    }
}
