//! Records that wait before they enter their topic.
//!
//! **Invariant:** a record begins to wait in the same atomic group as its producer's batch, and
//! enters its topic in the same atomic group as it stops waiting: a crash leaves both or neither.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::batch;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::facts::payload_of;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::journal::{AppendError, EntryRef, NewEntry, StreamAppend, StreamId};
use crate::model::{EntryId, MonoMs, Now, Origin, TopicName};
use crate::retry::{Answer, DELAYED, Entries, Entry, Fact, Input, Token, Until, delayed};
use crate::wire::batch::{RawRecord, build_batch};

use super::command::Command;

/// Records that enter their topics in one go; others get their turn in between.
const PAGE: usize = 256;
/// While the disk is full it is asked again after this.
const FULL_MS: u64 = 1_000;

/// Makes the entries that must not be parted from a batch; `None`: the batch must not be appended.
pub type More<'a> = &'a mut dyn FnMut() -> Option<Vec<NewEntry>>;

/// Appends a producer's batch, with more in one atomic group, and tells where that lies; `None`:
/// nothing was appended. Runs on the engine's thread.
pub type AppendBatch = Box<dyn FnOnce(More<'_>) -> Option<Vec<EntryRef>> + Send>;

/// Where the log keeps a partition; `None`: there is no such partition.
type Find = dyn Fn(&TopicName, i32) -> Option<StreamId> + Send + Sync;

/// Where records go that have waited.
#[derive(Clone, Default)]
pub struct Destinations(Option<Arc<Find>>);

/// What a producer's batch holds that is to wait.
pub struct DelayBatch {
    /// Where it is to enter.
    pub topic: TopicName,
    /// The same.
    pub partition: i32,
    /// Until when, and the record's stored form (`wire::batch::RawRecord`).
    pub records: Vec<(Until, Bytes)>,
    /// The rest of the batch.
    pub append: AppendBatch,
}

impl Destinations {
    /// As this says.
    pub fn new(find: impl Fn(&TopicName, i32) -> Option<StreamId> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    fn find(&self, origin: &Origin) -> Option<StreamId> {
        self.0.as_ref().and_then(|find| find(&origin.topic, origin.partition))
    }
}

impl std::fmt::Debug for Destinations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Destinations").finish_non_exhaustive()
    }
}

impl Engine {
    /// Takes a batch of which some records may have to wait, behind all that was asked before. What
    /// waits is durable on return.
    pub fn delay(
        &self,
        batch: DelayBatch,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        self.ask_durably(|reply| Command::Delay(batch, reply))
    }

    /// What waits to enter its topic, by number, with its record.
    pub async fn delayed(
        &self,
        after: Option<EntryId>,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Vec<(Entry, RawRecord)>, EngineError> {
        self.portable(&delayed(), after, limit, bytes_max).await
    }

    /// Ends the waiting of these; which of them were waiting. Durable on return.
    pub async fn cancel(&self, records: Vec<Origin>) -> Result<Vec<bool>, EngineError> {
        self.ask_durably(|reply| Command::Cancel(records, reply)).await
    }
}

impl Driver {
    /// One command about what waits.
    pub(super) fn put_off(&mut self, command: Command) {
        match command {
            Command::Delay(batch, reply) => {
                let waits_for = self.delay(batch);
                // The asker may have gone; its question is answered in the journal all the same.
                drop(reply.send(waits_for.map(|seq| ((), seq))));
            }
            Command::Cancel(records, reply) => {
                let answer = self.cancel(records);
                self.send(reply, answer);
            }
            _ => {}
        }
    }

    /// The sequence its answer rests on: 0 where nothing of it waits.
    fn delay(&mut self, batch: DelayBatch) -> Result<u64, EngineError> {
        let DelayBatch { topic, partition, records, append } = batch;
        if records.is_empty() {
            append(&mut || Some(Vec::new()));
            return Ok(0);
        }
        self.usable()?;
        self.journal.admits()?;
        let (until, bytes): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        batch::check_bytes(&bytes)?;
        let (mut facts, mut bodies) = (Vec::new(), Vec::new());
        let appended = append(&mut || {
            let records = until.clone();
            let input = Input::Delay { topic: topic.clone(), partition, records };
            facts = self.handle(input).1;
            let entries = self.entries(&facts, &bytes).ok()?;
            bodies = entries.iter().map(|entry| entry.body.clone()).collect();
            Some(entries)
        });
        match appended {
            // Repeated, or refused before anything was decided.
            None if facts.is_empty() => {}
            Some(refs) if refs.len() == facts.len() => self.placed(&facts, &refs, bodies),
            _ => {
                let why = "a delayed record could not be journalled";
                tracing::error!("{why}: the retry engine stops acknowledging until a restart");
                self.ahead = Some(why.to_owned());
                self.usable()?;
            }
        }
        self.see_delayed(facts.len(), "scheduled");
        Ok(self.last_seq)
    }

    fn cancel(&mut self, records: Vec<Origin>) -> Result<Vec<bool>, EngineError> {
        match self.ask(Input::Cancel { token: Token(0), records })? {
            Some(Answer::Cancelled(cancelled)) => {
                let count = cancelled.iter().filter(|one| **one).count();
                self.see_delayed(count, "cancelled");
                Ok(cancelled)
            }
            _ => Err(EngineError::Stopped),
        }
    }

    /// Lets in what is due; when to go on, unless that was all.
    pub(super) fn deliver(&mut self, now: Now) -> Option<MonoMs> {
        if self.journal.admits().is_err() {
            return Some(now.mono.plus(FULL_MS));
        }
        let due = self.machine.store().due(&delayed(), now.wall, PAGE);
        for id in &due {
            if let Err(error) = self.enter(*id, now) {
                tracing::error!(%error, entry = %id, "a delayed record could not enter its topic");
                return Some(now.mono.plus(FULL_MS)).filter(|_| self.ahead.is_none());
            }
        }
        (due.len() == PAGE).then_some(now.mono)
    }

    fn enter(&mut self, id: EntryId, now: Now) -> Result<(), EngineError> {
        self.usable()?;
        let entry = self.machine.store().get(id).filter(|entry| entry.group.as_str() == DELAYED);
        let Some(origin) = entry.and_then(|entry| entry.origin) else { return Ok(()) };
        let record = payload_of(self.machine.store(), &self.journal, &self.unwritten, id)?;
        let record = RawRecord::parse(&record)?;
        let stream = self.destinations.find(&origin);
        let arrival = stream.map(|stream| {
            // Kept for as long as one that is produced now, whatever its own clock says.
            let max_timestamp_ms = record.timestamp_ms.max(now.wall.0);
            let append = StreamAppend { stream, records: 1, max_timestamp_ms };
            NewEntry::batch(kind::DELIVERED, append, Bytes::new(), build_batch(0, &record, &[]))
        });
        let arrived = arrival.is_some();
        let (_, facts) = self.handle(Input::Delivered { id, arrived });
        match self.append(&facts, &[], arrival.into_iter().collect()) {
            Ok(()) => {}
            // The topic went in this very moment.
            Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                self.persist(&facts, &[], Vec::new())?;
            }
            Err(error) => {
                self.ahead = Some(error.to_string());
                return Err(error);
            }
        }
        if !arrived {
            tracing::warn!(record = %origin, "a delayed record was dropped: its topic is gone");
        }
        self.see_delayed(1, if arrived { "delivered" } else { "dropped" });
        Ok(())
    }

    /// The log's entries for these facts.
    fn entries(&self, facts: &[Fact], records: &[Bytes]) -> Result<Vec<NewEntry>, EngineError> {
        facts.iter().map(|fact| self.entry_of(fact, records)).collect()
    }

    pub(super) fn see_delayed(&self, count: usize, outcome: &str) {
        let waiting = self.machine.counts(&delayed()).of(crate::retry::StateKind::Waiting);
        self.metrics.records_delayed(outcome, count, waiting);
    }
}
