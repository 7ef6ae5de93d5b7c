//! Journals the decisions of the ledger; no other code does.
//!
//! ```text
//! input ──▶ retry::Ledger ──▶ facts, answer
//!                                │
//!                      facts + records + further entries ──▶ journal (one atomic group)
//!                                                               │
//!                                   tables, counts, dead letters ◀── place in the journal
//! ```
//! The journal is the truth. The store's tables only index it, so they can be rebuilt from it.
//!
//! **Invariant:** the ledger applies a fact before the journal has it. After a failed append
//! nothing is answered or journalled until the journal is read again. If the store failed, a
//! renewal does that (`renewal.rs`): it opens the tables anew and replays the journal into them,
//! without the decision that was not appended. After any other failure only a restart does.
//!
//! | term | meaning |
//! |---|---|
//! | ahead | a decision is in memory and not in the journal, and no renewal will drop it |
//! | crowded | the disk is full, and the store keeps as many table changes in memory as it may |
//! | body | an entry's record; the store reads it back from the journal |
//! | unwritten | entries that are appended and not yet durable, with their bodies |
//! | finals | final outcomes, each to be a line of the log output |
//! | trouble | the reason why the engine is not ready, for `/readyz` |
//!
//! Appended is not durable: the caller of an answer waits for the fdatasync of the last sequence. A
//! wake is a hint; a woken Fetch asks the ledger again.

use bytes::Bytes;

use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::fact_counts::{count, is_final};
use crate::engine::facts::{new_entry, payload_of};
use crate::journal::{EntryRef, NewEntry};
use crate::model::{EntryId, Moment};
use crate::retry::{Fact, LedgerAnswer, LedgerInput, LedgerOutput, RecordShape};
use crate::wire::batch::RawRecord;

/// Most facts in one group of the journal, where they need not be atomic. A reload of the
/// configuration may move millions of entries at once, and the journal bounds a group.
const GROUP_FACTS_MAX: usize = 4_096;

/// The shape of a record in its stored form; `None` for a missing record or an unreadable head.
fn shape_of(record: &Bytes) -> Option<RecordShape> {
    if record.is_empty() {
        return None;
    }
    let key = RawRecord::parse_key(record).ok()?;
    Some(RecordShape::of(key.as_deref(), record.len()))
}

impl Driver {
    /// Gives the ledger an observation that nobody repeats; on a full disk it waits for room.
    pub(super) fn note(&mut self, input: LedgerInput) -> Result<(), EngineError> {
        self.queue_input(input)?;
        self.note_queued()
    }

    /// Notes an observation that has no caller.
    pub(super) fn note_input(&mut self, input: LedgerInput, what: &str) {
        if let Err(error) = self.note(input) {
            tracing::warn!(%error, "R0421 {what} could not be journalled; check the disk");
        }
    }

    /// Gives the ledger an input, and journals the decision.
    pub(super) fn ask(&mut self, input: LedgerInput) -> Result<Option<LedgerAnswer>, EngineError> {
        self.may_decide()?;
        let (answer, facts) = self.handle(input);
        self.persist(&facts, &[], Vec::new())?;
        Ok(answer)
    }

    pub(super) fn handle(&mut self, input: LedgerInput) -> (Option<LedgerAnswer>, Vec<Fact>) {
        self.handle_at(self.clock.now(), input)
    }

    pub(super) fn handle_at(
        &mut self,
        now: Moment,
        input: LedgerInput,
    ) -> (Option<LedgerAnswer>, Vec<Fact>) {
        self.ledger.handle(now, input);
        self.drain()
    }

    /// Gives the ledger an input with its records, in their stored form.
    pub(super) fn handle_records(
        &mut self,
        now: Moment,
        input: LedgerInput,
        records: &[Bytes],
    ) -> (Option<LedgerAnswer>, Vec<Fact>) {
        self.ledger.handle_records(now, input, records.iter().map(shape_of).collect());
        self.drain()
    }

    pub(super) fn drain(&mut self) -> (Option<LedgerAnswer>, Vec<Fact>) {
        let mut facts = Vec::new();
        let mut answer = None;
        while let Some(output) = self.ledger.poll_output() {
            match output {
                LedgerOutput::Fact(fact) => facts.push(fact),
                LedgerOutput::Answer(given) => answer = Some(given),
                LedgerOutput::Wake { group } => self.mover.wake(&group),
            }
        }
        (answer, facts)
    }

    /// Appends the facts of one input. Facts with records or further entries are one atomic group.
    /// Independent facts go into groups of bounded size.
    pub(super) fn persist(
        &mut self,
        facts: &[Fact],
        records: &[Bytes],
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        let appended = if records.is_empty() && more.is_empty() {
            let mut groups = facts.chunks(GROUP_FACTS_MAX);
            groups.try_for_each(|facts| self.append(facts, &[], Vec::new()))
        } else {
            self.append(facts, records, more)
        };
        if let Err(error) = &appended {
            self.append_failed(error);
        }
        appended
    }

    pub(super) fn append(
        &mut self,
        facts: &[Fact],
        records: &[Bytes],
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        let mut entries = Vec::with_capacity(facts.len() + more.len());
        for fact in facts {
            entries.push(self.entry_of(fact, records)?);
        }
        entries.extend(more);
        if entries.is_empty() {
            return Ok(());
        }
        let bodies = entries.iter().map(|entry| entry.body().clone()).collect();
        // The store may have failed while it read the bodies: then some are missing.
        self.usable()?;
        let appended = self.journal.append_reserved(entries)?;
        self.after_append(facts, &appended.refs, bodies);
        Ok(())
    }

    /// The journal's entry for a fact; `records` as in [`new_entry`].
    pub(super) fn entry_of(&self, fact: &Fact, records: &[Bytes]) -> Result<NewEntry, EngineError> {
        let store = self.ledger.store();
        new_entry(store, &self.journal, &self.render, &self.unwritten, fact, records)
    }

    /// The stored bytes of an entry's record.
    pub(super) fn record_body(&self, id: EntryId) -> Result<Bytes, EngineError> {
        let store = self.ledger.store();
        let _known = store.payload(id).ok_or(EngineError::PayloadLost(id))?;
        payload_of(store, &self.journal, &self.unwritten, id)
    }

    /// Records the places of facts in the journal, and of the entries appended after them.
    pub(super) fn after_append(&mut self, facts: &[Fact], refs: &[EntryRef], bodies: Vec<Bytes>) {
        self.unwritten.appended(refs, bodies, self.journal.durable_seq());
        self.last_seq = refs.last().map_or(self.last_seq, |last| last.seq.max(self.last_seq));
        self.wake_letters(facts);
        for (fact, entry) in facts.iter().zip(refs) {
            self.ledger.store_mut().journalled(&self.journal, fact, *entry);
            count(&self.metrics, fact);
            if let Fact::Entry { entry: known, cause, .. } = fact
                && is_final(known, cause.evidence)
            {
                self.finals.note(known, cause, entry.seq);
            }
        }
    }

    /// Checks whether the ledger's decisions are valid: not after a failure of the store.
    pub(super) fn usable(&self) -> Result<(), EngineError> {
        if let Some(why) = &self.ahead {
            return Err(EngineError::Ahead(why.clone()));
        }
        let Some(why) = self.ledger.store().failed() else { return Ok(()) };
        let error = EngineError::Tables(why);
        self.trouble.begin(&error.to_string());
        Err(error)
    }

    /// Checks whether a new decision may be made; observations that wait for room come first. An
    /// existing decision is journalled as long as the store is usable.
    pub(super) fn may_decide(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        self.note_queued()?;
        if self.is_crowded() { Err(EngineError::Crowded) } else { Ok(()) }
    }

    /// Records that a decision is not in the journal. The renewal of a failed store drops it;
    /// otherwise a restart must.
    pub(super) fn append_failed(&mut self, why: &EngineError) {
        if !self.is_renewing() {
            self.give_up(why);
        }
    }

    /// Stops acknowledging until a restart.
    pub(super) fn give_up(&mut self, why: &EngineError) {
        tracing::error!(
            error = %why,
            "R0402 the retry engine stops acknowledging until a restart: restart reprise, \
             everything acknowledged is in the log"
        );
        self.ahead = Some(why.to_string());
        self.trouble.stay(&EngineError::Ahead(why.to_string()).to_string());
    }
}
