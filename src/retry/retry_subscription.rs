//! The retry topics that a member reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::TopicName;

/// The retry topics to which a member subscribes. A record that fails there need not hold its
/// partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrySubscription(Arc<BTreeMap<TopicName, Option<TopicName>>>);

impl RetrySubscription {
    /// Each retry topic with the topic whose retries it has; `None`: it is that of the whole group.
    pub fn new(topics: impl IntoIterator<Item = (TopicName, Option<TopicName>)>) -> Self {
        Self(Arc::new(topics.into_iter().collect()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the topic is one of the retry topics.
    pub(in crate::retry) fn has(&self, topic: &TopicName) -> bool {
        self.0.contains_key(topic)
    }

    /// Whether the member reads the retries of a topic.
    pub(in crate::retry) fn takes(&self, topic: &TopicName) -> bool {
        let is_source = |source: &Option<TopicName>| source.as_ref().is_none_or(|of| of == topic);
        self.has(topic) || self.0.values().any(is_source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_reads_the_retries_of_the_topics_it_names() {
        let orders = RetrySubscription::new([("r.orders".into(), Some("orders".into()))]);
        let takes = |of: &RetrySubscription, topic: &str| of.takes(&topic.into());
        assert!(takes(&orders, "orders") && takes(&orders, "r.orders"));
        assert!(!takes(&orders, "payments") && !orders.has(&"orders".into()));
        let all = RetrySubscription::new([("r".into(), None)]);
        assert!(takes(&all, "orders") && takes(&all, "payments") && all.has(&"r".into()));
        assert!(!takes(&RetrySubscription::default(), "orders"));
    }
}
