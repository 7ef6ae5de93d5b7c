//! The names this sidecar keeps for itself, and the ids of the topics behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use uuid::Uuid;

use crate::model::{GroupId, TopicName};
use crate::wire::names::{Owned, Templates, topic_id};

/// Templates that a line about a conflict proposes.
const OTHER_RETRY: &str = "reprise.retries.{group}";
const OTHER_DEAD_LETTERS: &str = "reprise.dead-letters.{group}";
/// Ids and mangled groups remembered; beyond that the oldest by order are forgotten.
const REMEMBERED_MAX: usize = 100_000;

/// Retry and dead-letter topics: group → name, name → group, id → name.
#[derive(Debug)]
pub struct Names {
    templates: Templates,
    /// Dead-letter topics of an earlier configuration that are served beside those of this one.
    former: BTreeMap<TopicName, GroupId>,
    known: RwLock<Known>,
    /// Number of known conflicts: most processes never have one.
    conflict_count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Known {
    /// Ids are made from it.
    cluster_id: String,
    /// It is the real cluster's.
    is_told: bool,
    by_id: BTreeMap<Uuid, TopicName>,
    /// Behind mangled names.
    groups: BTreeMap<TopicName, GroupId>,
    listed: BTreeSet<TopicName>,
    /// Names of ours that another owner has a topic by, which is served instead of ours.
    conflicts: BTreeSet<TopicName>,
    /// Names of ours for which the cluster has said whether it has such a topic.
    compared: BTreeSet<TopicName>,
}

impl Names {
    /// Names by these templates; ids are uuid v5 over `<cluster id>/<name>`.
    pub fn new(templates: Templates, cluster_id: &str) -> Self {
        let known = Known { cluster_id: cluster_id.to_owned(), ..Known::default() };
        Self {
            templates,
            former: BTreeMap::new(),
            known: RwLock::new(known),
            conflict_count: AtomicUsize::new(0),
        }
    }

    /// With dead-letter topics that no template of this configuration names.
    #[must_use]
    pub fn with_former(mut self, former: BTreeMap<TopicName, GroupId>) -> Self {
        let mut known = self.write();
        for (name, group) in &former {
            let id = topic_id(&known.cluster_id, name.as_str());
            known.by_id.insert(id, name.clone());
            known.listed.insert(name.clone());
            known.groups.insert(name.clone(), group.clone());
        }
        drop(known);
        self.former = former;
        self
    }

    /// In front of a cluster ids are made from its own id, so that they are the same through every
    /// sidecar. Told with the first Metadata, before any of our ids is.
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

    /// Whether the cluster's own id was told.
    pub(super) fn knows_cluster(&self) -> bool {
        self.read().is_told
    }

    /// The retry topic of a group.
    pub fn retry_topic(&self, group: &GroupId) -> TopicName {
        let name = self.templates.retry_topic(group);
        self.remember(&name, group);
        name
    }

    /// The dead-letter topic of a group.
    pub fn dead_letter_topic(&self, group: &GroupId) -> TopicName {
        let name = self.templates.dlq_topic(group);
        self.remember(&name, group);
        name
    }

    /// The group has retries: its two topics are known by id before any client asks, and part of
    /// a listing of all topics from now on.
    pub fn meet(&self, group: &GroupId) {
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

    /// The RocketMQ spelling `%RETRY%g` becomes `reprise.retry.g`; any other name stays.
    pub fn canonical(&self, name: &TopicName) -> TopicName {
        if !name.as_str().starts_with('%') {
            return name.clone();
        }
        match self.templates.owned(name.as_str()) {
            Some(Owned::Retry(key)) => self.templates.retry_topic(&key.as_group()),
            Some(Owned::Dlq(key)) => self.templates.dlq_topic(&key.as_group()),
            None => name.clone(),
        }
    }

    /// The group whose retry topic has that name.
    pub fn group_of_retry(&self, name: &TopicName) -> Option<GroupId> {
        match self.owned(name)? {
            (Owned::Retry(_), group) => Some(group),
            (Owned::Dlq(_), _) => None,
        }
    }

    /// The group whose retry or dead-letter topic has that name.
    pub fn group_of(&self, name: &TopicName) -> Option<GroupId> {
        self.owned(name).map(|(_, group)| group)
    }

    /// Whether the name is a dead-letter topic's.
    pub fn is_dead_letters(&self, name: &TopicName) -> bool {
        matches!(self.owned(name), Some((Owned::Dlq(_), _)))
    }

    /// Whether the name is a retry topic's or a dead-letter topic's.
    pub fn is_ours(&self, name: &TopicName) -> bool {
        self.owned(name).is_some()
    }

    /// The topic and group a name of ours spells, whether or not another owner has a topic by it.
    pub(super) fn spelled(&self, name: &TopicName) -> Option<(Owned, GroupId)> {
        let owned = match self.templates.owned(name.as_str()) {
            Some(owned) => owned,
            None => Owned::Dlq(self.templates.key(self.former.get(name)?)),
        };
        let (Owned::Retry(key) | Owned::Dlq(key)) = &owned;
        let group = self.full_group(name, key.as_group());
        Some((owned, group))
    }

    /// The topic and group a name means; `None` where the topic is another owner's.
    fn owned(&self, name: &TopicName) -> Option<(Owned, GroupId)> {
        self.spelled(name).filter(|_| !self.is_conflict(&self.canonical(name)))
    }

    /// Whether a request of these bytes may name one of our topics.
    pub(super) fn may_be_in(&self, request: &[u8]) -> bool {
        !self.former.is_empty() || self.templates.may_be_in(request)
    }

    /// Whether another owner has a topic by this name of ours.
    pub(super) fn is_conflict(&self, name: &TopicName) -> bool {
        self.conflicts() > 0 && self.read().conflicts.contains(name)
    }

    /// Whether the cluster has said whether it has a topic by this name of ours.
    pub(super) fn is_compared(&self, name: &TopicName) -> bool {
        self.read().compared.contains(name)
    }

    /// Remembers whether `owner` has a topic by this name of ours; true: that has changed.
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

    /// One line each time a conflict begins or ends.
    fn tell_conflict(&self, topic: &TopicName, exists: bool, owner: &str) {
        let Some((kind, group)) = self.spelled(topic) else { return };
        match kind {
            _ if !exists => {
                tracing::info!(%topic, %group, "a name conflict is over: the topic is served here");
            }
            Owned::Retry(_) => tracing::warn!(
                %topic, %group,
                "R0300 {owner} has a topic by the name of this group's retry topic: it passes \
                 untouched, and no retry comes back through it. Set `names: {{retry: \
                 \"{OTHER_RETRY}\"}}` and restart, or delete the topic"
            ),
            Owned::Dlq(_) => tracing::warn!(
                %topic, %group,
                "R0301 {owner} has a topic by the name of this group's dead-letter topic: it \
                 passes untouched, and dead letters are kept here without a topic (`reprise dlq`). \
                 Set `names: {{dead_letters: \"{OTHER_DEAD_LETTERS}\"}}` and restart, or delete \
                 the topic"
            ),
        }
    }

    /// Number of names of ours that are another owner's topics.
    pub fn conflicts(&self) -> usize {
        self.conflict_count.load(Ordering::Acquire)
    }

    /// The first few of those names.
    pub fn conflict_names(&self, count: usize) -> Vec<TopicName> {
        self.read().conflicts.iter().take(count).cloned().collect()
    }

    /// Topics of groups that have retries, without those that are another owner's.
    pub fn listed(&self) -> Vec<TopicName> {
        let known = self.read();
        known.listed.difference(&known.conflicts).cloned().collect()
    }

    /// The id of one of our topics.
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

    /// The name behind an id, once it was told to anybody.
    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        self.read().by_id.get(&id).cloned()
    }

    fn full_group(&self, name: &TopicName, rest: GroupId) -> GroupId {
        self.read().groups.get(name).cloned().unwrap_or(rest)
    }

    /// Only a mangled name needs a memory: any other spells its group.
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

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_legal_name_is_found_behind_its_mangled_topic() {
        let names = Names::new(Templates::default(), "c");
        let group = GroupId::new("my shop/1");
        let topic = names.retry_topic(&group);
        assert_ne!(topic.as_str(), "reprise.retry.my shop/1");
        assert_eq!(names.group_of_retry(&topic), Some(group));
    }

    #[test]
    fn the_cluster_s_own_id_makes_the_ids_whoever_asks_first() {
        let names = Names::new(Templates::default(), "ours");
        names.meet(&"shop".into());
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
    fn only_groups_with_retries_are_listed_and_any_name_told_is_known_by_id() {
        let names = Names::new(Templates::default(), "c");
        names.retry_topic(&"quiet".into());
        names.meet(&"shop".into());
        let listed: Vec<_> = names.listed().iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["reprise.dlq.shop", "reprise.retry.shop"]);
        let id = names.topic_id(&"reprise.retry.other".into());
        assert_eq!(names.name_of(id), Some("reprise.retry.other".into()));
    }
}
