//! Why the local cluster refuses; `route` turns each into one Kafka error code.

use crate::broker::settings::SettingError;
use crate::broker::transactions::TransactionError;
use crate::journal::{AppendError, JournalError, ReadError};

/// One refusal.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No such topic or partition.
    #[error("there is no such topic or partition here")]
    UnknownTopicOrPartition,
    /// No topic has this id.
    #[error("no topic has this id")]
    UnknownTopicId,
    /// The name is taken.
    #[error("topic {0} exists already")]
    TopicExists(String),
    /// A retry or dead-letter topic, which is there without being created.
    #[error(
        "topic {name} exists already: it is the {kind} topic of group {group}, which reprise \
         serves itself; it needs no creating"
    )]
    Served {
        /// Name that the client asked for.
        name: String,
        /// `retry` or `dead-letter`.
        kind: &'static str,
        /// Group that owns the topic.
        group: String,
    },
    /// Not a legal topic name, or one this sidecar keeps for itself.
    #[error("topic name {name:?} is refused: {why}")]
    InvalidTopic {
        /// As asked for.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// One request, two wishes.
    #[error("the request names topic {0} more than once")]
    NamedTwice(String),
    /// Outside 1 to 10 000.
    #[error("{0} partitions: a topic has 1 to 10000")]
    InvalidPartitions(i32),
    /// One node serves everything.
    #[error("replication factor {0}: this cluster has one node; use 1 or -1")]
    InvalidReplicationFactor(i16),
    /// A topic only grows.
    #[error("topic {topic} has {has} partitions already; {asked} would not be an increase")]
    NotAnIncrease {
        /// The topic.
        topic: String,
        /// As it is.
        has: usize,
        /// As asked for.
        asked: i32,
    },
    /// Replicas on nodes that are not there, or not one list of them for each new partition.
    #[error("this cluster has one node: each new partition has that one replica ({0})")]
    InvalidAssignment(String),
    /// What a retry or dead-letter topic does not let be done to it.
    #[error("{name} cannot be changed like this: {why}")]
    Policy {
        /// The topic.
        name: String,
        /// Why not, and where it is set instead.
        why: &'static str,
    },
    /// A topic setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The batch is larger than the topic takes.
    #[error("the batch has {bytes} bytes, the topic takes {max}")]
    MessageTooLarge {
        /// Of the batch.
        bytes: usize,
        /// `max.message.bytes`.
        max: usize,
    },
    /// Before the log start or after its end.
    #[error("the offset is outside the log")]
    OffsetOutOfRange,
    /// A gap in an idempotent producer's sequence numbers, or a batch behind those remembered.
    #[error("the producer's sequence number is out of order")]
    OutOfOrderSequence,
    /// An older incarnation of the producer.
    #[error("a newer epoch of this producer has written already")]
    InvalidProducerEpoch,
    /// Of a transactional producer.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The log takes nothing more.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log failed before the write was durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Bytes could not be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
}
