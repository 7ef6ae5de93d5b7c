//! Composition root: builds every part, starts every long-lived task, and stops them in reverse
//! order.
//!
//! ```text
//! disk ─▶ journal ─▶ replay ─▶ broker, engine ─▶ router ─▶ listeners, admin
//!           writer     each owner from             housekeeping, timers, membership
//!           thread     its own checkpoint
//! ```
//!
//! **Bounds.** Counts and sizes are those of the engine and of the disk. A pause past the end of
//! the clock means never.

mod broker_discovery;
mod core;
mod credential_files;
mod credentials;
mod data_dir;
mod disk_room;
mod empty_groups;
mod housekeeping;
mod housekeeping_rate;
mod letter_topics;
mod limits;
mod panic_guard;
mod probe;
mod process;
mod releases;
mod running_server;
mod start;
mod start_error;
mod threads;
mod topic_trimming;

use std::pin::Pin;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Config;
use crate::journal::Disk;

pub use process::{ConfigLoader, ServeError, serve};
pub use running_server::{ReloadError, Server};
pub use start_error::StartError;

/// A sidecar that starts. The box makes the library compile the future, and not each program that
/// awaits it.
pub type StartingServer = Pin<Box<dyn Future<Output = Result<Server, StartError>> + Send>>;

impl Server {
    /// Builds and starts everything; returns once every listener is open.
    pub fn start(config: Config) -> StartingServer {
        Box::pin(start::start(config))
    }

    /// [`Server::start`] on another disk and another clock, for simulations.
    pub fn start_on(config: Config, disk: Arc<dyn Disk>, clock: Clock) -> StartingServer {
        Box::pin(start::start_on(config, disk, clock))
    }
}
