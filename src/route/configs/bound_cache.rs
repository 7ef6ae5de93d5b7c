//! The `max.message.bytes` of the cluster's topics, as brokers reported it lately.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::model::{MonoMs, TopicName};

/// Bound of the topic cache; an evicted topic is asked for again.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Lifetime of a reported bound.
const KNOWN_MS: u64 = 300_000;

/// Lifetime of a missing report, before the topic is asked for again.
const UNTOLD_MS: u64 = 60_000;

/// The `max.message.bytes` of each cluster topic, as its brokers report it.
#[derive(Debug)]
pub struct TopicBounds(Mutex<LruCache<TopicName, BoundAnswer>>);

#[derive(Clone, Copy, Debug)]
struct BoundAnswer {
    /// `None`: the cluster did not report the setting.
    bytes: Option<usize>,
    at: MonoMs,
}

impl Default for TopicBounds {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl TopicBounds {
    /// The report in the cache; outer `None`: the cluster has to be asked.
    #[expect(clippy::option_option, reason = "not asked, not told and a bound are three answers")]
    pub(super) fn known(&self, topic: &TopicName, now: MonoMs) -> Option<Option<usize>> {
        let told = self.lock().get(topic).copied()?;
        let lasts_ms = if told.bytes.is_some() { KNOWN_MS } else { UNTOLD_MS };
        (now.since(told.at) < lasts_ms).then_some(told.bytes)
    }

    pub(super) fn put(&self, topic: TopicName, bytes: Option<usize>, at: MonoMs) {
        self.lock().put(topic, BoundAnswer { bytes, at });
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<TopicName, BoundAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bounds_are_cached_longer_than_unknown_ones() {
        let (bounds, orders) = (TopicBounds::default(), TopicName::new("orders"));
        assert_eq!(bounds.known(&orders, MonoMs(0)), None);
        bounds.put(orders.clone(), Some(9), MonoMs(0));
        let known = [1, KNOWN_MS - 1, KNOWN_MS].map(|at| bounds.known(&orders, MonoMs(at)));
        assert_eq!(known, [Some(Some(9)), Some(Some(9)), None]);
        bounds.put(orders.clone(), None, MonoMs(0));
        let known = [UNTOLD_MS - 1, UNTOLD_MS].map(|at| bounds.known(&orders, MonoMs(at)));
        assert_eq!(known, [Some(None), None]);
    }
}
