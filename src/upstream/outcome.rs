//! What an attempt to write into the cluster has come to, and what that means for the next one.

use crate::model::TopicName;
use crate::upstream::{SaslError, UpstreamError};
use crate::wire::ResponseError;

/// Why records are not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No answer, or none that can be read.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The answer is about something else.
    #[error("the broker's answer leaves out what was asked")]
    NoAnswer,
    /// The topic is not there and cannot be made.
    #[error(
        "the cluster has no topic {topic} and does not let this sidecar make it ({says}): create \
         it, or allow the user of upstream.sasl to"
    )]
    NotMade {
        /// Which.
        topic: TopicName,
        /// Why not.
        error: ResponseError,
        /// The broker's own words.
        says: String,
    },
    /// No producer id at the moment.
    #[error("the cluster gives no producer id now: {0}")]
    ProducerId(ResponseError),
    /// The leader of the partition refuses.
    #[error("the cluster does not take records into {topic}: {}", words(*error))]
    Topic {
        /// Which.
        topic: TopicName,
        /// Why.
        error: ResponseError,
    },
}

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another time it may go.
    Later,
    /// Somebody has to allow it first.
    Denied,
    /// The records are not what the topic takes: the same ones will not be another time.
    Refused,
    /// The broker does not know us as the producer we were: a new id is needed.
    Forgotten,
}

impl WriteError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Topic { error, .. } => kind_of(*error),
            Self::NotMade { error, .. } if kind_of(*error) == Kind::Denied => Kind::Denied,
            Self::Upstream(UpstreamError::Sasl { .. }) => Kind::Denied,
            Self::NotMade { .. } | Self::Upstream(_) | Self::NoAnswer | Self::ProducerId(_) => {
                Kind::Later
            }
        }
    }

    /// Nobody was asked: credentials were refused lately, and the reason was said then.
    pub fn is_pause(&self) -> bool {
        let Self::Upstream(UpstreamError::Sasl { cause, .. }) = self else { return false };
        matches!(cause, SaslError::Paused { .. })
    }

    /// One word, for a counter.
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

/// What an error of a broker means for what was to be written.
pub(super) fn kind_of(error: ResponseError) -> Kind {
    match error {
        ResponseError::MessageTooLarge
        | ResponseError::RecordListTooLarge
        | ResponseError::InvalidRecord
        | ResponseError::InvalidTimestamp
        | ResponseError::PolicyViolation => Kind::Refused,
        ResponseError::TopicAuthorizationFailed
        | ResponseError::ClusterAuthorizationFailed
        | ResponseError::TransactionalIdAuthorizationFailed => Kind::Denied,
        ResponseError::OutOfOrderSequenceNumber
        | ResponseError::UnknownProducerId
        | ResponseError::InvalidProducerEpoch
        | ResponseError::InvalidProducerIdMapping
        | ResponseError::ProducerFenced => Kind::Forgotten,
        _ => Kind::Later,
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
    fn only_what_is_wrong_with_the_records_themselves_is_final() {
        use ResponseError as E;
        for error in [E::MessageTooLarge, E::RecordListTooLarge, E::InvalidRecord] {
            assert_eq!(kind_of(error), Kind::Refused, "{error:?}");
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
            assert_eq!(kind_of(error), Kind::Later, "{error:?}");
        }
        assert_eq!(kind_of(E::TopicAuthorizationFailed), Kind::Denied);
        assert_eq!(kind_of(E::OutOfOrderSequenceNumber), Kind::Forgotten);
    }
}
