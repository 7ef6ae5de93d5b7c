//! Commit nacks seen before: the last commit marker of each partition, and the refusals already
//! logged.
//!
//! An application may commit the same offset with the same metadata repeatedly. While the ledger
//! remembers the record, the nack rules charge no repeat; after that this memory prevents a charge.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sha2::{Digest, Sha256};

use crate::model::{GroupId, MonoMs, TopicName};

/// Bound of partitions; a marker of an evicted partition is judged as new.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();
/// Bound of logged refusals, by group or transactional id and reason.
const WARNED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

type MarkerKey = (GroupId, TopicName, i32);

/// The markers of all groups.
#[derive(Debug)]
pub struct Markers {
    taken: Mutex<LruCache<MarkerKey, LastMarker>>,
    warned: Mutex<LruCache<(String, &'static str, &'static str), ()>>,
}

/// The last marker of a partition.
#[derive(Debug)]
struct LastMarker {
    commit: MarkedCommit,
    /// The time of its last repeat.
    at: MonoMs,
}

/// The identity of a commit with a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::route) struct MarkedCommit {
    offset: i64,
    digest: [u8; 32],
}

impl MarkedCommit {
    pub(in crate::route) fn new(offset: i64, metadata: &str) -> Self {
        Self { offset, digest: Sha256::digest(metadata.as_bytes()).into() }
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self {
            taken: Mutex::new(LruCache::new(REMEMBERED)),
            warned: Mutex::new(LruCache::new(WARNED)),
        }
    }
}

impl Markers {
    /// Whether the marker equals the last one, and the committed offset is still that of its
    /// commit. A marker older than `timeout_ms` is new: the application may have seeked back
    /// without a commit.
    pub(super) fn is_repeated(
        &self,
        (group, topic, partition): (&GroupId, &TopicName, i32),
        commit: &MarkedCommit,
        committed: Option<i64>,
        (now, timeout_ms): (MonoMs, u64),
    ) -> bool {
        let mut taken = lock(&self.taken);
        let Some(known) = taken.get_mut(&(group.clone(), topic.clone(), partition)) else {
            return false;
        };
        let is_there = committed == Some(commit.offset);
        let is_same = known.commit == *commit && is_there;
        if !is_same || now.since(known.at) > timeout_ms {
            return false;
        }
        known.at = now;
        true
    }

    /// Records the marker after its nacks are durable.
    pub(in crate::route) fn taken(
        &self,
        (group, topic, partition): (&GroupId, &TopicName, i32),
        commit: MarkedCommit,
        now: MonoMs,
    ) {
        let key = (group.clone(), topic.clone(), partition);
        lock(&self.taken).put(key, LastMarker { commit, at: now });
    }

    /// Whether this refusal of a group or transactional id is the first, so that it is logged once.
    pub(in crate::route) fn warns(&self, who: &str, what: &'static str, why: &'static str) -> bool {
        lock(&self.warned).put((who.to_owned(), what, why), ()).is_none()
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_commit_is_known_until_progress_or_long_silence() {
        let (markers, group, topic) =
            (Markers::default(), GroupId::from("shop"), TopicName::from("orders"));
        let of = |partition| (&group, &topic, partition);
        let commit = || MarkedCommit::new(10, "!retry:5");
        let is = |commit: &MarkedCommit, committed, at| {
            markers.is_repeated(of(0), commit, committed, (MonoMs(at), 1_000))
        };
        assert!(!is(&commit(), Some(10), 0), "nobody has sent it");
        markers.taken(of(0), commit(), MonoMs(0));
        assert!(is(&commit(), Some(10), 900));
        assert!(is(&commit(), Some(10), 1_800), "each time counts");
        assert!(!is(&MarkedCommit::new(10, "!retry:6"), Some(10), 1_800), "another record");
        assert!(!is(&MarkedCommit::new(11, "!retry:5"), Some(10), 1_800), "another offset");
        assert!(!is(&commit(), Some(4), 1_800), "the group has gone back");
        assert!(!is(&commit(), None, 1_800), "nobody knows");
        assert!(!is(&commit(), Some(10), 2_801), "silent for too long");
        assert!(!markers.is_repeated(of(1), &commit(), Some(10), (MonoMs(0), 1_000)));
    }

    #[test]
    fn a_group_is_warned_of_a_reason_once() {
        let markers = Markers::default();
        let warns = |group: &str, reason| markers.warns(group, "a commit", reason);
        assert!(
            warns("shop", "malformed") && warns("shop", "too_large") && warns("b", "too_large")
        );
        assert!(!warns("shop", "malformed") && !warns("b", "too_large"));
        assert!(markers.warns("shop", "a nack", "malformed"), "and of another thing");
    }
}
