//! Errors of the engine; `route` maps each to one Kafka error code.

use crate::engine::job::JobError;
use crate::journal::{AppendError, EntryReadError, JournalError};
use crate::model::EntryId;
use crate::retry::BadNack;
use crate::wire::batch::RawRecordError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A nack of the batch is invalid, so no nack was taken.
    #[error("{}", bad_nacks(.0))]
    BadNacks(Vec<(usize, BadNack)>),
    /// A batch of nacks may exceed the size of one group of the log.
    #[error(
        "the batch may bring {bytes} bytes into the log, the most is {most}: nacks by reference \
         count with the records they name; send fewer in one batch"
    )]
    BatchTooLarge {
        /// Upper bound of the batch's bytes in the log.
        bytes: u64,
        most: u64,
    },
    /// The batch has an older epoch of the producer.
    #[error("a newer epoch of this producer has written already")]
    InvalidProducerEpoch,
    /// An invalid request of an operator.
    #[error("an action takes at most 1000 entries, and a redrive the record of each")]
    BadAction,
    /// The topic of a send was deleted just now.
    #[error("the topic is gone; the dead letters stay")]
    TopicGone,
    /// A job that cannot start or change.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The log refuses appends.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log failed before the facts were durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Bytes could not be read back.
    #[error(transparent)]
    Read(#[from] EntryReadError),
    /// Stored bytes are no record.
    #[error(transparent)]
    Record(#[from] RawRecordError),
    /// Stored bytes are no delayed record.
    #[error("a stored delayed record is damaged, or written by a later build")]
    DelayedRecord,
    /// The quota of delayed records is used up.
    #[error(
        "{bytes} bytes wait to enter their topics already, {more} more would be beyond \
         topics.produce_delay_max_bytes ({most}); try again later, or raise it"
    )]
    DelayedFull {
        /// Bytes of the delayed records in the log.
        bytes: u64,
        /// Bytes of the refused records.
        more: u64,
        most: u64,
    },
    /// The journal has no bytes for an entry.
    #[error("the bytes of retry entry {0} are not in the journal; run `reprise log verify`")]
    PayloadLost(EntryId),
    /// A decision could not be journalled, so memory is ahead of the log.
    #[error("the retry engine stopped acknowledging: {0}; restart reprise")]
    Ahead(String),
    /// The look-up tables beside the log failed; the log has everything.
    #[error("the retry tables failed: {0}; they are rebuilt from the log, try again")]
    Tables(String),
    /// The disk is full, and so is the memory for changes that wait for it.
    #[error("the disk is full and too many changes of retries wait for it; make room, try again")]
    Crowded,
    /// Too many events wait for the renewal of a store.
    #[error("{0} events wait for the retry tables")]
    Deferred(usize),
    /// The stored names of topics are damaged, or of an unknown version.
    #[error("the names of the last start cannot be read; run `reprise log verify`")]
    Mark,
    /// The engine's thread has ended.
    #[error("the retry engine has stopped; restart reprise, nothing acknowledged is lost")]
    Stopped,
}

impl EngineError {
    /// True when stored bytes are damaged or gone, so that another read cannot succeed.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read(error) => {
                matches!(error, EntryReadError::Corrupt { .. } | EntryReadError::Gone { .. })
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
