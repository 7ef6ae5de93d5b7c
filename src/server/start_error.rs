//! The reason why the sidecar cannot start.

use crate::broker::error::BrokerError;
use crate::client::BindError;
use crate::config::ConfigError;
use crate::engine::StartNamesError;
use crate::journal::{EntryReadError, OpenError, TablesError};
use crate::observe::MetricsError;
use crate::server::data_dir::EphemeralError;
use crate::wire::names::TemplateError;

/// The reason why the sidecar cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory or its journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] OpenError),
    /// The lookup tables beside the journal cannot be opened.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The journal cannot be replayed.
    #[error("the journal cannot be read back: {0}; `reprise log verify` shows where")]
    Replay(#[from] EntryReadError),
    /// A listener cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The admin port or the probe port cannot be opened.
    #[error("cannot listen on {address} for {key}: {cause}; choose another {key}")]
    Admin {
        /// The key of the configuration.
        key: &'static str,
        /// The address as configured.
        address: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The names of retry and dead-letter topics are not valid.
    #[error(transparent)]
    Names(#[from] TemplateError),
    /// The metrics registry cannot be built.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The data directory does not outlive the machine or pod.
    #[error(transparent)]
    Ephemeral(#[from] EphemeralError),
    /// The first writes of the broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// Retries or dead letters lie under other names of topics.
    #[error(transparent)]
    StartNames(#[from] StartNamesError),
    /// No thread can be started.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
    /// A setting whose fault shows only at the start, such as a file that is missing.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
