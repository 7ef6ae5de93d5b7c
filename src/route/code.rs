//! Kafka error codes for errors: one exhaustive match for each kind of error.

use crate::broker::error::BrokerError;
use crate::broker::transactions::TransactionError;
use crate::engine::EngineError;
use crate::group::GroupError;
use crate::journal::{AppendError, JournalError};
use crate::wire::ResponseError;

/// Kafka's own name of an error, such as `OFFSET_OUT_OF_RANGE`.
pub fn name(error: ResponseError) -> String {
    let camel = format!("{error:?}");
    let mut name = String::with_capacity(camel.len() + 8);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

pub fn of_broker(error: &BrokerError) -> ResponseError {
    match error {
        BrokerError::UnknownTopicOrPartition => ResponseError::UnknownTopicOrPartition,
        BrokerError::UnknownTopicId => ResponseError::UnknownTopicId,
        BrokerError::TopicExists(_) | BrokerError::Served { .. } => {
            ResponseError::TopicAlreadyExists
        }
        BrokerError::InvalidTopic { .. } => ResponseError::InvalidTopicException,
        BrokerError::InvalidPartitions(_) | BrokerError::NotAnIncrease { .. } => {
            ResponseError::InvalidPartitions
        }
        BrokerError::NamedTwice(_) => ResponseError::InvalidRequest,
        BrokerError::InvalidAssignment(_) => ResponseError::InvalidReplicaAssignment,
        BrokerError::Policy { .. } => ResponseError::PolicyViolation,
        BrokerError::InvalidReplicationFactor(_) => ResponseError::InvalidReplicationFactor,
        BrokerError::Setting(_) => ResponseError::InvalidConfig,
        BrokerError::MessageTooLarge { .. } => ResponseError::MessageTooLarge,
        BrokerError::OffsetOutOfRange => ResponseError::OffsetOutOfRange,
        BrokerError::OutOfOrderSequence => ResponseError::OutOfOrderSequenceNumber,
        BrokerError::InvalidProducerEpoch => ResponseError::InvalidProducerEpoch,
        BrokerError::Transaction(error) => of_transaction(*error),
        BrokerError::Append(error) => of_append(error),
        BrokerError::Journal(error) => of_journal(error),
        BrokerError::Read(_) => ResponseError::KafkaStorageError,
    }
}

/// Errors of a transactional producer, for Produce and for clients before KIP-588.
pub fn of_transaction(error: TransactionError) -> ResponseError {
    match error {
        TransactionError::UnknownProducer => ResponseError::InvalidProducerIdMapping,
        TransactionError::Fenced => ResponseError::InvalidProducerEpoch,
        TransactionError::InvalidState => ResponseError::InvalidTxnState,
        TransactionError::InvalidTimeout => ResponseError::InvalidTransactionTimeout,
        TransactionError::InvalidId => ResponseError::InvalidRequest,
        TransactionError::TooMany => ResponseError::CoordinatorNotAvailable,
    }
}

/// Errors of the transaction coordinator. `tells_fenced`: the client knows `PRODUCER_FENCED`
/// (KIP-588).
pub fn of_coordinator(error: &BrokerError, tells_fenced: bool) -> ResponseError {
    match error {
        BrokerError::Transaction(TransactionError::Fenced) if tells_fenced => {
            ResponseError::ProducerFenced
        }
        BrokerError::Transaction(error) => of_transaction(*error),
        // Nothing was changed: the client tries again.
        _ => ResponseError::CoordinatorNotAvailable,
    }
}

/// Errors of the retry engine, for Produce and Fetch.
pub fn of_engine(error: &EngineError) -> ResponseError {
    match error {
        EngineError::BadNacks(_)
        | EngineError::BadAction
        | EngineError::TopicGone
        | EngineError::Job(_) => ResponseError::InvalidRecord,
        // Java producers split a batch that is refused with this error and send it again.
        EngineError::BatchTooLarge { .. } => ResponseError::MessageTooLarge,
        EngineError::InvalidProducerEpoch => ResponseError::InvalidProducerEpoch,
        EngineError::Append(error) => of_append(error),
        EngineError::Journal(error) => of_journal(error),
        // `KAFKA_STORAGE_ERROR` is the one storage error that every client retries.
        EngineError::DelayedFull { .. }
        | EngineError::Read(_)
        | EngineError::Record(_)
        | EngineError::DelayedRecord
        | EngineError::PayloadLost(_)
        | EngineError::Ahead(_)
        | EngineError::Tables(_)
        | EngineError::Crowded
        | EngineError::Deferred(_)
        | EngineError::Mark
        | EngineError::Stopped => ResponseError::KafkaStorageError,
    }
}

/// Errors of the retry engine, for OffsetCommit and group requests: the client tries again.
pub fn of_commit(error: &EngineError) -> ResponseError {
    match error {
        EngineError::BadNacks(_)
        | EngineError::BadAction
        | EngineError::TopicGone
        | EngineError::Job(_)
        | EngineError::BatchTooLarge { .. }
        | EngineError::InvalidProducerEpoch
        | EngineError::Append(_)
        | EngineError::Journal(_)
        | EngineError::DelayedFull { .. }
        | EngineError::Read(_)
        | EngineError::Record(_)
        | EngineError::DelayedRecord
        | EngineError::PayloadLost(_)
        | EngineError::Ahead(_)
        | EngineError::Tables(_)
        | EngineError::Crowded
        | EngineError::Deferred(_)
        | EngineError::Mark
        | EngineError::Stopped => ResponseError::CoordinatorNotAvailable,
    }
}

pub fn of_group(error: GroupError) -> ResponseError {
    match error {
        GroupError::CoordinatorNotAvailable => ResponseError::CoordinatorNotAvailable,
        GroupError::InvalidGroupId => ResponseError::InvalidGroupId,
        GroupError::InvalidSessionTimeout => ResponseError::InvalidSessionTimeout,
        GroupError::InconsistentGroupProtocol => ResponseError::InconsistentGroupProtocol,
        GroupError::UnknownMemberId => ResponseError::UnknownMemberId,
        GroupError::MemberIdRequired => ResponseError::MemberIdRequired,
        GroupError::IllegalGeneration => ResponseError::IllegalGeneration,
        GroupError::RebalanceInProgress => ResponseError::RebalanceInProgress,
        GroupError::FencedInstanceId => ResponseError::FencedInstanceId,
        GroupError::GroupMaxSizeReached => ResponseError::GroupMaxSizeReached,
        GroupError::NonEmptyGroup => ResponseError::NonEmptyGroup,
        GroupError::GroupIdNotFound => ResponseError::GroupIdNotFound,
        GroupError::InvalidRequest(_) => ResponseError::InvalidRequest,
        GroupError::FencedMemberEpoch => ResponseError::FencedMemberEpoch,
        GroupError::UnsupportedVersion => ResponseError::UnsupportedVersion,
        GroupError::StaleMemberEpoch => ResponseError::StaleMemberEpoch,
        GroupError::UnreleasedInstanceId => ResponseError::UnreleasedInstanceId,
        GroupError::UnsupportedAssignor => ResponseError::UnsupportedAssignor,
        GroupError::InvalidRegularExpression => ResponseError::InvalidRegularExpression,
    }
}

fn of_append(error: &AppendError) -> ResponseError {
    match error {
        AppendError::TooLarge { .. } => ResponseError::MessageTooLarge,
        AppendError::UnknownStream { .. } => ResponseError::UnknownTopicOrPartition,
        AppendError::DiskFull { .. }
        | AppendError::Poisoned(_)
        | AppendError::Overloaded { .. }
        | AppendError::Unencodable(_)
        | AppendError::Empty
        | AppendError::Reserved { .. }
        | AppendError::Closed => ResponseError::KafkaStorageError,
    }
}

fn of_journal(error: &JournalError) -> ResponseError {
    match error {
        JournalError::Append(error) => of_append(error),
        JournalError::Poisoned(_)
        | JournalError::Closed
        | JournalError::Tables(_)
        | JournalError::Read(_) => ResponseError::KafkaStorageError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_kafkas_names() {
        assert_eq!(name(ResponseError::OffsetOutOfRange), "OFFSET_OUT_OF_RANGE");
        assert_eq!(name(ResponseError::KafkaStorageError), "KAFKA_STORAGE_ERROR");
    }
}
