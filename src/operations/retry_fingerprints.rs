//! Fingerprints of a group's waiting retries: a bounded walk of the engine's rows, a few at a time.
//! A request waits for a walk no longer than a page may take; the walk goes on without it.
//!
//! Each walk counts anew: retries change their state so often that counts in the store would cost
//! more than the walk.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::api::{COUNTED_MAX, Fingerprint, FingerprintList};
use crate::engine::{EngineError, Shape};
use crate::model::{GroupId, MonoMs, WallMs};
use crate::operations::letters::fingerprint_key;
use crate::operations::{Operations, Unavailable};
use crate::retry::{Entry, RetryState};

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
pub struct WaitingCounts {
    kept: Mutex<BTreeMap<GroupId, KeptCount>>,
    /// Locked by a count while it runs, so that one runs at a time.
    turn: AsyncMutex<()>,
}

#[derive(Debug)]
struct KeptCount {
    count: Arc<FingerprintList>,
    until: MonoMs,
}

impl WaitingCounts {
    /// A count that is still young enough.
    fn fresh(&self, group: &GroupId, now: MonoMs) -> Option<Arc<FingerprintList>> {
        let kept = self.kept();
        let known = kept.get(group).filter(|known| now < known.until);
        known.map(|known| Arc::clone(&known.count))
    }

    /// The latest count, whatever its age.
    fn latest(&self, group: &GroupId) -> Arc<FingerprintList> {
        let known = self.kept().get(group).map(|known| Arc::clone(&known.count));
        let counting = FingerprintList { is_counting: true, ..FingerprintList::default() };
        known.unwrap_or_else(|| Arc::new(counting))
    }

    fn put(&self, group: &GroupId, count: KeptCount) {
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(group.clone(), count);
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<GroupId, KeptCount>> {
        // Each change of the counts is one call of a map, so a panic leaves them whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operations {
    /// Fingerprints of the retries of a group that wait: at most `limit` and 256. A count of many
    /// may be a few seconds old.
    pub async fn retry_fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> Result<FingerprintList, Unavailable> {
        let counted = self.counted(&GroupId::new(group)).await?;
        let beyond: u64 = counted.items.iter().skip(limit).map(|kind| kind.records).sum();
        let items = counted.items.iter().take(limit).cloned().collect();
        Ok(FingerprintList { items, rest: counted.rest + beyond, ..*counted })
    }

    /// The fingerprints of a group. A count that takes longer than a page may wait goes on alone:
    /// meanwhile the count before it is served, or none with `is_counting`.
    async fn counted(&self, group: &GroupId) -> Result<Arc<FingerprintList>, Unavailable> {
        if let Some(known) = self.waiting_counts.fresh(group, self.router.clock.now().mono) {
            return Ok(known);
        }
        let (source, of) = (self.clone(), group.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "a count goes on after its caller was answered"
        )]
        let counting = tokio::spawn(async move { source.count(&of).await });
        match timeout(PATIENCE, counting).await {
            Ok(Ok(count)) => count.map_err(Unavailable::from),
            Ok(Err(error)) => Err(Unavailable(error.to_string())),
            Err(_) => Ok(self.waiting_counts.latest(group)),
        }
    }

    async fn count(&self, group: &GroupId) -> Result<Arc<FingerprintList>, EngineError> {
        let _turn = self.waiting_counts.turn.lock().await;
        let began = self.router.clock.now();
        // A count that ran meanwhile may be of this group.
        if let Some(known) = self.waiting_counts.fresh(group, began.mono) {
            return Ok(known);
        }
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
        let count = Arc::new(FingerprintList { items, rest, is_cut, is_counting: false });
        self.waiting_counts.put(group, KeptCount { count: Arc::clone(&count), until });
        Ok(count)
    }
}

/// Shapes that one walk tells apart; retries of further shapes are counted together.
const SHAPES_MAX: usize = 10_000;
/// Shapes that outlast the walk, those with most retries.
const SHAPES_KEPT: usize = 256;
const HOURS: usize = 24;
const HOUR_MS: i64 = 3_600_000;

/// Shapes of the waiting retries that a walk has read so far.
#[derive(Debug)]
struct WaitingShapes {
    now: WallMs,
    all: BTreeMap<Shape, WaitingCount>,
    rest: u64,
}

#[derive(Debug)]
struct WaitingCount {
    retries: u64,
    /// The retry that was read last: it is due last.
    example: u64,
    first: Option<WallMs>,
    last: Option<WallMs>,
    hours: [u32; HOURS],
}

impl WaitingShapes {
    fn at(now: WallMs) -> Self {
        Self { now, all: BTreeMap::new(), rest: 0 }
    }

    /// Counts a retry. Call it in the order of due times.
    fn add(&mut self, entry: &Entry) {
        let shape = Shape::of(entry);
        if self.all.len() >= SHAPES_MAX && !self.all.contains_key(&shape) {
            self.rest += 1;
            return;
        }
        let empty =
            WaitingCount { retries: 0, example: 0, first: None, last: None, hours: [0; HOURS] };
        let count = self.all.entry(shape).or_insert(empty);
        (count.retries, count.example) = (count.retries + 1, entry.id.0);
        let Some(failed) = entry.last_failed else { return };
        count.first = Some(count.first.map_or(failed, |first| first.min(failed)));
        count.last = Some(count.last.map_or(failed, |last| last.max(failed)));
        let ago = self.now.0.div_euclid(HOUR_MS) - failed.0.div_euclid(HOUR_MS);
        let place = usize::try_from(ago.max(0)).ok().and_then(|ago| (HOURS - 1).checked_sub(ago));
        if let Some(retries) = place.and_then(|place| count.hours.get_mut(place)) {
            *retries += 1;
        }
    }

    /// The shapes with most retries, and the count of all other retries.
    fn most(self) -> (Vec<Fingerprint>, u64) {
        let mut all: Vec<(Shape, WaitingCount)> = self.all.into_iter().collect();
        all.sort_by_key(|(_, count)| Reverse(count.retries));
        let beyond: u64 = all.iter().skip(SHAPES_KEPT).map(|(_, count)| count.retries).sum();
        let kinds = all.into_iter().take(SHAPES_KEPT).map(|(shape, count)| Fingerprint {
            key: fingerprint_key(shape),
            records: count.retries,
            example: i64::try_from(count.example).ok(),
            first_ms: count.first.map(|at| at.0),
            last_ms: count.last.map(|at| at.0),
            hours: count.hours.to_vec(),
        });
        (kinds.collect(), self.rest + beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_counts_are_served_while_a_count_runs() {
        let (counts, shop) = (WaitingCounts::default(), GroupId::new("shop"));
        assert!(counts.latest(&shop).is_counting, "no count is known");
        let count = Arc::new(FingerprintList { rest: 7, ..FingerprintList::default() });
        counts.put(&shop, KeptCount { count, until: MonoMs(100) });
        let fresh = |at| counts.fresh(&shop, MonoMs(at)).map(|count| count.rest);
        assert_eq!((fresh(99), fresh(100)), (Some(7), None));
        assert_eq!(counts.latest(&shop).rest, 7, "the next count runs");
    }
}
