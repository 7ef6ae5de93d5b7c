//! `reprise serve`: signals, the ready file, the exit code.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock::Clock;
use crate::config::{Config, ConfigError, DrainMode, LoadedConfig};
use crate::journal::OpenError;
use crate::observe::{LogHandle, TraceError, start_log};
use crate::operations::Panic;
use crate::server::start::open_disk;
use crate::server::{ReloadError, Server, StartError};

/// A source of the configuration, read at the start and at each reload.
pub trait ConfigLoader {
    /// Reads file, environment and flags.
    fn load(&self) -> Result<LoadedConfig, ConfigError>;
}

/// The reason why `serve` ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log filter is not valid.
    #[error(transparent)]
    Log(#[from] TraceError),
    /// A part cannot start.
    #[error("reprise cannot start: {0}")]
    Start(#[from] StartError),
    /// The system refuses threads or signals.
    #[error("reprise cannot start: {0}")]
    System(io::Error),
    /// The file of `--ready-file` cannot be written.
    #[error("--ready-file {path}: {cause}")]
    ReadyFile {
        /// The path as given.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// A vital thread panicked.
    #[error(transparent)]
    Panicked(#[from] Panic),
    /// The sidecar is its own upstream.
    #[error(
        "upstream.bootstrap {0} leads back to this sidecar, directly or through another one: name \
         the brokers of the cluster"
    )]
    Looped(String),
}

impl ServeError {
    /// Another process has locked the data directory.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Start(StartError::Journal(OpenError::InUse { .. })))
    }

    /// A vital thread panicked; a restart helps.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// The error is in the configuration.
    pub fn is_config(&self) -> bool {
        let Self::Start(error) = self else {
            return matches!(self, Self::Config(_) | Self::Log(_) | Self::Looped(_));
        };
        matches!(error, StartError::Config(_) | StartError::StartNames(_))
    }
}

/// Runs the sidecar until a signal stops it.
pub fn serve(load: &impl ConfigLoader, ready_file: Option<&Path>) -> Result<(), ServeError> {
    let loaded = load.load()?;
    let clock = Clock::start();
    let elapsed = move || clock.elapsed();
    let log = start_log(loaded.config.log.format, &loaded.config.log.filter, elapsed)?;
    warn(&loaded);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().map_err(ServeError::System)?;
    let ended = runtime.block_on(async {
        // From here on SIGHUP does not end the process: one during the start takes effect after it.
        let hangup = signal(SignalKind::hangup()).map_err(ServeError::System)?;
        let disk = open_disk(&loaded.config)?;
        ready_file.map(ReadyFile::forget).transpose()?;
        let server = Server::start_on(loaded.config, disk, clock).await?;
        run(server, hangup, load, ready_file, &log).await
    });
    runtime.shutdown_background();
    ended
}

async fn run(
    server: Server,
    mut hangup: Signal,
    load: &impl ConfigLoader,
    ready_file: Option<&Path>,
    log: &LogHandle,
) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::System)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::System)?;
    announce(&server);
    let ready = ready_file.map(|path| ReadyFile::make(path, &server)).transpose()?;
    let failed = loop {
        tokio::select! {
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            _ = hangup.recv() => reload(&server, load.load(), log),
            panic = server.panicked() => break Some(panic.into()),
            bootstrap = server.looped() => break Some(ServeError::Looped(bootstrap)),
        }
    };
    drop(ready);
    let failed = match failed {
        // Without the thread commits are refused, so there is no drain.
        Some(failed) => Some(failed),
        None => drain(&server, &mut terminate, &mut interrupt).await.map(ServeError::from),
    };
    server.shutdown().await;
    tracing::info!("stopped");
    failed.map_or(Ok(()), Err)
}

/// Drains: keeps serving clients, and ends early by a second signal or by a panic.
async fn drain(server: &Server, terminate: &mut Signal, interrupt: &mut Signal) -> Option<Panic> {
    let clients = match server.drain_mode() {
        DrainMode::Sidecar => "serving on until the last client has left",
        DrainMode::Gateway => "new connections are refused, and clients are moved on",
    };
    tracing::info!("stopping: {clients}; once more stops at once");
    tokio::select! {
        () = server.drain() => None,
        () = either(terminate, interrupt) => None,
        panic = server.panicked() => Some(panic),
    }
}

fn warn(loaded: &LoadedConfig) {
    for warning in &loaded.warnings {
        tracing::warn!("R0500 configuration: {warning}");
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! {
        _ = a.recv() => {}
        _ = b.recv() => {}
    }
}

/// Logs each address with its purpose.
fn announce(server: &Server) {
    for (name, _) in server.listening() {
        tracing::info!(address = %name, "Kafka clients connect here");
    }
    if let Some(admin) = server.admin_addr() {
        tracing::info!(address = %admin, "page, probes, metrics, JSON: / /readyz /metrics /api/v1");
    }
    if let Some(probes) = server.probes_addr() {
        tracing::info!(address = %probes, "probes and metrics alone: /readyz /livez /metrics");
    }
}

fn reload(server: &Server, loaded: Result<LoadedConfig, ConfigError>, log: &LogHandle) {
    let config: Config = match loaded {
        Ok(loaded) => {
            warn(&loaded);
            loaded.config
        }
        Err(error) => {
            server.router().metrics.set_reload_ok(false);
            tracing::error!(
                %error, "R0505 the new configuration is not valid: the running one stays"
            );
            return;
        }
    };
    let filter = config.log.filter.clone();
    match server.reload(config) {
        Ok(changed) => {
            if let Err(error) = log.set_filter(&filter) {
                tracing::error!(%error, "R0505 the log filter cannot change: the old one stays");
            }
            server.router().metrics.set_reload_ok(true);
            tracing::info!(?changed, "configuration reloaded");
        }
        Err(ReloadError::Files(error)) => {
            server.router().metrics.set_reload_ok(false);
            tracing::error!(
                %error, "R0505 a file cannot be used: the old files and configuration stay"
            );
        }
        Err(ReloadError::Keys(keys)) => {
            server.router().metrics.set_reload_ok(false);
            for key in keys {
                let key = key.0;
                tracing::error!(
                    %key,
                    "R0505 a key cannot change without a restart: the old configuration stays"
                );
            }
        }
    }
}

/// A file that exists while the sidecar serves.
struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes the file of an earlier process that was killed.
    fn forget(path: &Path) -> Result<(), ServeError> {
        match fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(ServeError::ReadyFile { path: path.to_owned(), cause })
            }
            _ => Ok(()),
        }
    }

    /// Writes one line, the first Kafka address and then the admin address. The file appears at
    /// once with all its content.
    fn make(path: &Path, server: &Server) -> Result<Self, ServeError> {
        let failed = |cause| ServeError::ReadyFile { path: path.to_owned(), cause };
        let admin = server.admin_addr().map_or_else(String::new, |admin| admin.to_string());
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, format!("{} {admin}\n", server.kafka_addr())).map_err(failed)?;
        fs::rename(&unfinished, path).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, "the ready file is gone already");
        }
    }
}
