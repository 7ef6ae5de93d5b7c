//! Why the engine refuses; `route` turns each into one Kafka error code.

use crate::engine::job::JobError;
use crate::journal::{AppendError, JournalError, ReadError};
use crate::model::EntryId;
use crate::retry::BadNack;
use crate::wire::batch::RawRecordError;

/// One refusal.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing of the batch was taken.
    #[error("{}", bad_nacks(.0))]
    BadNacks(Vec<(usize, BadNack)>),
    /// What a batch of nacks may bring into the log is more than one group of it holds.
    #[error(
        "the batch may bring {bytes} bytes into the log, the most is {most}: nacks by reference \
         count with the records they name; send fewer in one batch"
    )]
    BatchTooLarge {
        /// Bytes it may bring.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// A gap in an idempotent producer's sequence numbers, or a batch behind those remembered.
    #[error("the producer's sequence number is out of order")]
    OutOfOrderSequence,
    /// An older incarnation of the producer.
    #[error("a newer epoch of this producer has written already")]
    InvalidProducerEpoch,
    /// The commit lies beyond the last hand-out of its slot.
    #[error("the committed offset lies beyond the last record handed out")]
    CommitBeyondHandOut,
    /// All 65 536 slots of the group are held.
    #[error("the group has no free lane slot; more than 65536 members")]
    NoSlot,
    /// A request of an operator that cannot be right.
    #[error("an action takes at most 1000 entries, and a redrive the record of each")]
    BadAction,
    /// The topic of a send went in this very moment.
    #[error("the topic is gone; the dead letters stay")]
    TopicGone,
    /// A job that cannot start or change.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The log takes nothing more.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log failed before the facts were durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Bytes could not be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Stored bytes are no record.
    #[error(transparent)]
    Record(#[from] RawRecordError),
    /// Stored bytes are no record that waits before it enters its topic.
    #[error("a stored delayed record is damaged, or written by a later build")]
    DelayedRecord,
    /// No more may wait before it enters its topic.
    #[error(
        "{bytes} bytes wait to enter their topics already, {more} more would be beyond \
         topics.produce_delay_max_bytes ({most}); try again later, or raise it"
    )]
    DelayedFull {
        /// What waits.
        bytes: u64,
        /// What was to wait besides.
        more: u64,
        /// The most.
        most: u64,
    },
    /// The journal holds no bytes for an entry.
    #[error("the bytes of retry entry {0} are not in the journal; run `reprise log verify`")]
    PayloadLost(EntryId),
    /// A decision could not be journalled; what is in memory is ahead of the log.
    #[error("the retry engine stopped acknowledging: {0}; restart reprise")]
    Ahead(String),
    /// The look-up tables beside the log failed; the log itself has everything.
    #[error("the retry tables failed: {0}; they are rebuilt from the log, try again")]
    Tables(String),
    /// The disk is full, and so is the memory for changes that wait for it.
    #[error("the disk is full and too many changes of retries wait for it; make room, try again")]
    Crowded,
    /// Too many events wait for a store that does not come back.
    #[error("{0} events wait for the retry tables")]
    Deferred(usize),
    /// How far dead letters have gone to the cluster is written in a way no build has.
    #[error("the mark of forwarded dead letters cannot be read; run `reprise log verify`")]
    Mark,
    /// The engine's thread has ended.
    #[error("the retry engine has stopped; restart reprise, nothing acknowledged is lost")]
    Stopped,
}

impl EngineError {
    /// Whether bytes that were read are not what was written, or are gone: to read them another
    /// time tells no more.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read(error) => {
                matches!(error, ReadError::Corrupt { .. } | ReadError::Gone { .. })
            }
            Self::Record(_) | Self::PayloadLost(_) => true,
            _ => false,
        }
    }
}

fn bad_nacks(bad: &[(usize, BadNack)]) -> String {
    let first = bad.first().map(|(index, why)| format!("record {index}: {why}"));
    format!("nothing of the batch was taken; {}", first.unwrap_or_default())
}
