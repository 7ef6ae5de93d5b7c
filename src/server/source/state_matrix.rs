//! Counts of a group's entries for the page: a bounded walk of the engine's rows, a few at a time.
//! A request waits for a walk no longer than a page may take; the walk goes on without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::admin::{COUNTED_MAX, Matrix, RetryFingerprint, RetryFingerprintList, Unavailable};
use crate::engine::{EngineError, EntryClass};
use crate::model::{GroupId, MonoMs};
use crate::retry::{Disposition, Entry, RetryState, StateKind};
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
pub(in crate::server) struct Matrices {
    latest: Mutex<LatestCounts>,
    /// Locked by a count while it runs, so that one runs at a time.
    turn: AsyncMutex<()>,
}

#[derive(Debug, Default)]
struct LatestCounts {
    kept: BTreeMap<GroupId, KeptCounts>,
    /// Groups whose counts have begun.
    begun: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct KeptCounts {
    counts: Arc<GroupCounts>,
    until: MonoMs,
}

/// Counts of a group's entries.
#[derive(Debug, Default)]
pub(super) struct GroupCounts {
    pub(in crate::server) matrix: Matrix,
    /// Waiting retries by fingerprint, most retries first.
    kinds: Vec<RetryFingerprint>,
    /// Retries of further fingerprints.
    rest: u64,
}

impl GroupCounts {
    pub(super) fn fingerprints(&self, limit: usize) -> RetryFingerprintList {
        let beyond: u64 = self.kinds.iter().skip(limit).map(|kind| kind.retries).sum();
        RetryFingerprintList {
            items: self.kinds.iter().take(limit).cloned().collect(),
            rest: self.rest + beyond,
            is_cut: self.matrix.is_waiting_cut,
            is_counting: self.matrix.is_counting,
        }
    }
}

/// The one count of a group that runs.
struct RunningCount {
    matrices: Arc<Matrices>,
    group: GroupId,
}

impl RunningCount {
    /// `None` where a count of the group has begun.
    fn begin(matrices: &Arc<Matrices>, group: &GroupId) -> Option<Self> {
        let is_first = matrices.locked().begun.insert(group.clone());
        is_first.then(|| Self { matrices: Arc::clone(matrices), group: group.clone() })
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        self.matrices.locked().begun.remove(&self.group);
    }
}

impl Matrices {
    /// Counts that are still young enough.
    fn fresh(&self, group: &GroupId, now: MonoMs) -> Option<Arc<GroupCounts>> {
        let latest = self.locked();
        let known = latest.kept.get(group).filter(|known| now < known.until);
        known.map(|known| Arc::clone(&known.counts))
    }

    /// The latest counts, whatever their age.
    fn latest(&self, group: &GroupId) -> Arc<GroupCounts> {
        let latest = self.locked();
        let known = latest.kept.get(group).map(|known| Arc::clone(&known.counts));
        known.unwrap_or_else(|| {
            Arc::new(GroupCounts { matrix: Matrix::counting(), ..GroupCounts::default() })
        })
    }

    fn put(&self, group: &GroupId, counts: KeptCounts) {
        let mut latest = self.locked();
        if latest.kept.len() >= KEPT_MAX {
            latest.kept.clear();
        }
        latest.kept.insert(group.clone(), counts);
    }

    fn locked(&self) -> MutexGuard<'_, LatestCounts> {
        // Each change of the counts is one call of a map, so a panic leaves them whole.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminSource {
    /// The counts of a group. A count that takes longer than a page may wait goes on alone:
    /// meanwhile the counts before it are served, or none with `is_counting`.
    pub(super) async fn counted(&self, group: &GroupId) -> Result<Arc<GroupCounts>, Unavailable> {
        if let Some(known) = self.matrices.fresh(group, self.router.clock.now().mono) {
            return Ok(known);
        }
        if let Some(running) = RunningCount::begin(&self.matrices, group) {
            let (source, of) = (self.clone(), group.clone());
            #[expect(
                clippy::disallowed_methods,
                reason = "a count goes on after its caller was answered"
            )]
            let counting = tokio::spawn(async move {
                let counts = source.count(&of).await;
                drop(running);
                counts
            });
            if let Ok(counts) = timeout(PATIENCE, counting).await {
                let counts = counts.map_err(|error| Unavailable(error.to_string()))?;
                return counts.map_err(Unavailable::from);
            }
        } else {
            drop(timeout(PATIENCE, self.matrices.turn.lock()).await);
        }
        Ok(self.matrices.latest(group))
    }

    async fn count(&self, group: &GroupId) -> Result<Arc<GroupCounts>, EngineError> {
        let _turn = self.matrices.turn.lock().await;
        let began = self.router.clock.now();
        let mut matrix = Matrix::at(began.wall.0);
        let mut shapes = WaitingShapes::at(began.wall);
        let waiting = |entry: &Entry| {
            if let RetryState::Waiting { due, level, .. } = entry.state {
                matrix.add_waiting(level, due.0);
                shapes.add(entry);
            }
        };
        matrix.is_waiting_cut = self.count_in(group, StateKind::Waiting, waiting).await?;
        let dead = |entry: &Entry| {
            if let RetryState::Dead { at } = entry.state {
                let cause = entry.disposition.unwrap_or(Disposition::Manual);
                matrix.add_dead(cause.as_str(), at.0);
            }
        };
        matrix.is_dead_cut = self.count_in(group, StateKind::Dead, dead).await?;
        let now = self.router.clock.now().mono;
        // A product that saturates is 500 million years: such a count is kept for ever.
        let until = now.plus(now.since(began.mono).saturating_mul(SERVES_FOR));
        let (kinds, rest) = shapes.most();
        let counts = Arc::new(GroupCounts { matrix, kinds, rest });
        self.matrices.put(group, KeptCounts { counts: Arc::clone(&counts), until });
        Ok(counts)
    }

    /// Counts entries of one state, a piece at a time. Returns whether the count left some out.
    async fn count_in(
        &self,
        group: &GroupId,
        kind: StateKind,
        mut add: impl FnMut(&Entry),
    ) -> Result<bool, EngineError> {
        let (mut last, mut counted) = (None, 0);
        loop {
            let mut piece = self.entries_after(group, kind, last.as_ref()).await?;
            piece.iter().for_each(&mut add);
            counted += piece.len();
            if piece.len() < PIECE {
                return Ok(false);
            }
            if counted >= COUNTED_MAX {
                return Ok(true);
            }
            last = piece.pop();
        }
    }

    /// The next entries of one state, waiting or dead: by due time or by id.
    async fn entries_after(
        &self,
        group: &GroupId,
        kind: StateKind,
        last: Option<&Entry>,
    ) -> Result<Vec<Entry>, EngineError> {
        let engine = &self.router.engine;
        if kind == StateKind::Dead {
            let after = last.map(|entry| entry.id);
            return engine.page(group, EntryClass::Dead, after, PIECE).await;
        }
        let after = last.and_then(|entry| match entry.state {
            RetryState::Waiting { due, .. } => Some((due, entry.id)),
            _ => None,
        });
        engine.due_page(group, after, None, PIECE).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_counts_are_served_while_a_count_runs() {
        let (matrices, shop) = (Arc::new(Matrices::default()), GroupId::new("shop"));
        assert!(matrices.latest(&shop).matrix.is_counting, "no count is known");
        let running = RunningCount::begin(&matrices, &shop).unwrap();
        assert!(RunningCount::begin(&matrices, &shop).is_none(), "one at a time");
        let counts = Arc::new(GroupCounts { rest: 7, ..GroupCounts::default() });
        matrices.put(&shop, KeptCounts { counts, until: MonoMs(100) });
        drop(running);
        let fresh = |at| matrices.fresh(&shop, MonoMs(at)).map(|counts| counts.rest);
        assert_eq!((fresh(99), fresh(100)), (Some(7), None));
        let _running = RunningCount::begin(&matrices, &shop).unwrap();
        assert_eq!(matrices.latest(&shop).rest, 7, "the next count runs");
    }
}
