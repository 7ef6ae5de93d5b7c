//! Ids of upstream topics. A topic that was deleted and recreated has another id.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use uuid::Uuid;

use crate::engine::detectors::window_entries::Windows;
use crate::model::{MonoMs, TopicName};

/// Most topics of one query.
const ASKED_MAX: usize = 1_000;
/// Most topics remembered; a forgotten topic counts as unchanged.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// The last known id of each topic.
#[derive(Clone, Debug)]
pub struct TopicIds(Arc<Mutex<TopicTable>>);

#[derive(Debug)]
struct TopicTable {
    topics: LruCache<TopicName, TopicIdHistory>,
    names: LruCache<Uuid, TopicName>,
    /// Time of the last query per topic, whatever its answer.
    asked: LruCache<TopicName, MonoMs>,
}

#[derive(Clone, Copy, Debug)]
struct TopicIdHistory {
    id: Uuid,
    /// The former id: a broker with old metadata may still report it.
    before: Option<Uuid>,
}

impl Default for TopicIds {
    fn default() -> Self {
        let (topics, names) = (LruCache::new(REMEMBERED), LruCache::new(REMEMBERED));
        let asked = LruCache::new(REMEMBERED);
        Self(Arc::new(Mutex::new(TopicTable { topics, names, asked })))
    }
}

impl TopicIds {
    /// Restores the ids of journalled windows, so that a recreated topic is recognised. A Fetch by
    /// id then finds its topic at once.
    pub(super) fn remembered(windows: &Windows) -> Self {
        let ids = Self::default();
        for ((_, of), kept) in windows.iter().filter(|(_, kept)| !kept.topic_id.is_nil()) {
            ids.is_another(&of.topic, kept.topic_id);
        }
        ids
    }

    /// The last known id of a topic; nil if unknown.
    pub fn id_of(&self, topic: &TopicName) -> Uuid {
        let mut told = self.lock();
        told.topics.get(topic).map(|known| known.id).unwrap_or_default()
    }

    /// Stores an id; returns whether the topic had another one.
    pub fn is_another(&self, topic: &TopicName, id: Uuid) -> bool {
        let mut told = self.lock();
        let before = told.topics.get(topic).copied();
        if before.is_some_and(|known| known.id == id || known.before == Some(id)) {
            return false;
        }
        told.topics.put(topic.clone(), TopicIdHistory { id, before: before.map(|known| known.id) });
        told.names.put(id, topic.clone());
        if let Some(before) = before {
            // A Fetch by the former id no longer has a topic.
            told.names.pop(&before.id);
        }
        before.is_some()
    }

    /// The topics of these ids, as last reported by the cluster.
    pub fn names(&self, ids: impl Iterator<Item = Uuid>) -> Vec<Option<TopicName>> {
        let mut told = self.lock();
        ids.map(|id| told.names.get(&id).cloned()).collect()
    }

    /// Forgets a topic that is gone: the next one by its name is no news.
    pub fn forget(&self, topic: &TopicName) {
        let mut told = self.lock();
        if let Some(known) = told.topics.pop(topic) {
            told.names.pop(&known.id);
        }
    }

    /// Records that the cluster was just queried for this topic.
    pub fn is_asked(&self, topic: &TopicName, now: MonoMs) {
        self.lock().asked.put(topic.clone(), now);
    }

    /// The topics that were not queried lately; they count as queried now.
    pub fn due(&self, mut topics: Vec<TopicName>, now: MonoMs, every_ms: u64) -> Vec<TopicName> {
        let mut told = self.lock();
        let is_due = |at: &MonoMs| now.since(*at) >= every_ms;
        topics.retain(|topic| told.asked.get(topic).is_none_or(is_due));
        topics.truncate(ASKED_MAX);
        for topic in &topics {
            told.asked.put(topic.clone(), now);
        }
        topics
    }

    fn lock(&self) -> MutexGuard<'_, TopicTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::detectors::window_entries::KeptWindow;
    use crate::model::TopicPartition;

    #[test]
    fn a_topic_is_another_one_when_its_id_is() {
        let (ids, topic) = (TopicIds::default(), TopicName::new("orders"));
        let told = [1, 1, 2, 2, 3].map(|id| ids.is_another(&topic, Uuid::from_u128(id)));
        assert_eq!(told, [false, false, true, false, true]);
    }

    #[test]
    fn only_the_last_id_of_a_topic_is_known() {
        let (ids, topic) = (TopicIds::default(), TopicName::new("orders"));
        let [first, second] = [1, 2].map(Uuid::from_u128);
        let names = || ids.names([second, first].into_iter());
        ids.is_another(&topic, first);
        assert_eq!(names(), [None, Some(topic.clone())]);
        ids.is_another(&topic, second);
        assert_eq!(names(), [Some(topic.clone()), None]);
        ids.is_another(&topic, first);
        assert_eq!(names(), [Some(topic.clone()), None], "a broker is behind");
    }

    #[test]
    fn a_topic_with_a_stored_window_is_known_at_start() {
        let kept = |id| KeptWindow { topic_id: Uuid::from_u128(id), ..KeptWindow::default() };
        let of = |topic: &str| TopicPartition { topic: topic.into(), partition: 0 };
        let windows = [(of("orders"), kept(1)), (of("others"), kept(0))];
        let windows = windows.map(|(of, kept)| (("shop".into(), of), kept));
        let ids = TopicIds::remembered(&Windows::from(windows));
        assert_eq!(
            ids.names([1, 0].map(Uuid::from_u128).into_iter()),
            [Some("orders".into()), None]
        );
        assert_eq!(ids.id_of(&"orders".into()), Uuid::from_u128(1));
        let is_another = |topic: &str, id| ids.is_another(&topic.into(), Uuid::from_u128(id));
        assert_eq!([is_another("orders", 2), is_another("others", 2)], [true, false]);
    }

    #[test]
    fn topic_id_requests_are_paced_per_topic() {
        let (ids, topics) = (TopicIds::default(), ["orders", "others"].map(TopicName::new));
        let due = |at| ids.due(topics.to_vec(), MonoMs(at), 1_000);
        assert_eq!(due(5), topics);
        assert_eq!(due(1_004), []);
        ids.is_asked(&topics[0], MonoMs(900));
        assert_eq!(due(1_005), topics[1..]);
        assert_eq!(due(1_900), topics[..1]);
        let many: Vec<_> = (0..2_000).map(|n: i32| TopicName::from(n.to_string())).collect();
        for half in [&many[..1_000], &many[1_000..], &[]] {
            assert_eq!(ids.due(many.clone(), MonoMs(7_000), 1_000), half, "the rest comes next");
        }
    }

    #[test]
    fn a_lagging_broker_does_not_recreate_a_topic() {
        let (ids, topic) = (TopicIds::default(), TopicName::new("orders"));
        let told = [1, 2, 1, 2].map(|id| ids.is_another(&topic, Uuid::from_u128(id)));
        assert_eq!(told, [false, true, false, false]);
    }
}
