//! Delayed records: they wait before they enter their topic.
//!
//! **Invariant:** a record begins to wait in the same atomic group as its producer's batch. It
//! enters its topic in the same atomic group as it stops waiting. A crash leaves both or neither.
//!
//! **Invariant:** a record enters the topic it was produced to, never a later topic of the same
//! name.
//!
//! The mover delivers due records, as it releases retries.

mod delivering;
mod listing;
mod stored;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;

use crate::journal::{EntryRef, NewEntry, StreamId};
use crate::model::{EntryId, MonoMs, TopicName};
use crate::retry::DelayEnd;

pub use self::listing::DelayedRecord;
pub use self::taking::DelayedTotals;

/// Makes the entries of the batch's atomic group; `None` if the batch must not be appended.
pub type EntrySource<'a> = &'a mut dyn FnMut() -> Option<Vec<NewEntry>>;

/// Appends a producer's batch and further entries in one atomic group. Returns the places of the
/// further entries; `None` if nothing was appended. Runs on the engine's thread.
///
/// A closure, because the broker assigns offsets under its own lock, in that atomic group.
pub type AppendBatch = Box<dyn FnOnce(EntrySource<'_>) -> Option<Vec<EntryRef>> + Send>;

/// The delayed records of a producer's batch.
pub struct DelayBatch {
    /// Topic that the records enter.
    pub topic: TopicName,
    /// Partition that the records enter.
    pub partition: i32,
    /// The partition's stream in the log.
    pub stream: StreamId,
    /// The time until which each record waits, and its stored form (`wire::batch::RawRecord`).
    pub records: Vec<(DelayEnd, Bytes)>,
    /// Appends the rest of the batch.
    pub append: AppendBatch,
}

/// The driver's state of delayed records, beside their entries.
#[derive(Debug)]
pub(super) struct DelayedState {
    /// Quota of delayed records, in bytes of the log.
    bytes_max: u64,
    /// Records whose topic is deleted.
    leaving: VecDeque<EntryId>,
}

impl DelayedState {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, leaving: VecDeque::new() }
    }

    /// Time of the next work.
    pub(super) fn alarm(&self) -> Option<MonoMs> {
        (!self.leaving.is_empty()).then_some(MonoMs(0))
    }
}
