//! Waiting retries by shape. Each walk over them counts anew: retries change their state so often
//! that counts in the store would cost more than the walk.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::admin::RetryFingerprint;
use crate::engine::Shape;
use crate::model::WallMs;
use crate::retry::Entry;

/// Shapes that one walk tells apart; retries of further shapes are counted together.
const SHAPES_MAX: usize = 10_000;
/// Shapes that outlast the walk, those with most retries.
const KEPT_MAX: usize = 256;
const HOURS: usize = 24;
const HOUR_MS: i64 = 3_600_000;

/// Shapes of the waiting retries that a walk has read so far.
#[derive(Debug)]
pub(super) struct WaitingShapes {
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
    pub(in crate::server) fn at(now: WallMs) -> Self {
        Self { now, all: BTreeMap::new(), rest: 0 }
    }

    /// Counts a retry. Call it in the order of due times.
    pub(in crate::server) fn add(&mut self, entry: &Entry) {
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
    pub(super) fn most(self) -> (Vec<RetryFingerprint>, u64) {
        let mut all: Vec<(Shape, WaitingCount)> = self.all.into_iter().collect();
        all.sort_by_key(|(_, count)| Reverse(count.retries));
        let beyond: u64 = all.iter().skip(KEPT_MAX).map(|(_, count)| count.retries).sum();
        let kinds = all.into_iter().take(KEPT_MAX).map(|(shape, count)| RetryFingerprint {
            key: shape.into(),
            retries: count.retries,
            example: count.example,
            first_ms: count.first.map(|at| at.0),
            last_ms: count.last.map(|at| at.0),
            hours: count.hours.to_vec(),
        });
        (kinds.collect(), self.rest + beyond)
    }
}
