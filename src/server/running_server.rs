//! A running sidecar: its addresses, a reload, a drain, the stop.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Acceptor, ClientLimits};
use crate::config::{Config, ConfigError, DrainMode, RestartKey};
use crate::engine::Engine;
use crate::journal::Journal;
use crate::operations::Panic;
use crate::route::Router;
use crate::server::credentials::{CredentialChannels, CredentialPart};
use crate::server::limits::{limits, memory};
use crate::server::panic_guard::Guard;

/// Interval at which a drain checks whether the last client has left.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// Time for the last answers and the last checkpoint.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Time for the same on a full disk, where neither can complete.
const NO_ROOM: Duration = Duration::from_secs(1);

/// A running sidecar.
#[derive(Debug)]
pub struct Server {
    pub(super) router: Arc<Router>,
    pub(super) acceptor: Acceptor,
    pub(super) limits: watch::Sender<ClientLimits>,
    pub(super) config: watch::Sender<Config>,
    pub(super) credentials: CredentialChannels,
    pub(super) engine: Engine,
    pub(super) journal: Journal,
    pub(super) stop: watch::Sender<bool>,
    pub(super) draining: watch::Sender<bool>,
    pub(super) tasks: JoinSet<()>,
    pub(super) threads: Vec<ThreadHandle<()>>,
    pub(super) guard: Guard,
    pub(super) listening: Vec<(String, SocketAddr)>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) probes: Option<SocketAddr>,
}

/// The reason why a new configuration is refused; the running one stays in force as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Keys that differ and need a restart.
    #[error("some keys cannot change while running")]
    Keys(Vec<RestartKey>),
    /// A certificate, a key or a users file cannot be used.
    #[error(transparent)]
    Files(#[from] ConfigError),
}

impl Server {
    /// Name and address of each listener, in the order of the configuration.
    pub fn listening(&self) -> &[(String, SocketAddr)] {
        &self.listening
    }

    /// The first listener's address.
    pub fn kafka_addr(&self) -> SocketAddr {
        let none = || SocketAddr::from(([127, 0, 0, 1], 0));
        self.listening.first().map_or_else(none, |(_, address)| *address)
    }

    /// The admin port, unless it is off.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The address with probes and metrics only, unless it is off.
    pub fn probes_addr(&self) -> Option<SocketAddr> {
        self.probes
    }

    /// The node id of the cluster within.
    pub fn node_id(&self) -> i32 {
        crate::route::NODE_ID
    }

    /// The router of requests, for benchmarks that call it in process.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// Applies the keys that can change at run time, and reads certificates, keys and users again.
    pub fn reload(&self, new: Config) -> Result<Vec<String>, ReloadError> {
        let old = self.config.borrow().clone();
        let reload = Config::reload_from(&old, new).map_err(ReloadError::Keys)?;
        // The tokens came with the configuration: their file may be a pipe, which is read once.
        let parts = CredentialPart::all(&reload.config).into_iter();
        let parts = parts.filter(|part| *part != CredentialPart::Tokens);
        self.credentials.renew(&reload.config, parts)?;
        self.credentials.tokens.replace(reload.config.admin.tokens.clone());
        let policies = reload.config.policies();
        *self.router.policies.write().unwrap_or_else(PoisonError::into_inner) = policies.clone();
        self.engine.policies(self.router.clock, policies);
        // A group may have its retry topic again.
        self.router.reopen_retry_topics();
        self.limits.send_replace(limits(&reload.config));
        self.router.budget.resize(memory(&reload.config));
        self.config.send_replace(reload.config);
        Ok(reload.changed)
    }

    /// Completes when a vital thread has panicked. The caller then shuts down: only a restart
    /// helps.
    pub async fn panicked(&self) -> Panic {
        self.guard.vital_panic().await
    }

    /// Completes when the addresses of the upstream have led back to this sidecar. They are
    /// returned.
    pub async fn looped(&self) -> String {
        let Some(upstream) = &self.router.upstream else { return std::future::pending().await };
        upstream.has_looped().await;
        upstream.bootstrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The way a drain treats clients.
    pub fn drain_mode(&self) -> DrainMode {
        self.config.borrow().drain.mode
    }

    /// Waits until the last client has left or `drain.timeout` is over. A sidecar keeps serving its
    /// clients, new connections included; a gateway closes idle connections and refuses new ones.
    pub async fn drain(&self) {
        self.draining.send_replace(true);
        let timeout = self.config.borrow().drain.timeout;
        let left = async {
            while self.acceptor.connections() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        if tokio::time::timeout(timeout, left).await.is_err() {
            let (clients, connections) = (self.acceptor.clients(), self.acceptor.connections());
            tracing::info!(
                clients,
                connections,
                "drain.timeout is over: the clients that are still connected are cut off"
            );
        }
    }

    /// Stops at once: closes every connection, flushes, ends every thread.
    pub fn shutdown(self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.stop())
    }

    async fn stop(mut self) {
        self.stop.send_replace(true);
        let patience = if self.journal.stats().disk_full { NO_ROOM } else { LAST_ANSWERS };
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, ended).await.is_err() {
            tracing::info!("some answers still wait for the disk; they are cut off");
            self.tasks.shutdown().await;
        }
        self.router.close_watches();
        let kept = tokio::time::timeout(patience, self.engine.keep()).await;
        let failed = match kept {
            Ok(kept) => kept.err().map(|error| error.to_string()),
            Err(_) => Some("the disk takes nothing".to_owned()),
        };
        if let Some(error) = failed {
            tracing::info!(%error, "no last checkpoint; the next start reads more of the log");
        }
        self.engine.log_durable_finals();
        self.engine.stop();
        self.journal.close();
        let threads = std::mem::take(&mut self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            // The guard has already reported the panics.
            threads.into_iter().map(ThreadHandle::join).for_each(drop);
        });
        drop(ended.await);
    }
}
