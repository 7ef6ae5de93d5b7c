//! Housekeeping, on a timer and before a stop.

use crate::engine::audit;
use crate::engine::command::{Command, ReplySender};
use crate::engine::driver::{Driver, OWNER};
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::store::Checkpoint;

use tokio::sync::oneshot;

/// Tombstones examined in one round of housekeeping.
const SWEEP_MAX: usize = 10_000;

impl Engine {
    /// Runs housekeeping, after the journal's own checkpoint. It forgets silent producers, releases
    /// entries that are gone from the log and makes a checkpoint of the look-up tables.
    pub async fn keep(&self) -> Result<(), EngineError> {
        let (reply, pending) = oneshot::channel();
        let kept = self.wait(self.send(Command::Keep(reply)), pending).await;
        if matches!(kept, Err(EngineError::Tables(_))) {
            // Wakes the driver, which may have to begin a renewal.
            self.tell(Command::Look);
        }
        kept
    }
}

impl Driver {
    /// Forgets producers that were silent for a day, and tombstones whose entries are gone from the
    /// log. Makes the tables durable as of the last fact, after that fact is durable itself.
    pub(super) fn keep(&mut self, reply: ReplySender<()>) {
        if let Err(error) = self.tidy() {
            // The caller may have gone.
            drop(reply.send(Err(error)));
            return;
        }
        let seq = self.last_seq;
        let (log, journal) = (self.journal.clone(), self.journal.clone());
        let first = move || {
            log.durable_blocking(seq)?;
            log.checkpoint()?;
            Ok(())
        };
        let trust = self.renewals.trust();
        let done = move |kept: Result<(), EngineError>| {
            if kept.is_ok() {
                journal.hold_from(OWNER, seq);
                trust();
            }
            // The caller may have gone.
            drop(reply.send(kept.map(|()| ((), seq))));
        };
        let checkpoint = Checkpoint { applied: seq, first: Box::new(first), done: Box::new(done) };
        self.ledger.store_mut().checkpoint(checkpoint);
    }

    fn tidy(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        let silent = self.stamps.expire(self.clock.now().wall);
        if !silent.is_empty() {
            self.last_seq = self.journal.append_reserved(silent)?.seq();
        }
        self.ledger.store_mut().sweep(&self.journal, SWEEP_MAX);
        audit::expire(&self.journal, self.clock.now().wall)?;
        Ok(())
    }
}
