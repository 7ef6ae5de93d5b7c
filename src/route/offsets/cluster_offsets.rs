//! Cluster offset cache: committed offsets of the cluster's groups, from relayed requests.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::model::{GroupId, TopicName};

/// Bound of partitions; an evicted partition counts as unknown.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// Bounds of groups whose topics are listed, and of these topics.
const GROUPS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
const TOPICS_MAX: usize = 64;

type OffsetKey = (GroupId, TopicName, i32);

/// The last committed offset seen, by group and partition.
#[derive(Debug)]
pub struct ClusterOffsetCache(Mutex<CachedOffsets>);

#[derive(Debug)]
struct CachedOffsets {
    /// Offset, and the value of `count` when it was seen.
    offsets: LruCache<OffsetKey, (i64, u64)>,
    topics: LruCache<GroupId, BTreeSet<TopicName>>,
    count: u64,
}

impl Default for ClusterOffsetCache {
    fn default() -> Self {
        Self(Mutex::new(CachedOffsets {
            offsets: LruCache::new(REMEMBERED),
            topics: LruCache::new(GROUPS),
            count: 0,
        }))
    }
}

impl ClusterOffsetCache {
    /// The group's committed offset, if it is cached.
    pub(in crate::route) fn committed(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
    ) -> Option<i64> {
        let mut known = self.lock();
        let known = known.offsets.get(&(group.clone(), topic.clone(), partition));
        known.map(|(offset, _)| *offset)
    }

    /// All cached offsets of a group, for people: it looks at the whole cache.
    pub fn of_group(&self, group: &GroupId) -> Vec<(TopicName, i32, i64)> {
        let known = self.lock();
        let own = known.offsets.iter().filter(|((of, ..), _)| of == group);
        let mut own: Vec<_> =
            own.map(|((_, topic, partition), (at, _))| (topic.clone(), *partition, *at)).collect();
        own.sort_unstable();
        own
    }

    /// The first topics of a group with a cached offset.
    pub fn topics(&self, group: &GroupId) -> BTreeSet<TopicName> {
        self.lock().topics.get(group).cloned().unwrap_or_default()
    }

    /// The current count, for [`ClusterOffsetCache::is_overtaken`]: read before the cluster is
    /// asked.
    pub(in crate::route) fn as_of(&self) -> u64 {
        self.lock().count
    }

    /// Whether the answer to a request since `as_of` is older than an offset seen meanwhile.
    /// Brokers may answer several connections in another order than requested.
    pub(super) fn is_overtaken(
        &self,
        as_of: u64,
        group: &GroupId,
        (topic, partition): (&TopicName, i32),
        offset: i64,
    ) -> bool {
        let mut known = self.lock();
        let known = known.offsets.get(&(group.clone(), topic.clone(), partition));
        known.is_some_and(|(later, seen_at)| *seen_at > as_of && offset < *later)
    }

    /// Whether the offset differs from the cached one. [`ClusterOffsetCache::see`] caches it after
    /// the engine has recorded it.
    pub(in crate::route) fn differs(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> bool {
        self.committed(group, topic, partition) != Some(offset)
    }

    /// Forgets the offsets of a topic that was deleted or recreated.
    pub(in crate::route) fn forget(&self, topic: &TopicName) {
        let mut known = self.lock();
        let all = known.offsets.iter().map(|(key, _)| key);
        let gone: Vec<OffsetKey> = all.filter(|key| key.1 == *topic).cloned().collect();
        for key in gone {
            known.offsets.pop(&key);
        }
        known.topics.iter_mut().for_each(|(_, topics)| {
            topics.remove(topic);
        });
    }

    pub(in crate::route) fn see(&self, group: &GroupId, offsets: Vec<(TopicName, i32, i64)>) {
        let mut known = self.lock();
        known.count = known.count.saturating_add(1);
        let seen_at = known.count;
        for (topic, partition, offset) in offsets {
            let topics = known.topics.get_or_insert_mut(group.clone(), BTreeSet::new);
            if topics.len() < TOPICS_MAX && !topics.contains(&topic) {
                topics.insert(topic.clone());
            }
            known.offsets.put((group.clone(), topic, partition), (offset, seen_at));
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedOffsets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_offset_seen_is_the_one_that_counts() {
        let (positions, group, topic) =
            (ClusterOffsetCache::default(), GroupId::from("shop"), TopicName::from("orders"));
        assert_eq!(positions.committed(&group, &topic, 0), None);
        assert!(positions.differs(&group, &topic, 0, 7));
        assert!(positions.differs(&group, &topic, 0, 7), "until it is seen");
        positions.see(&group, vec![(topic.clone(), 0, 7)]);
        assert!(!positions.differs(&group, &topic, 0, 7), "nothing new");
        assert!(positions.differs(&group, &topic, 0, 3), "a reset is news");
        positions.see(&group, vec![(topic.clone(), 0, 3)]);
        assert_eq!(positions.committed(&group, &topic, 0), Some(3));
        assert_eq!(positions.committed(&group, &topic, 1), None);
        assert_eq!(positions.of_group(&group), [(topic.clone(), 0, 3)]);
        assert_eq!(positions.topics(&group), [topic.clone()].into());
        positions.forget(&topic);
        assert!(positions.of_group(&group).is_empty() && positions.topics(&group).is_empty());
    }

    #[test]
    fn a_commit_during_an_offset_fetch_is_no_reset() {
        let (positions, group, topic) =
            (ClusterOffsetCache::default(), GroupId::from("shop"), TopicName::from("orders"));
        positions.see(&group, vec![(topic.clone(), 0, 10)]);
        let asked = positions.as_of();
        let overtaken = |as_of, partition, offset| {
            positions.is_overtaken(as_of, &group, (&topic, partition), offset)
        };
        assert!(!overtaken(asked, 0, 5), "it was set back");
        positions.see(&group, vec![(topic.clone(), 0, 20)]);
        assert!(overtaken(asked, 0, 10) && overtaken(asked, 0, -1));
        assert!(!overtaken(asked, 0, 20) && !overtaken(asked, 0, 30) && !overtaken(asked, 1, 10));
        assert!(!overtaken(positions.as_of(), 0, 10), "asked for since: it was set back");
    }
}
