//! The acts and lists of an operator, for the admin port: views of broker, engine and journal, and
//! changes of them.
//!
//! **Bounds.** Counts, ages and offsets are those of engine and journal, far from the ends of their
//! types; a time past the calendar means never.

mod actions;
mod explanations;
mod group_members;
mod groups;
mod jobs;
mod letters;
mod records;
mod retries;
mod retry_fingerprints;
mod topic_sends;
mod transfer;

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::api::{
    DrainGroup, DrainView, FsyncTimes, JournalView, LetterSpace, Overview, Readiness, StateCounts,
};
use crate::client::Acceptor;
use crate::config::{Config, DrainMode};
use crate::engine::{AuditRecord, Engine, EngineError, GroupSummary};
use crate::journal::Journal;
use crate::model::GroupId;
use crate::retry::StateKind;
use crate::route::Router;
use crate::upstream::Upstream;
use group_members::states;

pub use actions::{ActionRequest, DueTime, EntryNames, OperatorAction};
pub use jobs::JobRunner;
pub use letters::OldestLetters;
pub use records::{Concealment, RecordDetail, Selected};
pub use retry_fingerprints::WaitingCounts;
pub use topic_sends::RecordSender;
pub use transfer::{
    EntryImportOutcome, ImportReport, ImportedEntry, LetterExport, LetterImport, Portable,
};

/// Groups that a drain lists at once.
const DRAIN_GROUPS_MAX: usize = 1000;
/// Groups whose dead letters the view of the journal lists.
const SPACE_GROUPS_MAX: usize = 200;

/// The component that has the answer does not respond, or has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A thread or task that ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread {thread} ended by a panic: {text}; restart reprise, and report this line")]
pub struct Panic {
    /// The name of the thread or task.
    pub thread: String,
    /// The text of the panic.
    pub text: String,
    /// Whether requests are refused without the thread.
    pub is_vital: bool,
}

/// The parts of the sidecar that the acts and lists need.
#[derive(Clone)]
pub struct Operations {
    pub(crate) router: Arc<Router>,
    pub(crate) acceptor: Acceptor,
    pub(crate) journal: Journal,
    pub(crate) config: watch::Receiver<Config>,
    pub(crate) listening: Vec<String>,
    pub(crate) oldest: Arc<OldestLetters>,
    pub(crate) waiting_counts: Arc<WaitingCounts>,
    /// Whether the server was told to drain.
    pub(crate) draining: watch::Receiver<bool>,
    /// The panic of a thread or task.
    pub(crate) panics: watch::Receiver<Option<Panic>>,
    /// Wakes the job runner.
    pub(crate) job_wake: Arc<Notify>,
    pub(crate) sender: Arc<RecordSender>,
}

impl From<EngineError> for Unavailable {
    fn from(error: EngineError) -> Self {
        Self(error.to_string())
    }
}

/// Dead letters of a group.
fn dead(known: &GroupSummary) -> u64 {
    known.counts.of(StateKind::Dead)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Operations {
    /// Runs a read of the log on a thread that may wait for the disk.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let engine = self.router.engine.clone();
        let read = tokio::task::spawn_blocking(move || read(&engine)).await;
        Ok(read.map_err(|error| Unavailable(error.to_string()))??)
    }

    /// The time by the wall clock, Unix ms.
    pub fn now_ms(&self) -> i64 {
        self.router.clock.now().wall.0
    }

    /// The cluster id of this sidecar. With it, the id of an entry is unique among all sidecars.
    pub fn cluster_id(&self) -> &str {
        self.router.broker.cluster_id()
    }

    /// The configuration in force, secrets masked.
    pub fn config(&self) -> Result<serde_json::Value, Unavailable> {
        let encoded = serde_json::to_value(&*self.config.borrow());
        encoded.map_err(|error| {
            Unavailable(format!("the configuration cannot be encoded as JSON: {error}"))
        })
    }

    /// The totals of the sidecar.
    pub async fn overview(&self) -> Result<Overview, Unavailable> {
        let groups = self.router.engine.groups().await?;
        let delayed = self.router.engine.delayed_totals().await?;
        let states: StateCounts = groups.iter().map(states).sum();
        let local = self.router.broker.topics.list();
        Ok(Overview {
            cluster_id: self.router.broker.cluster_id().to_owned(),
            uptime_ms: self.router.clock.now().mono.0,
            listen: self.listening.clone(),
            connections: number(self.acceptor.connections()),
            topics: number(local.iter().filter(|topic| !topic.dead_letters).count()),
            groups: number(self.group_ids().await?.len()),
            pending: states.pending(),
            states,
            dead_letters: groups.iter().map(dead).sum(),
            delayed: delayed.records,
            delayed_unreadable: delayed.unreadable,
            journal_bytes: self.journal.stats().bytes,
        })
    }

    /// Records of the audit log from a number on, of one group or of all, with their numbers.
    pub async fn audit(
        &self,
        group: Option<&str>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<(i64, AuditRecord)>, Unavailable> {
        let group = group.map(GroupId::new);
        self.read(move |engine| engine.audit(group.as_ref(), from, limit)).await
    }

    /// The number of the next audit record.
    pub fn audit_end(&self) -> i64 {
        self.router.engine.audit_end()
    }

    /// The pending records, and whether the sidecar is draining.
    pub async fn drain(&self) -> Result<DrainView, Unavailable> {
        let known = self.router.engine.groups().await?;
        let delayed = self.router.engine.delayed_totals().await?;
        let groups = known.iter().map(part);
        let groups: Vec<DrainGroup> =
            groups.filter(|group| group.states.pending() > 0 || group.dead_letters > 0).collect();
        let due = groups.iter().filter_map(|group| group.next_due_ms);
        Ok(DrainView {
            draining: *self.draining.borrow(),
            connections: number(self.acceptor.connections()),
            pending: groups.iter().map(|group| group.states.pending()).sum::<u64>()
                + delayed.records,
            delayed: delayed.records,
            delayed_bytes: delayed.bytes,
            dead_letters: groups.iter().map(|group| group.dead_letters).sum(),
            next_due_ms: due.chain(delayed.first_due.map(|due| due.0)).min(),
            more_groups: number(groups.len().saturating_sub(DRAIN_GROUPS_MAX)),
            groups: groups.into_iter().take(DRAIN_GROUPS_MAX).collect(),
        })
    }

    /// The journal and its disk.
    pub async fn journal(&self) -> Result<JournalView, Unavailable> {
        let stats = self.journal.stats();
        let lacking = self
            .journal
            .shortage()
            .map(|short| short.needed_bytes.saturating_sub(short.free_bytes));
        let groups = self.router.engine.groups().await?;
        let mut letters: Vec<LetterSpace> =
            groups.iter().filter_map(|group| self.letter_space(group)).collect();
        letters.sort_by_key(|of| std::cmp::Reverse(of.bytes));
        let more_groups = number(letters.len().saturating_sub(SPACE_GROUPS_MAX));
        letters.truncate(SPACE_GROUPS_MAX);
        let times = self.router.metrics.journal_fsync_times();
        Ok(JournalView {
            bytes: stats.bytes,
            segments: number(stats.segments),
            live_bytes: stats.live_bytes,
            disk_free_bytes: stats.disk_free,
            lacking_bytes: lacking,
            queued_bytes: stats.queued_bytes,
            appended: stats.appended,
            fsyncs: stats.fsyncs,
            fsync_times: times.map(|(mean_s, p99_s)| FsyncTimes {
                mean_ms: mean_s * 1e3,
                p99_ms: p99_s.map(|p99_s| p99_s * 1e3),
            }),
            durable_seq: stats.durable_seq,
            checkpoint_seq: stats.checkpoint_seq,
            compactions: stats.compactions,
            torn_bytes: stats.torn_bytes,
            dead_letters: letters,
            more_groups,
        })
    }

    fn letter_space(&self, known: &GroupSummary) -> Option<LetterSpace> {
        let group = &known.group;
        let bounds = self.router.engine.dead_letter_bounds(group)?;
        Some(LetterSpace {
            group: group.to_string(),
            topic: self.router.names.dead_letter_topic(group).to_string(),
            start: bounds.start,
            end: bounds.next,
            bytes: known.letter_bytes,
            max_bytes: self.policy(group).dead_letters_max_bytes,
        })
    }
    /// Whether the sidecar can do its work; answers at once, whatever is broken.
    pub fn readiness(&self) -> Readiness {
        let Self { router, journal, .. } = self;
        let mut degraded = Vec::new();
        if journal.shortage().is_some() {
            degraded.push(
                "disk full: new records and retries are refused until there is room".to_owned(),
            );
        }
        if router.upstream.as_ref().is_some_and(Upstream::is_lost) {
            degraded.push("upstream lost: no broker of the cluster can be reached".to_owned());
        }
        match router.engine.count_letter_troubles() {
            0 => {}
            groups => degraded.push(format!(
                "dead letters waiting: those of {groups} groups cannot be written to the cluster; \
                 they are kept here, and `reprise group describe` says why"
            )),
        }
        degraded.extend(router.retry_topic_trouble());
        let panic = self.panics.borrow().clone();
        let (vital, task) = panic.into_iter().partition::<Vec<_>, _>(|panic| panic.is_vital);
        let mut restart: Vec<String> = vital.iter().map(ToString::to_string).collect();
        restart.extend(journal.poisoned().map(|why| why.to_string()));
        restart.extend(router.engine.restart_reason());
        // Nacks and commits are refused while the engine has trouble.
        let mut passing: Vec<String> = task.iter().map(ToString::to_string).collect();
        passing.extend(router.engine.trouble().filter(|_| restart.is_empty()));
        // A sidecar still serves its clients while it drains; clients of a gateway go elsewhere.
        let mode = self.config.borrow().drain.mode;
        if mode == DrainMode::Gateway && *self.draining.borrow() {
            passing
                .push("draining: new connections are refused, and clients are moved on".to_owned());
        }
        let ready = restart.is_empty() && passing.is_empty();
        degraded.extend(restart.iter().cloned().chain(passing));
        Readiness { ready, restart_reason: restart.into_iter().next(), degraded }
    }
}

fn part(known: &GroupSummary) -> DrainGroup {
    DrainGroup {
        group: known.group.to_string(),
        states: states(known),
        dead_letters: dead(known),
        next_due_ms: known.first_due.map(|due| due.0),
    }
}
