//! What is done now and then: retention, checkpoints, compaction, gauges.

use std::sync::Arc;

use crate::broker::error::BrokerError;
use crate::engine::EngineError;
use crate::journal::{Housekeeper, Housekept, Journal, JournalError};
use crate::route::Router;
use crate::server::pace::Pace;
use crate::server::readiness::is_full;
use crate::server::vacancy::Vacancies;

/// Rounds between two looks at retention: as often as Kafka's own default is rare (5 min), topics
/// with a short retention need it sooner.
const RETENTION_ROUNDS: u32 = 5;
/// Rounds after which a checkpoint of the retry tables is due even if the log hardly grew.
const KEEP_ROUNDS: u32 = 60;

/// A wall clock that was set by more than this while running is worth a line in the log.
const DEPARTURE_MS_MAX: u64 = 60_000;

/// Why a round was not completed.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the housekeeping thread has ended: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// Runs for as long as the server does.
pub(super) async fn run(journal: Journal, router: Arc<Router>, pace: Pace) {
    let mut housekeeper = journal.housekeeper();
    let mut rounds: u32 = 0;
    let mut vacancies = Vacancies::default();
    let mut quiet = false;
    let mut clash_told = false;
    loop {
        rounds = rounds.wrapping_add(1);
        let (back, kept) =
            match round(housekeeper, &journal, &router, (rounds, &mut vacancies)).await {
                Ok((back, kept)) => {
                    quiet = false;
                    (back, kept)
                }
                Err(trouble) => {
                    if !quiet {
                        tracing::error!(%trouble, "housekeeping failed; it is tried again");
                    }
                    quiet = true;
                    (journal.housekeeper(), Housekept::default())
                }
            };
        housekeeper = back;
        let stats = journal.stats();
        let segments = u64::try_from(stats.segments).unwrap_or(u64::MAX);
        router.metrics.set_journal_size(stats.bytes, segments, stats.disk_free);
        router.metrics.set_degraded("disk_full", is_full(&journal));
        router.metrics.set_degraded("name_clash", router.names.clashes() > 0);
        let node_clash = router.node_clash();
        router.metrics.set_degraded("node_id_clash", node_clash);
        if node_clash && !std::mem::replace(&mut clash_told, node_clash) {
            let node_id = router.config.node_id;
            tracing::error!(
                node_id,
                "a broker of the cluster has this sidecar's node id: it is reached by its clients, \
                 and retry and dead-letter topics have no leader; set node_id to a number no \
                 broker has, or to auto, and restart"
            );
        }
        tokio::time::sleep(pace.rest(kept.copied_bytes, kept.more, stats.disk_free)).await;
    }
}

/// What groups have committed that are empty for long, and groups that keep nothing.
fn forget_offsets(router: &Router, vacancies: &mut Vacancies) -> Result<(), BrokerError> {
    let now = router.clock.now().wall;
    let (groups, offsets) = (&router.broker.groups, &router.broker.offsets);
    if router.upstream.is_some() {
        vacancies.look(now, offsets.groups(), &router.members.groups().into_iter().collect());
        offsets.expire(now, |group| vacancies.occupancy(group))?;
    } else {
        offsets.expire(now, |group| groups.occupancy(group))?;
    }
    groups.expire(|group| offsets.has(group));
    Ok(())
}

async fn round(
    mut housekeeper: Housekeeper,
    journal: &Journal,
    router: &Arc<Router>,
    (rounds, vacancies): (u32, &mut Vacancies),
) -> Result<(Housekeeper, Housekept), Trouble> {
    if rounds.is_multiple_of(RETENTION_ROUNDS) {
        let broker = Arc::clone(&router.broker);
        let expired = tokio::task::spawn_blocking(move || broker.expire()).await??;
        if expired.records > 0 {
            let (partitions, records) = (expired.partitions, expired.records);
            tracing::info!(partitions, records, "retention removed records");
        }
        forget_offsets(router, vacancies)?;
    }
    if rounds.is_multiple_of(KEEP_ROUNDS) {
        let departure_ms = router.clock.departure_ms();
        if departure_ms.unsigned_abs() > DEPARTURE_MS_MAX {
            tracing::warn!(
                departure_ms,
                "the system clock has left the time kept since the start; due times follow the \
                 latter until a restart"
            );
        }
        let broker = Arc::clone(&router.broker);
        tokio::task::spawn_blocking(move || broker.keep_producers()).await??;
    }
    let (back, kept) = tokio::task::spawn_blocking(move || {
        let kept = housekeeper.step();
        (housekeeper, kept)
    })
    .await?;
    let kept = kept?;
    if kept.checkpoint.is_some() || rounds.is_multiple_of(KEEP_ROUNDS) {
        if kept.checkpoint.is_none() {
            let journal = journal.clone();
            tokio::task::spawn_blocking(move || journal.checkpoint()).await??;
        }
        router.engine.keep().await?;
    }
    Ok((back, kept))
}
