//! Members of one group that read its retry topic, and beside it unlike topics. A retry goes to any
//! of them, also to one that does not read the topic of its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::model::{GroupId, MemberId, TopicName};
use crate::route::Router;

/// Groups whose subscriptions are remembered. A further one replaces another, whose warning may
/// come again.
const GROUPS_MAX: usize = 1_000;

/// The topics of one member beside those of the sidecar.
type TopicSet = BTreeSet<TopicName>;

/// The topics of members that read the retry topic, by group.
#[derive(Debug, Default)]
pub struct ReaderTopics(Mutex<BTreeMap<GroupId, BTreeSet<TopicSet>>>);

impl ReaderTopics {
    /// Whether `topics` are the only ones remembered of a group.
    fn are_alone(&self, group: &GroupId, topics: &TopicSet) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(group).is_some_and(|known| known.len() == 1 && known.contains(topics))
    }

    /// Remembers the topics of a group's readers; whether they are unlike and have changed.
    fn differ_anew(&self, group: &GroupId, readers: &BTreeSet<TopicSet>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= GROUPS_MAX && !known.contains_key(group) {
            known.pop_first();
        }
        let before = known.insert(group.clone(), readers.clone());
        readers.len() > 1 && before.as_ref() != Some(readers)
    }
}

impl Router {
    /// Warns once, until it changes, when a member that has subscribed reads the retry topic and
    /// another member reads it beside other topics.
    pub(super) fn compare_readers(&self, group: &GroupId, member: &MemberId) {
        let Some(topics) = self.subscription_of(group, member) else { return };
        // The usual case costs nothing per member of the group.
        let is_usual = |topics| self.reader_topics.are_alone(group, &topics);
        if self.names.beside_retries(group, &topics).is_none_or(is_usual) {
            return;
        }
        let readers = self.reader_topics_of(group);
        if self.reader_topics.differ_anew(group, &readers) {
            self.metrics.unlike_readers(group.as_str());
            tracing::warn!(
                %group, topics = list_readers(&readers),
                "R0606 members of one group read its retry topic and unlike other topics: a retry \
                 reaches any of them; give each listener a group id of its own, or each the \
                 handlers of all topics"
            );
        }
    }

    /// The topics of each member of a group that reads its retry topic.
    pub fn reader_topics_of(&self, group: &GroupId) -> BTreeSet<TopicSet> {
        let all = self.subscriptions(group).into_iter();
        all.filter_map(|topics| self.names.beside_retries(group, &topics)).collect()
    }
}

/// Such as `orders | payments refunds`.
pub fn list_readers(readers: &BTreeSet<TopicSet>) -> String {
    let of = |topics: &TopicSet| topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(" ");
    readers.iter().map(of).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(topics: &[&str]) -> TopicSet {
        topics.iter().map(|topic| TopicName::new(topic)).collect()
    }

    #[test]
    fn unlike_topics_are_told_once_until_they_change() {
        let (known, shop) = (ReaderTopics::default(), GroupId::new("shop"));
        let (orders, payments) = (set(&["orders"]), set(&["payments"]));
        assert!(!known.differ_anew(&shop, &[orders.clone()].into()), "one listener");
        assert!(known.are_alone(&shop, &orders) && !known.are_alone(&shop, &payments));
        let both = BTreeSet::from([orders.clone(), payments]);
        assert!(known.differ_anew(&shop, &both));
        assert_eq!(list_readers(&both), "orders | payments");
        assert!(!known.are_alone(&shop, &orders), "each join is compared from now on");
        assert!(!known.differ_anew(&shop, &both), "told before");
        assert!(!known.differ_anew(&shop, &[orders].into()), "the other one has left");
        assert!(known.differ_anew(&shop, &both));
    }
}
