//! Acceptance and cancellation of delayed records.

use bytes::Bytes;

use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::delayed::DelayBatch;
use crate::engine::delayed::stored::body_of;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::journal::{EncodedHead, NewEntry};
use crate::model::{EntryId, Origin, WallMs};
use crate::retry::{
    Entries, Fact, LedgerAnswer, LedgerInput, PayloadChange, StateKind, delayed, encode_fact,
};

/// Totals of delayed records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayedTotals {
    /// Number of records.
    pub records: u64,
    /// Bytes of their entries in the log.
    pub bytes: u64,
    /// Number of due records that cannot be read.
    pub unreadable: u64,
    /// The first due time; `None` if no record waits.
    pub first_due: Option<WallMs>,
}

/// Asks for the totals of delayed records.
struct CountDelayed;

/// Cancels delayed records. The answer says which of them were waiting.
struct Cancel(Vec<Origin>);

impl Engine {
    /// Appends a batch with delayed records, after the commands before it. The delayed records are
    /// durable on return.
    pub fn delay(
        &self,
        batch: DelayBatch,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        let delayed = self.call(batch);
        async { delayed.await.map(|_| ()) }
    }

    /// Totals of delayed records.
    pub async fn delayed_totals(&self) -> Result<DelayedTotals, EngineError> {
        Ok(self.call_at_once(CountDelayed).await?.0)
    }

    /// Cancels delayed records; returns which of them were waiting. Durable on return.
    pub async fn cancel(&self, records: Vec<Origin>) -> Result<Vec<bool>, EngineError> {
        self.call(Cancel(records)).await
    }
}

impl Request for DelayBatch {
    /// True when the answer depends on the log: at least one record waits.
    type Answer = bool;

    fn run(self, driver: &mut Driver) -> Result<bool, EngineError> {
        if self.records.is_empty() {
            (self.append)(&mut || Some(Vec::new()));
            return Ok(false);
        }
        driver.delay(self).map(|()| true)
    }

    fn rests_on(waits: &bool, driver: &Driver) -> u64 {
        if *waits { driver.last_seq } else { 0 }
    }
}

impl Request for Cancel {
    type Answer = Vec<bool>;

    fn run(self, driver: &mut Driver) -> Result<Vec<bool>, EngineError> {
        driver.cancel(self.0)
    }
}

impl Request for CountDelayed {
    type Answer = DelayedTotals;

    fn run(self, driver: &mut Driver) -> Result<DelayedTotals, EngineError> {
        Ok(driver.totals())
    }
}

impl Driver {
    fn delay(&mut self, batch: DelayBatch) -> Result<(), EngineError> {
        let DelayBatch { topic, partition, stream, records, append } = batch;
        self.may_decide()?;
        self.journal.admits()?;
        let (until, bytes): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        batch_limits::check_sizes(bytes.iter().map(Bytes::len))?;
        self.check_backlog(&bytes)?;
        let bytes: Vec<Bytes> = bytes.iter().map(|record| body_of(stream, record)).collect();
        let (mut facts, mut bodies) = (Vec::new(), Vec::new());
        let appended = append(&mut || {
            let records = until.clone();
            let input = LedgerInput::Delay { topic: topic.clone(), partition, records };
            facts = self.handle(input).1;
            let entries: Vec<NewEntry> =
                facts.iter().filter_map(|fact| begun(fact, &bytes)).collect();
            bodies = entries.iter().map(|entry| entry.body().clone()).collect();
            // The store may have failed while the ledger decided.
            self.usable().ok().map(|()| entries)
        });
        match appended {
            // The batch is repeated, or was refused before any decision.
            None if facts.is_empty() => return Ok(()),
            Some(refs) if refs.len() == facts.len() => {
                self.after_append(&facts, &refs, bodies);
            }
            _ => return self.take_back(facts),
        }
        self.see_delayed(facts.len(), "scheduled");
        Ok(())
    }

    /// Cancels records whose batch was not appended because its topic was deleted just now. Their
    /// begin and end are one atomic group, without their bytes.
    fn take_back(&mut self, mut facts: Vec<Fact>) -> Result<(), EngineError> {
        let begun = facts.iter().filter_map(|fact| match fact {
            Fact::Entry { entry, .. } => entry.origin.clone(),
            _ => None,
        });
        let records: Vec<Origin> = begun.collect();
        let (_, ended) = self.handle(LedgerInput::Cancel { records });
        facts.extend(ended);
        let appended = self.append(&facts, &[], Vec::new());
        if let Err(error) = &appended {
            self.append_failed(error);
        }
        appended
    }

    fn check_backlog(&self, records: &[Bytes]) -> Result<(), EngineError> {
        let more = records.iter().map(|record| u64::try_from(record.len()).unwrap_or(u64::MAX));
        let more = more.fold(0, u64::saturating_add);
        let (bytes, most) = (self.delayed_bytes(), self.put_off.bytes_max);
        if bytes.saturating_add(more) <= most {
            return Ok(());
        }
        self.see_delayed(records.len(), "refused");
        Err(EngineError::DelayedFull { bytes, more, most })
    }

    fn cancel(&mut self, records: Vec<Origin>) -> Result<Vec<bool>, EngineError> {
        let id = |record: &Origin| EntryId(u64::try_from(record.offset).unwrap_or(u64::MAX));
        let ids: Vec<EntryId> = records.iter().map(id).collect();
        match self.ask(LedgerInput::Cancel { records })? {
            Some(LedgerAnswer::Cancelled(cancelled)) => {
                if let Some(scan) = self.mover.scan(&delayed()) {
                    cancelled.iter().zip(ids).filter(|(was, _)| **was).for_each(|(_, id)| {
                        scan.released(id);
                    });
                }
                let count = cancelled.iter().filter(|one| **one).count();
                self.see_delayed(count, "cancelled");
                Ok(cancelled)
            }
            _ => Err(EngineError::Stopped),
        }
    }

    fn delayed_bytes(&self) -> u64 {
        self.ledger.store().waiting_bytes(&delayed())
    }

    fn totals(&self) -> DelayedTotals {
        DelayedTotals {
            records: self.waiting(),
            bytes: self.delayed_bytes(),
            unreadable: self.unreadable(),
            first_due: self.ledger.store().next_due(&delayed(), None),
        }
    }

    /// Counts `count` records with an outcome in the metrics.
    pub(in crate::engine) fn see_delayed(&self, count: usize, outcome: &str) {
        self.metrics.records_delayed(outcome, count);
        self.metrics.delayed_now(self.waiting(), self.delayed_bytes(), self.unreadable());
    }

    fn waiting(&self) -> u64 {
        self.ledger.counts(&delayed()).of(StateKind::Waiting)
    }

    fn unreadable(&self) -> u64 {
        u64::try_from(self.mover.aside(&delayed()).count()).unwrap_or(u64::MAX)
    }
}

/// The entry of a record that begins to wait.
fn begun(fact: &Fact, bodies: &[Bytes]) -> Option<NewEntry> {
    let Fact::Entry { payload: PayloadChange::Begins(index), .. } = fact else { return None };
    let body = bodies.get(usize::try_from(*index).ok()?)?.clone();
    Some(NewEntry::plain(kind::WAITS, EncodedHead::of(encode_fact(fact)), body))
}
