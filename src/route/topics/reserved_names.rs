//! The reserved names of this sidecar, and the ids of their topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use uuid::Uuid;

use crate::model::{GroupId, TopicName};
use crate::wire::names::{SidecarTopic, Templates, topic_id};

/// Bound of ids and mangled groups; beyond it the first by order is evicted.
const REMEMBERED_MAX: usize = 100_000;

/// Retry and dead-letter topics: group to name, name to group, id to name.
#[derive(Debug)]
pub struct Names {
    templates: Templates,
    known: RwLock<KnownNames>,
}

#[derive(Debug, Default)]
struct KnownNames {
    /// The cluster id from which topic ids are derived.
    cluster_id: String,
    by_id: BTreeMap<Uuid, TopicName>,
    /// Groups whose name was mangled for the topic name.
    groups: BTreeMap<TopicName, GroupId>,
    listed: BTreeSet<TopicName>,
}

impl Names {
    /// Topic ids are UUID v5 of `<cluster id>/<name>`.
    pub fn new(templates: Templates, cluster_id: &str) -> Self {
        let known = KnownNames { cluster_id: cluster_id.to_owned(), ..KnownNames::default() };
        Self { templates, known: RwLock::new(known) }
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
        match self.spelled(name)? {
            (SidecarTopic::Retry(_), group) => Some(group),
            (SidecarTopic::Dlq(_), _) => None,
        }
    }

    /// The group whose retry or dead-letter topic has that name.
    pub fn group_of(&self, name: &TopicName) -> Option<GroupId> {
        self.spelled(name).map(|(_, group)| group)
    }

    pub fn is_dead_letters(&self, name: &TopicName) -> bool {
        matches!(self.spelled(name), Some((SidecarTopic::Dlq(_), _)))
    }

    pub fn is_ours(&self, name: &TopicName) -> bool {
        self.spelled(name).is_some()
    }

    /// The topic kind and group of a reserved name.
    fn spelled(&self, name: &TopicName) -> Option<(SidecarTopic, GroupId)> {
        let owned = self.templates.owned(name.as_str())?;
        let (SidecarTopic::Retry(key) | SidecarTopic::Dlq(key)) = &owned;
        let group = self.full_group(name, key.as_group());
        Some((owned, group))
    }

    /// Whether the bytes of a request may contain a reserved name.
    pub(in crate::route) fn may_be_in(&self, request: &[u8]) -> bool {
        self.templates.may_be_in(request)
    }

    /// Topics of groups that have retries.
    pub fn listed(&self) -> Vec<TopicName> {
        self.read().listed.iter().cloned().collect()
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
