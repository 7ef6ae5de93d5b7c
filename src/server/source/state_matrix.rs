//! Counts of a group's entries for the page: a bounded walk of the engine's rows, a few at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::admin::{COUNTED_MAX, Matrix, RetryFingerprint, RetryFingerprintList, Unavailable};
use crate::engine::{EngineError, EntryClass};
use crate::model::{GroupId, MonoMs};
use crate::retry::{Disposition, RetryState};
use crate::server::source::AdminSource;
use crate::server::source::waiting_shapes::WaitingShapes;

/// Entries that the engine reads for one command, so that other work can run in between.
const PIECE: usize = 256;
/// Age limit of a count, as a multiple of the time it took. So the engine spends at most a
/// twentieth of its time on counts.
const SERVES_FOR: u64 = 20;
/// Groups whose counts are kept.
const KEPT_MAX: usize = 64;

/// The latest counts. Only one count runs at a time.
#[derive(Debug, Default)]
pub(in crate::server) struct Matrices(Mutex<BTreeMap<GroupId, KeptCounts>>);

#[derive(Debug)]
struct KeptCounts {
    counts: Arc<GroupCounts>,
    until: MonoMs,
}

/// Counts of a group's entries.
#[derive(Debug)]
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
        }
    }
}

impl AdminSource {
    pub(super) async fn counted(&self, group: &GroupId) -> Result<Arc<GroupCounts>, Unavailable> {
        let mut kept = self.matrices.0.lock().await;
        let began = self.router.clock.now();
        if let Some(known) = kept.get(group).filter(|known| began.mono < known.until) {
            return Ok(Arc::clone(&known.counts));
        }
        let mut matrix = Matrix::at(began.wall.0);
        let mut shapes = WaitingShapes::at(began.wall);
        self.count_waiting(group, &mut matrix, &mut shapes).await?;
        self.count_dead(group, &mut matrix).await?;
        let now = self.router.clock.now().mono;
        let until = now.plus(now.since(began.mono).saturating_mul(SERVES_FOR));
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let (kinds, rest) = shapes.most();
        let counts = Arc::new(GroupCounts { matrix, kinds, rest });
        kept.insert(group.clone(), KeptCounts { counts: Arc::clone(&counts), until });
        Ok(counts)
    }

    async fn count_waiting(
        &self,
        group: &GroupId,
        matrix: &mut Matrix,
        shapes: &mut WaitingShapes,
    ) -> Result<(), EngineError> {
        let (mut after, mut counted) = (None, 0);
        loop {
            let piece = self.router.engine.due_page(group, after, None, PIECE).await?;
            for entry in &piece {
                let RetryState::Waiting { due, level, .. } = entry.state else { continue };
                matrix.add_waiting(level, due.0);
                shapes.add(entry);
                after = Some((due, entry.id));
            }
            counted += piece.len();
            if piece.len() < PIECE {
                return Ok(());
            }
            if counted >= COUNTED_MAX {
                matrix.is_waiting_cut = true;
                return Ok(());
            }
        }
    }

    async fn count_dead(&self, group: &GroupId, matrix: &mut Matrix) -> Result<(), EngineError> {
        let (mut after, mut counted) = (None, 0);
        loop {
            let dead = Some(EntryClass::Dead);
            let piece = self.router.engine.page(group, dead, after, PIECE).await?;
            for entry in piece.iter().map(|seen| &seen.entry) {
                let RetryState::Dead { at } = entry.state else { continue };
                let cause = entry.disposition.unwrap_or(Disposition::Manual);
                matrix.add_dead(cause.as_str(), at.0);
                after = Some(entry.id);
            }
            counted += piece.len();
            if piece.len() < PIECE {
                return Ok(());
            }
            if counted >= COUNTED_MAX {
                matrix.is_dead_cut = true;
                return Ok(());
            }
        }
    }
}
