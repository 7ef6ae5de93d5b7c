//! What goes wrong between here and a broker.

use std::io;

use crate::socket::{ConnectError, refused_by_peer};
use crate::upstream::sasl::SaslError;
use crate::wire::relay::StartError;
use crate::wire::{AnswerError, EncodeError};

/// Why a broker does not answer. The client's connection is closed: that is what clients know how
/// to retry.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection.
    #[error("the broker at {address} cannot be reached: {cause}")]
    Connect {
        /// Where it should be.
        address: String,
        /// What the system says.
        cause: io::Error,
    },
    /// No TLS: most often a certificate that is not good.
    #[error("no TLS with the broker at {address}: {cause}")]
    Handshake {
        /// Where it is.
        address: String,
        /// What is wrong.
        cause: ConnectError,
    },
    /// It breaks off TLS: our certificate is not good, or missing.
    #[error("the broker ends the connection: {0}")]
    Refused(ConnectError),
    /// It answers in TLS.
    #[error("the broker wants TLS on this port: set upstream.tls, or name its plaintext port")]
    WantsTls,
    /// Our own credentials are not taken.
    #[error("{address} does not let this sidecar in: {cause}")]
    Sasl {
        /// The broker.
        address: String,
        /// Why, and what to do.
        cause: SaslError,
    },
    /// There is nobody to ask.
    #[error("upstream.bootstrap names no broker")]
    NoBootstrap,
    /// The cluster has not told of it.
    #[error("the cluster has named no broker {0}")]
    UnknownNode(i32),
    /// The broker ended the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// A read or write failed.
    #[error("the connection to the broker broke: {0}")]
    Io(#[from] io::Error),
    /// Bytes that are no Kafka answer.
    #[error("the broker's bytes are no Kafka answer: {0}")]
    Start(#[from] StartError),
    /// An answer nobody waits for, or to another request.
    #[error("the broker answered request {found}, which is not the one that was due")]
    NotDue {
        /// The number in the answer.
        found: i32,
    },
    /// A leader is being elected, and nobody is one for longer than is asked.
    #[error("the record's partition has no leader now")]
    NoLeader,
    /// It takes longer than anybody waits.
    #[error("the broker does not answer in time")]
    TooSlow,
    /// An answer that cannot be read.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A request that cannot be written: our own mistake.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl UpstreamError {
    /// A read failed.
    pub(super) fn broken(error: io::Error) -> Self {
        refused_by_peer(&error).map_or_else(|| Self::Io(error), Self::Refused)
    }
}
