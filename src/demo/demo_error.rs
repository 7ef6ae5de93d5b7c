//! The errors that end the demo early.

use crate::config::ConfigError;
use crate::observe::MetricsError;
use crate::server::StartError;
use crate::upstream::{UpstreamError, WriteError};

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
    /// The sidecar does not answer.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The sidecar does not take a record.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The metrics of a client cannot be registered.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
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
