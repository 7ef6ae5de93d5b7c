//! What goes wrong between here and a broker.

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
        cause: std::io::Error,
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
    Io(#[from] std::io::Error),
    /// Bytes that are no Kafka answer.
    #[error("the broker's bytes are no Kafka answer: {0}")]
    Start(#[from] StartError),
    /// An answer nobody waits for, or to another request.
    #[error("the broker answered request {found}, which is not the one that was due")]
    NotDue {
        /// The number in the answer.
        found: i32,
    },
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
