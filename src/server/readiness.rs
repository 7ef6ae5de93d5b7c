//! The answer of `/readyz`: whether clients are served, and which functions are limited.

use crate::admin::Readiness;
use crate::config::DrainMode;
use crate::server::disk_room::is_full;
use crate::server::source::AdminSource;
use crate::upstream::Upstream;

/// The present readiness.
pub(super) fn readiness(source: &AdminSource) -> Readiness {
    let AdminSource { router, journal, .. } = source;
    let mut degraded = Vec::new();
    if is_full(journal) {
        degraded
            .push("disk full: new records and retries are refused until there is room".to_owned());
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
    let panic = source.guard.panic();
    let (vital, task) = panic.into_iter().partition::<Vec<_>, _>(|panic| panic.is_vital);
    let mut restart: Vec<String> = vital.iter().map(ToString::to_string).collect();
    restart.extend(journal.poisoned().map(|why| why.to_string()));
    restart.extend(router.engine.restart_reason());
    // Nacks and commits are refused while the engine has trouble.
    let mut passing: Vec<String> = task.iter().map(ToString::to_string).collect();
    passing.extend(router.engine.trouble().filter(|_| restart.is_empty()));
    // A sidecar still serves its clients while it drains; clients of a gateway go to another one.
    let mode = source.config.borrow().drain.mode;
    if mode == DrainMode::Gateway && *source.draining.borrow() {
        passing.push("draining: new connections are refused, and clients are moved on".to_owned());
    }
    let ready = restart.is_empty() && passing.is_empty();
    degraded.extend(restart.iter().cloned().chain(passing));
    Readiness { started: true, ready, restart_reason: restart.into_iter().next(), degraded }
}
