//! The parts of the sidecar that answers of the admin port are read from.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::client::Acceptor;
use crate::config::Config;
use crate::journal::Journal;
use crate::route::Router;
use crate::server::panic_guard::Guard;
use crate::server::source::dead_letter_reads::OldestLetters;
use crate::server::source::topic_sends::RecordSender;
use crate::server::source::waiting_counts::WaitingCounts;

/// The source of all answers; `letter_transfer.rs` and `operator_actions.rs` hold the changes.
#[derive(Clone)]
pub(in crate::server) struct AdminSource {
    pub(in crate::server) router: Arc<Router>,
    pub(in crate::server) acceptor: Acceptor,
    pub(in crate::server) journal: Journal,
    pub(in crate::server) config: watch::Receiver<Config>,
    pub(in crate::server) listening: Vec<String>,
    pub(in crate::server) oldest: Arc<OldestLetters>,
    pub(in crate::server) waiting_counts: Arc<WaitingCounts>,
    /// Whether the server was told to drain.
    pub(in crate::server) draining: watch::Receiver<bool>,
    pub(in crate::server) guard: Guard,
    /// Wakes the job runner.
    pub(in crate::server) job_wake: Arc<Notify>,
    pub(in crate::server) sender: Arc<RecordSender>,
}
