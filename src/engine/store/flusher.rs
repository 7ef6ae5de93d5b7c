//! Writes changes to the tables on disk, on a thread of its own or on the engine's.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, OnceLock};

use crate::engine::error::EngineError;
use crate::engine::store::changes::{Changes, RowChange};
use crate::journal::{Table, Tables, TablesError, TimeSlice};

/// All rows are in one table; the first byte of a key gives the row's type.
pub(super) const ROWS: Table = Table("rows");

/// Changes freed between two checks of the clock.
const FORGOTTEN_AT_ONCE: usize = 64;

/// The first failure, shared by the store and its flusher.
#[derive(Clone, Debug, Default)]
pub(super) struct FlushFailure(Arc<OnceLock<String>>);

impl FlushFailure {
    pub(super) fn told(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Records a failure; the first reason stays.
    pub(super) fn tell(&self, why: &str) {
        if self.0.set(why.to_owned()).is_ok() {
            tracing::error!(
                why,
                "R0403 the retry tables cannot be used: nacks, retries and commits are refused \
                 until they are rebuilt from the log, which is tried again and again; make room \
                 on the disk, or check it"
            );
        }
    }

    pub(super) fn latch<T>(&self, result: Result<T, TablesError>) -> Option<T> {
        result.map_err(|error| self.tell(&error.to_string())).ok()
    }
}

/// Rebuilds a store over the tables; returns the failure handle of the new store, if there is one.
pub(super) type StoreRebuild = Box<dyn FnOnce(Option<&Tables>) -> Option<FlushFailure> + Send>;

/// A job of the flusher; jobs run in order.
pub(super) enum FlushJob {
    /// Writes changes; the next checkpoint makes them durable.
    Write(Arc<Changes>, Sender<()>),
    /// Makes all earlier writes durable.
    Checkpoint(Checkpoint),
    /// Frees the memory of changes that are no longer read.
    Forget(Arc<Changes>),
    /// Rebuilds the store from the log.
    Renew(StoreRebuild),
}

/// A checkpoint with its callbacks.
pub(in crate::engine) struct Checkpoint {
    /// The last entry of the log whose fact was applied.
    pub(in crate::engine) applied: u64,
    /// Runs before: makes the log durable to `applied`, and saves its index.
    pub(in crate::engine) first: Box<dyn FnOnce() -> Result<(), EngineError> + Send>,
    /// Gets the result.
    pub(in crate::engine) done: Box<dyn FnOnce(Result<(), EngineError>) + Send>,
}

/// Runs a store's jobs on a thread of its own, so that the driver never waits for a disk.
pub struct Flusher {
    pub(super) jobs: Receiver<FlushJob>,
    pub(super) tables: Option<Tables>,
    pub(super) failure: FlushFailure,
}

impl Flusher {
    /// Runs jobs until the store is dropped.
    pub fn run(mut self) {
        while let Ok(job) = self.jobs.recv() {
            self.work(job);
        }
    }

    /// Runs the next job, if there is one.
    #[cfg(test)]
    pub(in crate::engine) fn step(&mut self) {
        if let Ok(job) = self.jobs.try_recv() {
            self.work(job);
        }
    }

    fn work(&mut self, job: FlushJob) {
        match job {
            FlushJob::Renew(rebuild) => {
                if let Some(failure) = rebuild(self.tables.as_ref()) {
                    self.failure = failure;
                }
            }
            job => job.run(self.tables.as_ref(), &self.failure),
        }
    }
}

impl FlushJob {
    pub(super) fn run(self, tables: Option<&Tables>, failure: &FlushFailure) {
        match self {
            Self::Write(changes, written) => {
                if let Some(tables) = tables
                    && failure.told().is_none()
                {
                    failure.latch(write(tables, &changes));
                }
                // The store may be dropped meanwhile.
                let _ = written.send(());
            }
            Self::Forget(changes) => forget(changes),
            // The new store has its own failure.
            Self::Renew(rebuild) => drop(rebuild(tables)),
            Self::Checkpoint(Checkpoint { applied, first, done }) => {
                let kept = first();
                if let Some(tables) = tables.filter(|_| kept.is_ok())
                    && failure.told().is_none()
                {
                    failure.latch(tables.checkpoint(applied));
                }
                let failed = failure.told().map(|why| EngineError::Tables(why.to_owned()));
                done(kept.and(failed.map_or(Ok(()), Err)));
            }
        }
    }
}

/// Frees changes in pieces: tens of thousands of small allocations take milliseconds to free. On
/// the engine's thread that was a pause of 3 ms.
fn forget(changes: Arc<Changes>) {
    let turn = TimeSlice::for_later();
    for (forgotten, _) in Arc::into_inner(changes).into_iter().flatten().enumerate() {
        if forgotten.is_multiple_of(FORGOTTEN_AT_ONCE) {
            turn.give_way();
        }
    }
}

fn write(tables: &Tables, changes: &Changes) -> Result<(), TablesError> {
    tables.write(|batch| {
        for (key, change) in changes {
            match change {
                RowChange::Put(row) | RowChange::New(row) => batch.put(ROWS, key, &row.bytes()?)?,
                RowChange::Gone => batch.delete(ROWS, key).map(drop)?,
            }
        }
        Ok(())
    })
}
