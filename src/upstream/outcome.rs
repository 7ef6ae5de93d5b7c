//! Outcomes of a write into the cluster, and what each means for the next attempt.

use crate::model::TopicName;
use crate::upstream::{SaslError, UpstreamError};
use crate::wire::ResponseError;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No answer, or one that cannot be decoded.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The answer lacks the partition that was written.
    #[error("the broker's answer leaves out what was asked")]
    NoAnswer,
    /// The topic does not exist and cannot be created.
    #[error(
        "the cluster has no topic {topic} and does not let this sidecar make it ({says}): create \
         it, or allow the user of upstream.sasl to"
    )]
    NotMade {
        topic: TopicName,
        error: ResponseError,
        /// The broker's error message.
        says: String,
    },
    /// The broker gave no producer id.
    #[error("the cluster gives no producer id now: {0}")]
    ProducerId(ResponseError),
    /// The partition's leader refused the records.
    #[error("the cluster does not take records into {topic}: {}", words(*error))]
    Topic {
        topic: TopicName,
        /// Error code of the Produce answer.
        error: ResponseError,
    },
}

/// Reaction of the writer to a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A later attempt may succeed.
    Later,
    /// An operator has to permit it first.
    Denied,
    /// The topic never accepts these records, so a retry is useless.
    Refused,
    /// The broker does not know the producer id any more: the writer needs a new one.
    Forgotten,
}

impl WriteError {
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Topic { error, .. } => kind_of(*error),
            Self::NotMade { error, .. } if kind_of(*error) == FailureKind::Denied => {
                FailureKind::Denied
            }
            Self::Upstream(UpstreamError::Sasl { .. }) => FailureKind::Denied,
            Self::NotMade { .. } | Self::Upstream(_) | Self::NoAnswer | Self::ProducerId(_) => {
                FailureKind::Later
            }
        }
    }

    /// No request was sent: the broker refused the credentials lately, and that was logged then.
    pub fn is_pause(&self) -> bool {
        let Self::Upstream(UpstreamError::Sasl { cause, .. }) = self else { return false };
        matches!(cause, SaslError::Paused { .. })
    }

    /// The cluster is not ready yet, as after its start or after a topic was made.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Topic { error, .. } | Self::ProducerId(error) => {
                error.is_retriable() && kind_of(*error) == FailureKind::Later
            }
            Self::Upstream(_) | Self::NoAnswer | Self::NotMade { .. } => false,
        }
    }

    /// The value of a metric's label.
    pub fn word(&self) -> String {
        match self {
            Self::Topic { error, .. } | Self::NotMade { error, .. } | Self::ProducerId(error) => {
                format!("{error:?}")
            }
            Self::Upstream(UpstreamError::Sasl { .. }) => "Credentials".to_owned(),
            Self::Upstream(UpstreamError::TooSlow) => "TooSlow".to_owned(),
            Self::Upstream(_) | Self::NoAnswer => "Connection".to_owned(),
        }
    }
}

/// Classifies the error code of a write.
pub(super) fn kind_of(error: ResponseError) -> FailureKind {
    match error {
        ResponseError::MessageTooLarge
        | ResponseError::RecordListTooLarge
        | ResponseError::InvalidRecord
        | ResponseError::InvalidTimestamp
        | ResponseError::PolicyViolation => FailureKind::Refused,
        ResponseError::TopicAuthorizationFailed
        | ResponseError::ClusterAuthorizationFailed
        | ResponseError::TransactionalIdAuthorizationFailed => FailureKind::Denied,
        ResponseError::OutOfOrderSequenceNumber
        | ResponseError::UnknownProducerId
        | ResponseError::InvalidProducerEpoch
        | ResponseError::InvalidProducerIdMapping
        | ResponseError::ProducerFenced => FailureKind::Forgotten,
        _ => FailureKind::Later,
    }
}

fn words(error: ResponseError) -> String {
    let code = format!("{error:?}");
    match error {
        ResponseError::TopicAuthorizationFailed => {
            format!("{code}; allow the user of upstream.sasl to DESCRIBE and WRITE it")
        }
        ResponseError::MessageTooLarge | ResponseError::RecordListTooLarge => {
            format!("{code}; raise max.message.bytes of the topic")
        }
        _ => format!("{code} ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_records_themselves_are_final() {
        use ResponseError as E;
        for error in [E::MessageTooLarge, E::RecordListTooLarge, E::InvalidRecord] {
            assert_eq!(kind_of(error), FailureKind::Refused, "{error:?}");
        }
        for error in [
            E::NotLeaderOrFollower,
            E::UnknownTopicOrPartition,
            E::LeaderNotAvailable,
            E::NotEnoughReplicas,
            E::NotEnoughReplicasAfterAppend,
            E::RequestTimedOut,
            E::CorruptMessage,
            E::KafkaStorageError,
            E::UnknownServerError,
            E::InvalidRequiredAcks,
            E::ThrottlingQuotaExceeded,
        ] {
            assert_eq!(kind_of(error), FailureKind::Later, "{error:?}");
        }
        assert_eq!(kind_of(E::TopicAuthorizationFailed), FailureKind::Denied);
        assert_eq!(kind_of(E::OutOfOrderSequenceNumber), FailureKind::Forgotten);
    }

    #[test]
    fn a_cluster_that_starts_is_asked_again() {
        use ResponseError as E;
        for error in [E::CoordinatorLoadInProgress, E::CoordinatorNotAvailable] {
            assert!(WriteError::ProducerId(error).is_passing(), "{error:?}");
        }
        let topic = |error| WriteError::Topic { topic: "orders".into(), error };
        assert!(topic(E::NotLeaderOrFollower).is_passing());
        assert!(topic(E::LeaderNotAvailable).is_passing());
        assert!(!topic(E::MessageTooLarge).is_passing() && !topic(E::InvalidRecord).is_passing());
    }
}
