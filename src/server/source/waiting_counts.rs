//! Fingerprints of a group's waiting retries: a bounded walk of the engine's rows, a few at a time.
//! A request waits for a walk no longer than a page may take; the walk goes on without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::admin::{COUNTED_MAX, RetryFingerprintList, Unavailable};
use crate::engine::EngineError;
use crate::model::{GroupId, MonoMs};
use crate::retry::RetryState;
use crate::server::source::AdminSource;
use crate::server::source::waiting_shapes::WaitingShapes;

/// Entries that the engine reads for one command, so that other work can run in between.
const PIECE: usize = 256;
/// Age limit of a count, as a multiple of the time it took. So the engine spends at most a
/// twentieth of its time on counts.
const SERVES_FOR: u64 = 20;
/// Groups whose counts are kept.
const KEPT_MAX: usize = 64;

/// Time that a request waits for a count.
const PATIENCE: Duration = Duration::from_millis(50);

/// The latest counts.
#[derive(Debug, Default)]
pub(in crate::server) struct WaitingCounts {
    latest: Mutex<LatestCounts>,
    /// Locked by a count while it runs, so that one runs at a time.
    turn: AsyncMutex<()>,
}

#[derive(Debug, Default)]
struct LatestCounts {
    kept: BTreeMap<GroupId, KeptCount>,
    /// Groups whose counts have begun.
    begun: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct KeptCount {
    count: Arc<RetryFingerprintList>,
    until: MonoMs,
}

/// The one count of a group that runs.
struct RunningCount {
    counts: Arc<WaitingCounts>,
    group: GroupId,
}

impl RunningCount {
    /// `None` where a count of the group has begun.
    fn begin(counts: &Arc<WaitingCounts>, group: &GroupId) -> Option<Self> {
        let is_first = counts.locked().begun.insert(group.clone());
        is_first.then(|| Self { counts: Arc::clone(counts), group: group.clone() })
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        self.counts.locked().begun.remove(&self.group);
    }
}

impl WaitingCounts {
    /// A count that is still young enough.
    fn fresh(&self, group: &GroupId, now: MonoMs) -> Option<Arc<RetryFingerprintList>> {
        let latest = self.locked();
        let known = latest.kept.get(group).filter(|known| now < known.until);
        known.map(|known| Arc::clone(&known.count))
    }

    /// The latest count, whatever its age.
    fn latest(&self, group: &GroupId) -> Arc<RetryFingerprintList> {
        let latest = self.locked();
        let known = latest.kept.get(group).map(|known| Arc::clone(&known.count));
        let counting =
            RetryFingerprintList { is_counting: true, ..RetryFingerprintList::default() };
        known.unwrap_or_else(|| Arc::new(counting))
    }

    fn put(&self, group: &GroupId, count: KeptCount) {
        let mut latest = self.locked();
        if latest.kept.len() >= KEPT_MAX {
            latest.kept.clear();
        }
        latest.kept.insert(group.clone(), count);
    }

    fn locked(&self) -> MutexGuard<'_, LatestCounts> {
        // Each change of the counts is one call of a map, so a panic leaves them whole.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminSource {
    /// The fingerprints of a group. A count that takes longer than a page may wait goes on alone:
    /// meanwhile the count before it is served, or none with `is_counting`.
    pub(super) async fn counted(
        &self,
        group: &GroupId,
    ) -> Result<Arc<RetryFingerprintList>, Unavailable> {
        let counts = &self.waiting_counts;
        if let Some(known) = counts.fresh(group, self.router.clock.now().mono) {
            return Ok(known);
        }
        if let Some(running) = RunningCount::begin(counts, group) {
            let (source, of) = (self.clone(), group.clone());
            #[expect(
                clippy::disallowed_methods,
                reason = "a count goes on after its caller was answered"
            )]
            let counting = tokio::spawn(async move {
                let count = source.count(&of).await;
                drop(running);
                count
            });
            if let Ok(count) = timeout(PATIENCE, counting).await {
                let count = count.map_err(|error| Unavailable(error.to_string()))?;
                return count.map_err(Unavailable::from);
            }
        } else {
            drop(timeout(PATIENCE, counts.turn.lock()).await);
        }
        Ok(counts.latest(group))
    }

    async fn count(&self, group: &GroupId) -> Result<Arc<RetryFingerprintList>, EngineError> {
        let _turn = self.waiting_counts.turn.lock().await;
        let began = self.router.clock.now();
        let mut shapes = WaitingShapes::at(began.wall);
        let (mut after, mut counted) = (None, 0);
        let is_cut = loop {
            let piece = self.router.engine.due_page(group, after, PIECE).await?;
            for entry in &piece {
                shapes.add(entry);
            }
            counted += piece.len();
            if piece.len() < PIECE {
                break false;
            }
            if counted >= COUNTED_MAX {
                break true;
            }
            after = piece.last().and_then(|entry| match entry.state {
                RetryState::Waiting { due, .. } => Some((due, entry.id)),
                _ => None,
            });
        };
        let now = self.router.clock.now().mono;
        // A product that saturates is 500 million years: such a count is kept for ever.
        let until = now.plus(now.since(began.mono).saturating_mul(SERVES_FOR));
        let (items, rest) = shapes.most();
        let count = Arc::new(RetryFingerprintList { items, rest, is_cut, is_counting: false });
        self.waiting_counts.put(group, KeptCount { count: Arc::clone(&count), until });
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_counts_are_served_while_a_count_runs() {
        let (counts, shop) = (Arc::new(WaitingCounts::default()), GroupId::new("shop"));
        assert!(counts.latest(&shop).is_counting, "no count is known");
        let running = RunningCount::begin(&counts, &shop).unwrap();
        assert!(RunningCount::begin(&counts, &shop).is_none(), "one at a time");
        let count = Arc::new(RetryFingerprintList { rest: 7, ..RetryFingerprintList::default() });
        counts.put(&shop, KeptCount { count, until: MonoMs(100) });
        drop(running);
        let fresh = |at| counts.fresh(&shop, MonoMs(at)).map(|count| count.rest);
        assert_eq!((fresh(99), fresh(100)), (Some(7), None));
        let _running = RunningCount::begin(&counts, &shop).unwrap();
        assert_eq!(counts.latest(&shop).rest, 7, "the next count runs");
    }
}
