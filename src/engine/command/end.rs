//! The nacks of a transaction, journalled with its end in one atomic group. If a nack is refused,
//! nothing is journalled and the transaction stays open.

use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::command::nack::of_each;
use crate::engine::delayed::AppendBatch;
use crate::engine::detectors::JudgedNacks;
use crate::engine::detectors::pending_records::PendingRecords;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::nack_batch::{NackBatch, NackReply};
use crate::journal::NewEntry;
use crate::model::{GroupId, Moment, TopicName};
use crate::retry::detector::GroupObservation;
use crate::retry::{Evidence, Fact, LedgerAnswer, LedgerInput, Nack, NackOutcome, Reporter};

/// A transaction that is being committed.
pub struct TransactionEnd {
    /// The nacks, one batch for each group.
    pub nacks: Vec<NackBatch>,
    /// Appends the end of the transaction.
    pub end: AppendBatch,
}

/// The decisions about the nacks of a transaction.
#[derive(Default)]
struct NackDecisions {
    facts: Vec<Fact>,
    /// One entry per fact.
    entries: Vec<NewEntry>,
    windows: Vec<NewEntry>,
    judged: Vec<JudgedGroup>,
    replies: Vec<NackReply>,
    failed: Option<EngineError>,
}

/// The rest of a judged batch, applied once its entries are in the log.
struct JudgedGroup {
    group: GroupId,
    charged: Vec<TopicName>,
    failures: Vec<GroupObservation>,
    pending: PendingRecords,
}

impl Engine {
    /// Journals the nacks of a transaction together with its end. A refused nack leaves the
    /// transaction open. If `end` cannot end it, no nack is taken. Returns one reply per batch, or
    /// none if nothing was taken; durable on return.
    pub fn ends(
        &self,
        ending: TransactionEnd,
    ) -> impl Future<Output = Result<Vec<NackReply>, EngineError>> + use<> {
        self.call(ending)
    }
}

impl Request for TransactionEnd {
    type Answer = Vec<NackReply>;

    fn run(self, driver: &mut Driver) -> Result<Vec<NackReply>, EngineError> {
        driver.ends(self)
    }
}

impl Driver {
    fn ends(&mut self, ending: TransactionEnd) -> Result<Vec<NackReply>, EngineError> {
        let TransactionEnd { nacks, end } = ending;
        self.may_decide()?;
        self.journal.admits()?;
        let now = self.clock.now();
        let all = nacks.iter().map(|batch| (&batch.group, &batch.nacks[..]));
        batch_limits::check_all(self.ledger.store(), all)?;
        self.check_windows(nacks.iter())?;
        for batch in &nacks {
            self.tell_room(now, &batch.group);
            let judged: Vec<Nack> = batch.nacks.iter().map(|one| one.nack.clone()).collect();
            let bad = self.ledger.refused(now, &batch.group, Evidence::Nack, &judged);
            if !bad.is_empty() {
                return Err(EngineError::BadNacks(bad));
            }
        }
        let (mut waiting, mut decided) = (Some(nacks), NackDecisions::default());
        let appended = end(&mut || self.decide(now, waiting.take()?, &mut decided));
        let NackDecisions { facts, entries, judged, replies, failed, .. } = decided;
        let was_asked = !replies.is_empty() || failed.is_some();
        match appended {
            Some(refs) if was_asked => {
                let bodies = entries.iter().map(|entry| entry.body().clone()).collect();
                self.after_append(&facts, &refs, bodies);
            }
            // The transaction was ended before, or cannot be ended.
            _ if !was_asked => return Ok(Vec::new()),
            _ => {
                for JudgedGroup { group, pending, .. } in judged {
                    self.put_back(&group, pending);
                }
                return Err(self.stops(failed));
            }
        }
        for JudgedGroup { group, charged, failures, .. } in judged {
            self.note_failures(&group, failures);
            self.count_charged(&group, &charged);
            self.see_room(&group);
        }
        Ok(replies)
    }

    /// Makes the entries of valid nacks. From here on nothing may fail: the ledger has applied
    /// them.
    fn decide(
        &mut self,
        now: Moment,
        nacks: Vec<NackBatch>,
        decided: &mut NackDecisions,
    ) -> Option<Vec<NewEntry>> {
        for batch in nacks {
            if let Err(error) = self.decide_one(now, batch, decided) {
                decided.failed = Some(error);
                return None;
            }
        }
        // The store may have failed meanwhile, which leaves records without bytes.
        if let Err(error) = self.usable() {
            decided.failed = Some(error);
            return None;
        }
        let windows = std::mem::take(&mut decided.windows);
        Some([decided.entries.clone(), windows].concat())
    }

    fn decide_one(
        &mut self,
        now: Moment,
        batch: NackBatch,
        decided: &mut NackDecisions,
    ) -> Result<(), EngineError> {
        let NackBatch { group, by, nacks, .. } = batch;
        let judged = self.judge(now, (&group, Evidence::Nack), nacks)?;
        let JudgedNacks { nacks, records, leaves, charged, failures, pending, windows, .. } =
            judged;
        decided.windows.extend(windows);
        let known = JudgedGroup { group: group.clone(), charged, failures, pending };
        decided.judged.push(known);
        let outcomes = self.take_all(now, (group, by), nacks, &records, decided)?;
        decided.replies.push(of_each(leaves, outcomes));
        Ok(())
    }

    fn take_all(
        &mut self,
        now: Moment,
        (group, by): (GroupId, Reporter),
        nacks: Vec<Nack>,
        records: &[bytes::Bytes],
        decided: &mut NackDecisions,
    ) -> Result<Vec<NackOutcome>, EngineError> {
        let input = LedgerInput::Nacks { group, by, nacks };
        let (answer, facts) = self.handle_records(now, input, records);
        let entries: Result<Vec<_>, _> =
            facts.iter().map(|fact| self.entry_of(fact, records)).collect();
        decided.entries.extend(entries?);
        decided.facts.extend(facts);
        match answer {
            Some(LedgerAnswer::Nacked(outcomes)) => Ok(outcomes),
            _ => Err(EngineError::Stopped),
        }
    }

    /// Stops the engine: a decision is not in the log.
    fn stops(&mut self, failed: Option<EngineError>) -> EngineError {
        let error = failed.unwrap_or(EngineError::Stopped);
        self.append_failed(&error);
        error
    }
}
