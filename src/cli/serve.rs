//! `serve`: the flags; the server is built by the composition root.

use std::path::PathBuf;

use clap::Args;

use super::environment;
use crate::config::{Config, ConfigError, Loaded};

/// Flags of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Make this file once every listener is open: one line, the first Kafka address and the admin
    /// address; removed at the end.
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
}

/// Where a configuration comes from.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ConfigSource {
    /// The configuration file; without one the defaults hold (`reprise config sample`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key over file and environment, such as `retry.max_reconsume_times=5`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigSource {
    /// Reads file, environment and flags (anew).
    pub(super) fn load(&self) -> Result<Loaded, ConfigError> {
        Config::load(self.config.as_deref(), &environment(), &self.set)
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        self.config.as_ref().map_or("the defaults".to_owned(), |path| path.display().to_string())
    }
}

impl ServeArgs {
    /// Reads file, environment and flags; once more for each reload.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        self.source.load()
    }
}
