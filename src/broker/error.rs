//! Errors of the local cluster; `route` turns each into one Kafka error code.

use crate::broker::settings::SettingError;
use crate::broker::transactions::TransactionError;
use crate::journal::{AppendError, EntryReadError, JournalError};

#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No such topic or partition.
    #[error("there is no such topic or partition here")]
    UnknownTopicOrPartition,
    /// No topic has this id.
    #[error("no topic has this id")]
    UnknownTopicId,
    #[error("topic {0} exists already")]
    TopicExists(String),
    /// The name of a dead-letter topic, which exists without CreateTopics.
    #[error(
        "topic {name} exists already: it is the dead-letter topic of group {group}, which reprise \
         serves itself; it needs no creating"
    )]
    Served {
        /// Name that the client asked for.
        name: String,
        /// Group that owns the topic.
        group: String,
    },
    /// Not a legal topic name, or a name that is reserved for this sidecar.
    #[error("topic name {name:?} is refused: {why}")]
    InvalidTopic {
        /// Name in the request.
        name: String,
        /// The rule that the name breaks.
        why: &'static str,
    },
    /// One request names a topic twice.
    #[error("the request names topic {0} more than once")]
    NamedTwice(String),
    /// Outside 1 to 10 000.
    #[error("{0} partitions: a topic has 1 to 10000")]
    InvalidPartitions(i32),
    /// The cluster has one node.
    #[error("replication factor {0}: this cluster has one node; use 1 or -1")]
    InvalidReplicationFactor(i16),
    /// `CreatePartitions` may only add partitions.
    #[error("topic {topic} has {has} partitions already; {asked} would not be an increase")]
    NotAnIncrease {
        topic: String,
        /// The current number of partitions.
        has: usize,
        /// The requested number of partitions.
        asked: i32,
    },
    /// Replicas on nodes that do not exist, or not exactly one replica list for each new partition.
    #[error("this cluster has one node: each new partition has that one replica ({0})")]
    InvalidAssignment(String),
    /// A change that a retry or dead-letter topic does not allow.
    #[error("{name} cannot be changed like this: {why}")]
    Policy {
        name: String,
        /// The reason, and the setting to use instead.
        why: &'static str,
    },
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The batch is larger than the topic takes.
    #[error("the batch has {bytes} bytes, the topic takes {max}")]
    MessageTooLarge {
        bytes: usize,
        /// The topic setting `max.message.bytes`.
        max: usize,
    },
    /// The offset is below the log start or above the log end.
    #[error("the offset is outside the log")]
    OffsetOutOfRange,
    /// A gap in an idempotent producer's sequence numbers, or a batch older than the remembered
    /// ones.
    #[error("the producer's sequence number is out of order")]
    OutOfOrderSequence,
    /// An older incarnation of the producer.
    #[error("a newer epoch of this producer has written already")]
    InvalidProducerEpoch,
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The journal refused the append.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log failed before the write was durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Read(#[from] EntryReadError),
}
