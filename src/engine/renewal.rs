//! The driver's side of a renewal: a failed store is rebuilt from the log while requests are
//! refused.
//!
//! ```text
//! failure ──▶ requests refused, events deferred ──▶ log durable, room on the disk
//!    ▲                                                          │
//!    └──── failed again: pause ──── Renewal (flusher) ◀─────────┘
//!                                      └──▶ new ledger, deferred events, trouble ends
//! ```
//! The driver never waits: it checks the attempt between commands.
//!
//! A full disk is another case: the store accepts no more changes until there is room (crowded).
//! Requests are refused, and observations are queued until it does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use crate::engine::command::Command;
use crate::engine::driver::{Driver, OWNER};
use crate::engine::error::EngineError;
use crate::engine::store::{Renewal, RenewalOutcome, Store};
use crate::model::MonoMs;
use crate::retry::{Ledger, LedgerInput, delayed};

#[cfg(test)]
mod tests;

/// Interval between checks of a failed store, or of a store that is flushing.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Pause after a failed attempt; doubled by each further one.
const PAUSE_MS: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 30_000;
/// Free bytes below which an attempt would fail: the file of tables grows by as much.
const ROOM_BYTES: u64 = 1 << 20;
/// Most events that wait for a renewal. A leaving member brings one, so more is a fault.
const DEFERRED_MAX: usize = 64 << 10;
/// Most observations that wait for room; later ones are dropped with a warning.
const QUEUED_MAX: usize = 64 << 10;

/// The state of renewals.
#[derive(Default)]
pub(super) struct Renewals {
    attempt: Option<Receiver<RenewalOutcome>>,
    /// No attempt starts before this time.
    pause_until: MonoMs,
    /// Number of failed attempts in a row.
    failed: u32,
    /// The rows were renewed, and have made no checkpoint since.
    is_suspect: Arc<AtomicBool>,
    deferred: VecDeque<Command>,
    /// Observations for the ledger, which wait for room.
    queued: VecDeque<LedgerInput>,
}

impl Renewals {
    /// Returns a callback that marks the rows as trusted, for their next checkpoint.
    pub(super) fn trust(&self) -> impl FnOnce() + Send + use<> {
        let is_suspect = Arc::clone(&self.is_suspect);
        move || is_suspect.store(false, Ordering::Release)
    }

    fn fail(&mut self, now: MonoMs) {
        let pause = PAUSE_MS.checked_shl(self.failed).unwrap_or(PAUSE_MS_MAX).min(PAUSE_MS_MAX);
        self.failed = self.failed.saturating_add(1);
        self.pause_until = now.plus(pause);
    }
}

impl Driver {
    /// True while the store is unusable and may be renewed.
    pub(super) fn is_renewing(&self) -> bool {
        self.ahead.is_none() && self.ledger.store().failed().is_some()
    }

    /// True when a full disk leaves so many changes in memory that no more are accepted.
    pub(super) fn is_crowded(&mut self) -> bool {
        self.ledger.store_mut().is_crowded() && self.journal.stats().disk_full
    }

    /// Queues an observation behind those that wait for room, since nobody repeats it.
    pub(super) fn queue_input(&mut self, input: LedgerInput) -> Result<(), EngineError> {
        self.usable()?;
        if self.renewals.queued.len() >= QUEUED_MAX {
            return Err(EngineError::Crowded);
        }
        self.renewals.queued.push_back(input);
        Ok(())
    }

    /// Gives the ledger the queued observations, as long as there is room. One whose decision is
    /// not appended stays for the ledger of a renewal.
    pub(super) fn note_queued(&mut self) -> Result<(), EngineError> {
        while !self.is_crowded()
            && let Some(input) = self.renewals.queued.front().cloned()
        {
            let (_, facts) = self.handle(input);
            self.persist(&facts, &[], Vec::new())?;
            self.renewals.queued.pop_front();
        }
        Ok(())
    }

    pub(super) fn has_queued_inputs(&self) -> bool {
        !self.renewals.queued.is_empty()
    }

    /// Keeps an event that is not repeated until the store is renewed; returns every other command.
    pub(super) fn defer(&mut self, command: Command) -> Option<Command> {
        if !command.is_event() || !self.is_renewing() {
            return Some(command);
        }
        let command = self.detach_caller(command);
        if self.renewals.deferred.len() >= DEFERRED_MAX {
            self.give_up(&EngineError::Deferred(DEFERRED_MAX));
        } else {
            self.renewals.deferred.push_back(command);
        }
        None
    }

    /// Detaches the event's caller, who gets an error because the event is not durable.
    fn detach_caller(&self, command: Command) -> Command {
        match (command, self.usable()) {
            (Command::Call(call), Err(error)) => Command::Call(call.detach(error)),
            (command, _) => command,
        }
    }

    /// Starts or checks a renewal of a failed store; notes queued observations of a good one.
    pub(super) fn see_to_store(&mut self) {
        if !self.is_renewing() {
            if self.has_queued_inputs() {
                // An error is that of a failed append, which is reported already.
                let _ = self.may_decide();
            }
            return;
        }
        // Reports the failure, if no request has done so.
        let _ = self.usable();
        let Some(attempt) = &self.renewals.attempt else { return self.attempt_renewal() };
        match attempt.try_recv() {
            Err(TryRecvError::Empty) => {}
            Ok(Ok(ledger)) => self.renewed(*ledger),
            Ok(Err(why)) => {
                self.renewals.attempt = None;
                self.renewals.fail(self.clock.now().mono);
                tracing::warn!(
                    why,
                    "R0404 the retry tables could not be rebuilt from the log; it is tried again. \
                     Make room on the disk, or check it"
                );
            }
            Err(TryRecvError::Disconnected) => {
                self.renewals.attempt = None;
                self.give_up(&EngineError::Stopped);
            }
        }
    }

    fn attempt_renewal(&mut self) {
        let is_early = self.clock.now().mono < self.renewals.pause_until;
        if is_early || self.journal.durable_seq() < self.last_seq {
            return;
        }
        if self.journal.free_bytes() < ROOM_BYTES {
            self.renewals.pause_until = self.clock.now().mono.plus(PAUSE_MS);
            return;
        }
        let (done, attempt) = channel();
        let renewal = Renewal {
            journal: self.journal.clone(),
            policies: self.ledger.policies().clone(),
            anew: self.renewals.is_suspect.swap(true, Ordering::AcqRel),
            done,
        };
        self.renewals.attempt = Some(attempt);
        if !self.ledger.store().renew(renewal) {
            self.renewals.attempt = None;
            self.give_up(&EngineError::Stopped);
        }
    }

    /// Continues with the renewed ledger.
    fn renewed(&mut self, mut ledger: Ledger<Store>) {
        ledger.store_mut().replace(self.ledger.store_mut());
        ledger.recovered(self.clock.now());
        self.ledger = ledger;
        self.journal.hold_from(OWNER, self.ledger.store().applied());
        self.renewals.attempt = None;
        self.renewals.failed = 0;
        self.mover.wake(&delayed());
        self.trouble.end();
        tracing::info!("the retry tables were rebuilt from the log; retries go on");
        self.settle(Vec::new());
        for (group, _) in self.detectors.all() {
            self.keep_detector(&group);
        }
        for command in std::mem::take(&mut self.renewals.deferred) {
            self.take_command(command);
        }
    }
}
