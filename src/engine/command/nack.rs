//! Batches of nacks. A batch is accepted or refused as a whole, and a batch that its producer
//! repeats changes nothing.
//!
//! A record that waits in its partition (`order.mode: partition`) gets no entry: only its window
//! changes. Windows, entries and the producer's sequences are one atomic group of the log.

use std::time::Duration;

use bytes::Bytes;

use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::detectors::JudgedNacks;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::nack_batch::{NackBatch, NackReply};
use crate::engine::producer_sequences::{ProducerSequence, SequenceVerdict};
use crate::journal::NewEntry;
use crate::model::{EntryId, GroupId, Moment, TopicName};
use crate::observe::{DroppedLines, LogLimit};
use crate::retry::{
    Disposition, Entries, Evidence, LedgerAnswer, LedgerInput, Nack, NackOutcome, Reporter,
    StateKind,
};

#[cfg(test)]
mod tests;

/// One line a minute about nacks of dead letters.
const KNOWN_NACKS: LogLimit = LogLimit { at_once: 1, one_in: Duration::from_mins(1) };

/// A batch in the driver's queue.
#[derive(Debug)]
struct Nacks {
    batch: NackBatch,
    evidence: Evidence,
}

impl Engine {
    /// Accepts a batch of records produced to a retry topic. See [`Engine::said`].
    pub fn nacks(
        &self,
        batch: NackBatch,
    ) -> impl Future<Output = Result<NackReply, EngineError>> + use<> {
        self.said(batch, Evidence::Nack)
    }

    /// Accepts or refuses a batch of nacks as a whole. The batch is queued on return; the future
    /// ends when it is durable.
    pub fn said(
        &self,
        batch: NackBatch,
        evidence: Evidence,
    ) -> impl Future<Output = Result<NackReply, EngineError>> + use<> {
        self.call(Nacks { batch, evidence })
    }
}

/// Nacks of one batch that become facts, with their records.
struct JudgedBatch {
    by: Reporter,
    evidence: Evidence,
    producer: Option<ProducerSequence>,
    nacks: Vec<Nack>,
    records: Vec<Bytes>,
}

/// One outcome per nack of a batch; `leaves` says which nacks became entries.
fn of_each(leaves: Vec<bool>, outcomes: Vec<NackOutcome>) -> NackReply {
    let mut outcomes = outcomes.into_iter();
    let each = leaves.into_iter().map(|leaves| if leaves { outcomes.next() } else { None });
    NackReply::Taken(each.collect())
}

impl Request for Nacks {
    type Answer = NackReply;

    fn waits_for(&self, driver: &Driver) -> Option<GroupId> {
        let group = &self.batch.group;
        let nacks = self.batch.nacks.iter().map(|of| &of.nack);
        driver.is_before_release(group, nacks).then(|| group.clone())
    }

    fn run(self, driver: &mut Driver) -> Result<NackReply, EngineError> {
        driver.nacks(self)
    }
}

impl Driver {
    fn nacks(&mut self, nacks: Nacks) -> Result<NackReply, EngineError> {
        let Nacks { batch, evidence } = nacks;
        self.may_decide()?;
        self.journal.admits()?;
        if let Some(producer) = batch.producer
            && self.repeated(&batch.group, producer)?.is_some()
        {
            return Ok(NackReply::Repeated);
        }
        batch_limits::check(self.ledger.store(), &batch.group, &batch.nacks)?;
        self.check_windows(&batch)?;
        let NackBatch { group, by, producer, nacks } = batch;
        let now = self.clock.now();
        self.tell_room(now, &group);
        let judged = self.judge(now, (&group, evidence), nacks)?;
        let JudgedNacks { nacks, records, leaves, charged, failures, pending, windows, .. } =
            judged;
        let before = producer.map(|producer| (producer, self.stamps.of(&group, producer)));
        let batch = JudgedBatch { by, evidence, producer, nacks, records };
        let outcomes = match self.journal_batch(now, &group, batch, windows) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // The batch is not in the log, so its producer may repeat it; its windows are still
                // true.
                if let Some((producer, before)) = before {
                    self.stamps.restore(&group, producer, before);
                }
                self.put_back(&group, pending);
                return Err(error);
            }
        };
        if evidence != Evidence::CommitMarker {
            self.count_known(&group, &outcomes);
        }
        self.note_failures(&group, failures);
        self.count_charged(&group, &charged);
        self.see_room(&group);
        Ok(of_each(leaves, outcomes))
    }

    /// Decides on nacks and journals everything they cause in one group of the log.
    fn journal_batch(
        &mut self,
        now: Moment,
        group: &GroupId,
        batch: JudgedBatch,
        windows: Vec<NewEntry>,
    ) -> Result<Vec<NackOutcome>, EngineError> {
        let JudgedBatch { by, evidence, producer, nacks, records } = batch;
        let of = group.clone();
        let input = match evidence {
            Evidence::CommitMarker => LedgerInput::Marked { group: of, by, nacks },
            Evidence::AdminNack => LedgerInput::Posted { group: of, by, nacks },
            _ => LedgerInput::Nacks { group: of, by, nacks },
        };
        let (answer, facts) = self.handle_records(now, input, &records);
        let outcomes = match answer {
            Some(LedgerAnswer::Nacked(outcomes)) => outcomes,
            Some(LedgerAnswer::BadNacks(bad)) => return Err(EngineError::BadNacks(bad)),
            _ => return Err(EngineError::Stopped),
        };
        let stamp = producer.map(|producer| self.stamps.record(group, producer, (now.wall, 0)));
        let more = windows.into_iter().chain(stamp).collect();
        self.persist(&facts, &records, more)?;
        Ok(outcomes)
    }

    /// Counts nacks without effect. A nack that names a dead letter may be meant as a redrive.
    /// Applications repeat markers with their commits, so those are not counted.
    fn count_known(&mut self, group: &GroupId, outcomes: &[NackOutcome]) {
        let known = outcomes.iter().filter_map(|outcome| match outcome {
            NackOutcome::Nothing { id } => Some(*id),
            _ => None,
        });
        let known: Vec<EntryId> = known.collect();
        if known.is_empty() {
            return;
        }
        self.metrics.nacks_known(group.as_str(), known.len());
        let mut entries = known.iter().filter_map(|id| self.ledger.store().get(*id));
        let Some(dead) = entries.find(|entry| entry.state.kind() == StateKind::Dead) else {
            return;
        };
        let Some(dropped) = self.known_nacks.spend(self.clock.elapsed(), KNOWN_NACKS) else {
            return;
        };
        let record = dead.origin.map_or_else(|| dead.id.to_string(), |origin| origin.to_string());
        tracing::warn!(
            %group, %record,
            "R0427 a nack names a dead letter and changes nothing: to deliver the record again, \
             use `reprise dlq redrive`{}",
            DroppedLines(dropped)
        );
    }

    /// Counts failures of records of these topics that wait in their partition.
    pub(in crate::engine) fn count_charged(&self, group: &GroupId, topics: &[TopicName]) {
        let word = Disposition::Rejected.as_str();
        for topic in topics {
            self.metrics.record_failed(group.as_str(), topic.as_str(), word);
        }
    }

    /// Checks a batch against its producer's sequences. Returns the offset of one that is repeated;
    /// an error means that it is refused.
    pub(in crate::engine) fn repeated(
        &self,
        group: &GroupId,
        producer: ProducerSequence,
    ) -> Result<Option<i64>, EngineError> {
        match self.stamps.check(group, producer) {
            SequenceVerdict::New => Ok(None),
            SequenceVerdict::Repeated { base } => Ok(Some(base)),
            SequenceVerdict::Fenced => Err(EngineError::InvalidProducerEpoch),
        }
    }
}
