//! The reserved names of this sidecar, and the ids of their topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use uuid::Uuid;

use crate::model::{GroupId, Origin, RetryPair, TopicName};
use crate::wire::mark::{NackHeaders, NackedRecord};
use crate::wire::names::{SidecarTopic, Templates, topic_id};

/// Bound of ids and owners; beyond it the first by order is evicted.
const REMEMBERED_MAX: usize = 100_000;

/// Retry and dead-letter topics: owner to name, name to owner, id to name.
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
    /// Groups whose name was mangled for the name of their dead-letter topic.
    groups: BTreeMap<TopicName, GroupId>,
    /// The first pair that used the name of a retry topic. A name may be mangled, or have several
    /// readings.
    pairs: BTreeMap<TopicName, RetryPair>,
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

    pub fn retry_topic(&self, pair: &RetryPair) -> TopicName {
        let name = self.templates.retry_topic(pair);
        if !self.read().pairs.contains_key(&name) {
            let mut known = self.write();
            if known.pairs.len() >= REMEMBERED_MAX {
                known.pairs.pop_first();
            }
            known.pairs.entry(name.clone()).or_insert_with(|| pair.clone());
        }
        name
    }

    /// The owner of the retry topic for the retries of `source` in a group.
    pub fn pair(&self, group: &GroupId, source: Option<&TopicName>) -> RetryPair {
        self.templates.pair(group, source)
    }

    /// Whether the pair was the first to use the name of its retry topic.
    pub fn is_owner(&self, pair: &RetryPair) -> bool {
        self.retry_pair(&self.retry_topic(pair)).as_ref() == Some(pair)
    }

    /// Learns the owners of the retry topics in a subscription of the group.
    pub(in crate::route) fn learn(&self, group: &GroupId, topics: &[TopicName]) {
        let sources = topics.iter().filter(|topic| !self.is_ours(topic)).map(Some);
        for source in sources.chain([None]) {
            let pair = self.pair(group, source);
            if topics.contains(&self.templates.retry_topic(&pair)) {
                self.retry_topic(&pair);
            }
        }
    }

    /// Learns the owner of a retry topic from a nack for it; an owner that is known stays.
    pub(in crate::route) fn learn_nack(&self, name: &TopicName, nack: &NackHeaders) {
        let of = |origin: &Origin| (!self.is_ours(&origin.topic)).then(|| origin.topic.clone());
        let named = match &nack.named {
            NackedRecord::Origin(origin) => of(origin),
            NackedRecord::None => None,
        };
        let source = named.or_else(|| nack.delivery.as_ref().and_then(|copied| of(&copied.first)));
        let pair = self.templates.pair_of_nack(name, nack.group.as_ref(), source.as_ref());
        if let Some(pair) = pair {
            self.retry_topic(&pair);
        }
    }

    /// A client without READ on the group used the name for this pair: the next one has it, unless
    /// the pair has retries.
    pub(in crate::route) fn disown(&self, pair: &RetryPair) {
        let name = self.templates.retry_topic(pair);
        let mut known = self.write();
        if !known.listed.contains(&name) && known.pairs.get(&name) == Some(pair) {
            known.pairs.remove(&name);
        }
    }

    /// Whether the name is that of a retry topic without a known owner.
    pub(in crate::route) fn lacks_owner(&self, name: &TopicName) -> bool {
        let is_retry = matches!(self.templates.owned(name.as_str()), Some(SidecarTopic::Retry(_)));
        is_retry && !self.read().pairs.contains_key(name)
    }

    /// The retry topics of the group in a subscription, each with the topic whose retries it has.
    pub(in crate::route) fn retry_topics<'a>(
        &self,
        group: &GroupId,
        topics: &'a [TopicName],
    ) -> impl Iterator<Item = (&'a TopicName, RetryPair)> {
        let own = |topic| Some((topic, self.retry_pair(topic)?));
        topics.iter().filter_map(own).filter(|(_, pair)| pair.group == *group)
    }

    /// Whether a subscription names a retry topic of the group.
    pub fn reads_retries(&self, group: &GroupId, topics: &[TopicName]) -> bool {
        self.retry_topics(group, topics).next().is_some()
    }

    pub fn dead_letter_topic(&self, group: &GroupId) -> TopicName {
        let name = self.templates.dlq_topic(group);
        self.remember(&name, group);
        name
    }

    /// Called when the pair has retries: its topics get their ids, and appear in listings.
    pub fn register(&self, pair: &RetryPair) {
        let names = [self.retry_topic(pair), self.dead_letter_topic(&pair.group)];
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

    /// The owner of the retry topic with that name.
    pub fn retry_pair(&self, name: &TopicName) -> Option<RetryPair> {
        match self.owner(name)? {
            SidecarTopic::Retry(pair) => Some(pair),
            SidecarTopic::Dlq(_) => None,
        }
    }

    /// The group whose retry or dead-letter topic has that name.
    pub fn group_of(&self, name: &TopicName) -> Option<GroupId> {
        Some(match self.owner(name)? {
            SidecarTopic::Retry(pair) => pair.group,
            SidecarTopic::Dlq(group) => group,
        })
    }

    pub fn is_dead_letters(&self, name: &TopicName) -> bool {
        matches!(self.templates.owned(name.as_str()), Some(SidecarTopic::Dlq(_)))
    }

    pub fn is_ours(&self, name: &TopicName) -> bool {
        self.templates.owned(name.as_str()).is_some()
    }

    /// The kind and owner of a reserved name.
    fn owner(&self, name: &TopicName) -> Option<SidecarTopic> {
        Some(match self.templates.owned(name.as_str())? {
            SidecarTopic::Retry(read) => {
                SidecarTopic::Retry(self.read().pairs.get(name).cloned().unwrap_or(read))
            }
            SidecarTopic::Dlq(read) => {
                SidecarTopic::Dlq(self.read().groups.get(name).cloned().unwrap_or(read))
            }
        })
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

    /// Stores the group of a mangled name; any other name contains its group.
    fn remember(&self, name: &TopicName, group: &GroupId) {
        let is_read = self.templates.owned(name.as_str()) == Some(SidecarTopic::Dlq(group.clone()));
        if is_read || self.read().groups.contains_key(name) {
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
    use crate::wire::batch::Headers;
    use crate::wire::mark::read_nack;

    #[test]
    fn a_group_with_an_illegal_name_has_a_reversible_topic() {
        let names = Names::new(Templates::default(), "c");
        let group = GroupId::new("my shop/1");
        let topic = names.retry_topic(&RetryPair::of_group(&group));
        assert_ne!(topic.as_str(), "reprise.retry.my shop/1");
        assert_eq!(names.group_of(&topic), Some(group.clone()));
        assert_eq!(names.group_of(&names.dead_letter_topic(&group)), Some(group));
    }

    #[test]
    fn only_groups_with_retries_are_listed_but_any_id_resolves() {
        let names = Names::new(Templates::default(), "c");
        names.retry_topic(&RetryPair::of_group(&"quiet".into()));
        names.register(&RetryPair::of_group(&"shop".into()));
        let listed: Vec<_> = names.listed().iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["reprise.dlq.shop", "reprise.retry.shop"]);
        let id = names.topic_id(&"reprise.retry.other".into());
        assert_eq!(names.name_of(id), Some("reprise.retry.other".into()));
    }

    #[test]
    fn the_first_pair_to_use_a_name_owns_it() {
        let names = Names::new(Templates::default(), "c");
        let pair = |group: &str, topic: &str| names.pair(&group.into(), Some(&topic.into()));
        let (ours, theirs) = (pair("a--b", "c"), pair("a", "b--c"));
        let name = names.retry_topic(&ours);
        assert_eq!(name, names.retry_topic(&theirs));
        assert!(names.is_owner(&ours) && !names.is_owner(&theirs));
        assert_eq!(names.retry_pair(&name), Some(ours));
        assert_eq!(names.retry_pair(&"reprise.retry.d--e--f".into()), Some(pair("d", "e--f")));
    }

    #[test]
    fn a_refused_client_claims_no_name() {
        let names = Names::new(Templates::default(), "c");
        let pair = |group: &str, topic: &str| names.pair(&group.into(), Some(&topic.into()));
        let (ours, theirs) = (pair("a--b", "c"), pair("a", "b--c"));
        let name = names.retry_topic(&theirs);
        names.disown(&ours);
        assert!(names.is_owner(&theirs), "another pair's");
        names.disown(&theirs);
        assert!(names.lacks_owner(&name) && names.is_owner(&ours));
        names.register(&ours);
        names.disown(&ours);
        assert!(names.is_owner(&ours), "it has retries");
    }

    #[test]
    fn a_nack_tells_the_owner_of_its_retry_topic() {
        let owner = |name: &TopicName, nack: &NackHeaders| {
            let names = Names::new(Templates::default(), "c");
            assert!(names.lacks_owner(name));
            names.learn_nack(name, nack);
            (!names.lacks_owner(name)).then(|| names.retry_pair(name).unwrap())
        };
        let names = Names::new(Templates::default(), "c");
        let pair = |group: &str, topic: &str| names.pair(&group.into(), Some(&topic.into()));
        let of = |origin: &str, group: Option<&str>| {
            let mut headers = vec![("x-retry-origin", origin.to_owned())];
            headers.extend(group.map(|group| ("x-retry-group", group.to_owned())));
            read_nack(&Headers::NONE.with(&headers)).unwrap().0
        };
        let name: TopicName = "reprise.retry.a--b--c".into();
        assert_eq!(owner(&name, &of("c-0@1", None)), Some(pair("a--b", "c")));
        assert_eq!(owner(&name, &of("b--c-0@1", None)), Some(pair("a", "b--c")));
        assert_eq!(owner(&name, &of("other-0@1", None)), None);
        let hashed = names.retry_topic(&pair("my shop", "orders"));
        assert_eq!(owner(&hashed, &of("orders-0@1", None)), None);
        assert_eq!(owner(&hashed, &of("orders-0@1", Some("shop"))), None, "of another name");
        let told = owner(&hashed, &of("orders-0@1", Some("my shop")));
        assert_eq!(told, Some(pair("my shop", "orders")));
    }

    #[test]
    fn a_subscription_tells_the_owners_of_its_retry_topics() {
        let names = Names::new(Templates::default(), "c");
        let (group, orders) = (GroupId::new("my shop"), TopicName::new("orders"));
        let pair = names.pair(&group, Some(&orders));
        let topic = Names::new(names.templates.clone(), "c").retry_topic(&pair);
        assert_ne!(names.retry_pair(&topic), Some(pair.clone()));
        let subscription = [orders, topic.clone()];
        names.learn(&group, &subscription);
        assert_eq!(names.retry_pair(&topic), Some(pair.clone()));
        let known: Vec<_> = names.retry_topics(&group, &subscription).collect();
        assert_eq!(known, [(&topic, pair)]);
        // Every topic of a subscription may have the same retry topic.
        let shared = Templates::new("reprise.retry.{group}", "reprise.dlq.{group}");
        let names = Names::new(shared.unwrap(), "c");
        let retry: TopicName = "reprise.retry.shop".into();
        names.learn(&"shop".into(), &["orders".into(), retry.clone()]);
        assert_eq!(names.retry_pair(&retry), Some(RetryPair::of_group(&"shop".into())));
    }
}
