//! Errors between the sidecar and a broker.

use std::io;

use crate::socket::{ConnectError, refused_by_peer};
use crate::upstream::sasl::SaslError;
use crate::wire::relay::FrameStartError;
use crate::wire::{BrokerAnswerError, EncodeError};

/// Reason why a broker does not answer. The sidecar then closes the client's connection, because
/// every client retries after that.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("the broker at {address} cannot be reached: {cause}")]
    Connect {
        /// Host and port that the sidecar dialled.
        address: String,
        cause: io::Error,
    },
    /// The TLS handshake failed; most often a certificate is not valid.
    #[error("no TLS with the broker at {address}: {cause}")]
    Handshake {
        /// Host and port that the sidecar dialled.
        address: String,
        cause: ConnectError,
    },
    /// The broker ended TLS: the sidecar's certificate is missing or not valid.
    #[error("the broker ends the connection: {0}")]
    Refused(ConnectError),
    /// The broker answers in TLS and the sidecar speaks plain text.
    #[error("the broker wants TLS on this port: set upstream.tls, or name its plaintext port")]
    WantsTls,
    /// The broker refused the sidecar's own credentials.
    #[error("{address} does not let this sidecar in: {cause}")]
    Sasl {
        address: String,
        /// The reason, and what the operator does about it.
        cause: SaslError,
    },
    #[error("upstream.bootstrap names no broker")]
    NoBootstrap,
    /// No Metadata answer has named this broker id.
    #[error("the cluster has named no broker {0}")]
    UnknownNode(i32),
    /// The broker ended the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// A read or write failed.
    #[error("the connection to the broker broke: {0}")]
    Io(#[from] io::Error),
    /// The bytes are no Kafka answer.
    #[error("the broker's bytes are no Kafka answer: {0}")]
    Start(#[from] FrameStartError),
    /// The answer belongs to no outstanding request, or to one sent later.
    #[error("the broker answered request {found}, which is not the one that was due")]
    NotDue {
        /// Correlation id of the answer.
        found: i32,
    },
    /// The partition still has no leader after every attempt, as during an election.
    #[error("the record's partition has no leader now")]
    NoLeader,
    /// The answer did not come before the sidecar's timeout.
    #[error("the broker does not answer in time")]
    TooSlow,
    /// The answer cannot be decoded.
    #[error(transparent)]
    Answer(#[from] BrokerAnswerError),
    /// The request cannot be encoded: a defect of the sidecar.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl UpstreamError {
    /// The cluster is not ready yet: a later attempt may succeed.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::TooSlow | Self::NoLeader | Self::UnknownNode(_))
    }

    /// Maps a failed read; the broker's TLS alert becomes [`UpstreamError::Refused`].
    pub(super) fn broken(error: io::Error) -> Self {
        refused_by_peer(&error).map_or_else(|| Self::Io(error), Self::Refused)
    }
}
