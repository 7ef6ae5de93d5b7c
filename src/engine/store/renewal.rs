//! Rebuilds a failed store from the log while the process runs.
//!
//! The rows are an index of the log. After a failed write they return to their last checkpoint, or
//! start empty, and the log's facts after it are applied again. Changes in memory are dropped at
//! the first failure, and nothing is journalled until the renewal ends, so the log is the truth.

use std::sync::mpsc::Sender;

use crate::engine::store::{FlushFailure, FlushJob, Store};
use crate::journal::{EntryRef, Journal, JournalEntry, Tables};
use crate::retry::{Ledger, Policies, decode_fact};

/// A ledger over a store that matches the log, or the reason for a failure.
pub(in crate::engine) type RenewalOutcome = Result<Box<Ledger<Store>>, String>;

/// One attempt, made by the flusher's thread.
pub(in crate::engine) struct Renewal {
    pub(in crate::engine) journal: Journal,
    pub(in crate::engine) policies: Policies,
    /// The rows start empty: their last checkpoint is not trusted.
    pub(in crate::engine) anew: bool,
    pub(in crate::engine) done: Sender<RenewalOutcome>,
}

impl Renewal {
    /// Makes the attempt; returns the failure handle of the new store, if there is one.
    fn run(self, tables: Option<&Tables>) -> Option<FlushFailure> {
        let ledger = self.ledger(tables);
        let failure = ledger.as_ref().ok().map(|ledger| ledger.store().rows.failure());
        // The driver may have gone.
        let _ = self.done.send(ledger.map(Box::new));
        failure
    }

    fn ledger(&self, tables: Option<&Tables>) -> Result<Ledger<Store>, String> {
        let tables = tables.ok_or("there is no file of retry tables")?;
        let renewed = self.journal.renew_tables(tables, self.anew);
        renewed.map_err(|error| error.to_string())?;
        let store = Store::open(tables.clone());
        let from = store.applied();
        let mut ledger = Ledger::new(store, self.policies.clone());
        let replayed = self
            .journal
            .replay(from, &mut |entry, at| apply(&mut ledger, &self.journal, entry, at));
        replayed.map_err(|error| error.to_string())?;
        ledger.store().failed().map_or(Ok(ledger), Err)
    }
}

/// Applies an entry of the log if it has a fact.
pub(in crate::engine) fn apply(
    ledger: &mut Ledger<Store>,
    journal: &Journal,
    entry: &JournalEntry,
    at: EntryRef,
) {
    if !crate::engine::kind::is_fact(entry.kind) {
        return;
    }
    match decode_fact(&entry.head) {
        Ok(fact) => {
            ledger.apply(&fact);
            ledger.store_mut().journalled(journal, &fact, at);
        }
        Err(error) => {
            tracing::error!(seq = entry.seq, %error, "R0405 a retry fact cannot be read: its \
                record is not retried; run `reprise log verify`");
        }
    }
}

impl Store {
    /// Sends a renewal to the flusher; false when its thread has ended.
    pub(in crate::engine) fn renew(&self, renewal: Renewal) -> bool {
        self.rows.renew(FlushJob::Renew(Box::new(|tables| renewal.run(tables))))
    }

    /// Takes over the flusher of the store it replaces.
    pub(in crate::engine) fn replace(&mut self, old: &mut Self) {
        self.rows.take_flusher(&mut old.rows);
    }
}
