//! Records that wait before they enter their topic.
//!
//! **Invariant:** a record begins to wait in the same atomic group as its producer's batch, and
//! enters its topic in the same atomic group as it stops waiting: a crash leaves both or neither.
//!
//! **Invariant:** it enters the topic it was produced to, and no other one by the same name.
//!
//! What is due is let in by slices, and whoever has asked something meanwhile comes first. A
//! record that cannot be read is set aside and keeps nobody from entering.

mod backlog;
mod delivering;
mod stored;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::command::TakenEntry;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::journal::{EntryRef, NewEntry, StreamId};
use crate::model::{EntryId, MonoMs, Origin, TopicName, WallMs};
use crate::retry::{Entry, delayed};
use crate::wire::batch::RawRecord;

use self::backlog::Backlog;
use self::stored::Stored;

/// Makes the entries that must not be parted from a batch; `None`: the batch must not be appended.
pub type More<'a> = &'a mut dyn FnMut() -> Option<Vec<NewEntry>>;

/// Appends a producer's batch, with more in one atomic group, and tells where that lies; `None`:
/// nothing was appended. Runs on the engine's thread.
pub type AppendBatch = Box<dyn FnOnce(More<'_>) -> Option<Vec<EntryRef>> + Send>;

/// Where the log keeps a partition; `None`: there is no such partition.
type Find = dyn Fn(&TopicName, i32) -> Option<StreamId> + Send + Sync;

/// Where records go that have waited, and how much may wait.
#[derive(Clone)]
pub struct Destinations {
    find: Option<Arc<Find>>,
    bytes_max: u64,
}

/// What a producer's batch holds that is to wait.
pub struct DelayBatch {
    /// Where it is to enter.
    pub topic: TopicName,
    /// The same.
    pub partition: i32,
    /// Where the log keeps that.
    pub stream: StreamId,
    /// Until when, and the record's stored form (`wire::batch::RawRecord`).
    pub records: Vec<(crate::retry::Until, Bytes)>,
    /// The rest of the batch.
    pub append: AppendBatch,
}

/// One record that waits.
#[derive(Debug)]
pub struct DelayedRecord {
    /// What is known of it.
    pub entry: Entry,
    /// The record, or why it cannot be read.
    pub record: Result<RawRecord, EngineError>,
    /// Its bytes in the log.
    pub bytes: u64,
}

/// All that waits, in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayedTotals {
    /// Records.
    pub records: u64,
    /// What they take in the log; for a moment after a start less.
    pub bytes: u64,
    /// Those of them that are due and cannot be read.
    pub unreadable: u64,
    /// When the next one is due; `None`: none waits.
    pub first_due: Option<WallMs>,
}

/// Asks for the totals of delayed records.
pub(super) struct CountDelayed;

/// Delayed records that are not to enter their topics. The answer tells which of them waited.
pub(super) struct Cancel(Vec<Origin>);

/// What the driver knows of what waits beside its entries.
#[derive(Debug)]
pub(super) struct PutOff {
    /// When what is due is let in; `None`: nothing is.
    pub(super) at: Option<MonoMs>,
    destinations: Destinations,
    backlog: Backlog,
    /// Due and not readable, and when each is looked at again: a disk may have failed for a moment.
    unreadable: BTreeMap<EntryId, MonoMs>,
    /// What was to enter a topic that is gone.
    leaving: VecDeque<EntryId>,
}

impl PutOff {
    /// At a start; `next`: the number of the next entry.
    pub(super) fn new(destinations: Destinations, next: EntryId) -> Self {
        Self {
            at: None,
            destinations,
            backlog: Backlog::before(next),
            unreadable: BTreeMap::new(),
            leaving: VecDeque::new(),
        }
    }

    /// After a renewal of the store; `next`: the number of the next entry.
    pub(super) fn renew(&mut self, next: EntryId) {
        let leaving = std::mem::take(&mut self.leaving);
        *self = Self { leaving, ..Self::new(self.destinations.clone(), next) };
    }

    /// When there is something to do.
    pub(super) fn alarm(&self) -> Option<MonoMs> {
        let at_once = self.backlog.is_counting() || !self.leaving.is_empty();
        self.at.into_iter().chain(at_once.then_some(MonoMs(0))).min()
    }
}

impl Default for Destinations {
    fn default() -> Self {
        Self { find: None, bytes_max: u64::MAX }
    }
}

impl Destinations {
    /// As this says.
    pub fn new(find: impl Fn(&TopicName, i32) -> Option<StreamId> + Send + Sync + 'static) -> Self {
        Self { find: Some(Arc::new(find)), ..Self::default() }
    }

    /// What waits may take so many bytes in the log.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    fn find(&self, origin: &Origin) -> Option<StreamId> {
        self.find.as_ref().and_then(|find| find(&origin.topic, origin.partition))
    }
}

impl std::fmt::Debug for Destinations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destinations").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

impl Engine {
    /// Takes a batch of which some records may have to wait, behind all that was asked before. What
    /// waits is durable on return.
    pub fn delay(
        &self,
        batch: DelayBatch,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        let delayed = self.call(batch);
        async { delayed.await.map(|_| ()) }
    }

    /// What waits to enter its topic, by number, with its record: at most `limit`, and no more than
    /// one beyond `bytes_max`.
    pub async fn delayed(
        &self,
        after: Option<EntryId>,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Vec<DelayedRecord>, EngineError> {
        let (located, _) = self.located(&delayed(), after, limit).await?;
        let (mut found, mut sum) = (Vec::new(), 0_u64);
        for TakenEntry { entry, payload, .. } in located {
            let bytes = payload.map_or(0, |at| u64::from(at.len));
            sum = sum.saturating_add(bytes);
            if sum > bytes_max && !found.is_empty() {
                break;
            }
            let read = payload.ok_or(EngineError::PayloadLost(entry.id)).and_then(|at| {
                let stored = self.journal.read(at)?;
                Ok(Stored::read(stored.kind, &stored.body)?.record)
            });
            found.push(DelayedRecord { entry, record: read, bytes });
        }
        Ok(found)
    }

    /// All that waits, in figures.
    pub async fn delayed_totals(&self) -> Result<DelayedTotals, EngineError> {
        Ok(self.call_at_once(CountDelayed).await?.0)
    }

    /// Ends the waiting of these; which of them were waiting. Durable on return.
    pub async fn cancel(&self, records: Vec<Origin>) -> Result<Vec<bool>, EngineError> {
        self.call(Cancel(records)).await
    }
}
