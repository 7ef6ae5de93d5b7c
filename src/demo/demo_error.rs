//! The errors that end the demo early.

use crate::config::ConfigError;
use crate::server::StartError;
use crate::wire::{BrokerAnswerError, EncodeError};

/// The reason the demo ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The sidecar has no configuration: the demo's own text is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sidecar does not start.
    #[error(transparent)]
    Server(#[from] StartError),
    /// A socket or the temporary directory failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A request cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An answer cannot be decoded.
    #[error(transparent)]
    Answer(#[from] BrokerAnswerError),
    /// The answer is larger than any answer of the demo can be.
    #[error("the sidecar announced an answer above 4 MiB")]
    AnswerTooLarge,
    /// The sidecar refused a request.
    #[error("the sidecar refused {api} with error code {code}")]
    Refused {
        /// Name of the request.
        api: &'static str,
        /// Kafka's error code.
        code: i16,
    },
    /// An answer breaks the protocol.
    #[error("the sidecar sent {0}")]
    Unexpected(&'static str),
    /// A part of the application ended by a panic.
    #[error("the application ended early: {0}")]
    Ended(#[from] tokio::task::JoinError),
    /// An application on another client failed.
    #[error("the application failed: {0}")]
    Application(String),
}
