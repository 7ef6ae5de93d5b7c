//! Committed offsets of groups whose coordinator is a real broker, as last seen on their way.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::engine::EngineError;
use crate::model::{GroupId, TopicName};
use crate::route::Router;

/// Partitions remembered at most; one that is forgotten counts as not known.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

type Key = (GroupId, TopicName, i32);

/// The last committed offset seen, by group and partition.
#[derive(Debug)]
pub struct Positions(Mutex<LruCache<Key, i64>>);

impl Default for Positions {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Positions {
    /// The group's committed offset, if it passed by lately.
    pub(super) fn committed(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
    ) -> Option<i64> {
        self.lock().get(&(group.clone(), topic.clone(), partition)).copied()
    }

    /// Whether an offset is another one than before. It is remembered by [`Positions::see`], once
    /// the engine knows.
    pub(super) fn is_news(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> bool {
        self.committed(group, topic, partition) != Some(offset)
    }

    /// Nothing of that topic is what it was.
    pub(super) fn forget(&self, topic: &TopicName) {
        let mut known = self.lock();
        let gone: Vec<Key> =
            known.iter().map(|(key, _)| key).filter(|key| key.1 == *topic).cloned().collect();
        for key in gone {
            known.pop(&key);
        }
    }

    /// Remembers offsets.
    fn see(&self, group: &GroupId, offsets: Vec<(TopicName, i32, i64)>) {
        let mut known = self.lock();
        for (topic, partition, offset) in offsets {
            known.put((group.clone(), topic, partition), offset);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Key, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Router {
    /// The engine hears of committed offsets, then they are remembered.
    pub(super) async fn note(
        &self,
        group: &GroupId,
        news: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        if news.is_empty() {
            return Ok(());
        }
        self.engine.origin_commits(group, news.clone()).await?;
        self.positions.see(group, news);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_offset_seen_is_the_one_that_counts() {
        let (positions, group, topic) =
            (Positions::default(), GroupId::from("shop"), TopicName::from("orders"));
        assert_eq!(positions.committed(&group, &topic, 0), None);
        assert!(positions.is_news(&group, &topic, 0, 7));
        assert!(positions.is_news(&group, &topic, 0, 7), "until it is seen");
        positions.see(&group, vec![(topic.clone(), 0, 7)]);
        assert!(!positions.is_news(&group, &topic, 0, 7), "nothing new");
        assert!(positions.is_news(&group, &topic, 0, 3), "a reset is news");
        positions.see(&group, vec![(topic.clone(), 0, 3)]);
        assert_eq!(positions.committed(&group, &topic, 0), Some(3));
        assert_eq!(positions.committed(&group, &topic, 1), None);
    }
}
