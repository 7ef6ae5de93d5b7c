//! Periodic work: retention, checkpoints, compaction, gauges.

use std::sync::{Arc, PoisonError};

use crate::broker::error::BrokerError;
use crate::engine::{Engine, EngineError, FINAL_ROUND};
use crate::journal::{HousekeepingFailure, HousekeepingReport, Journal, JournalError};
use crate::model::{GroupId, MonoMs, WallMs};
use crate::retry::RESTORE_MS;
use crate::route::Router;
use crate::route::topics::retry_topics::TrimMarks;
use crate::server::empty_groups::EmptyGroups;
use crate::server::housekeeping_rate::JournalThrottle;

/// Interval of retention: a topic with a short retention needs it more often than Kafka's default
/// (`log.retention.check.interval.ms`, 5 min).
const RETENTION_MS: u64 = 60_000;
/// Rounds between two runs of retention while the disk is full.
const RETENTION_ROUNDS: u32 = 5;
/// Interval of the expiry of committed offsets, as in Kafka
/// (`offsets.retention.check.interval.ms`).
const OFFSETS_MS: u64 = 600_000;
/// Rounds after which the retry tables get a checkpoint even if the log hardly grew.
const KEEP_ROUNDS: u32 = 60;

/// A step of the wall clock that is larger than this is logged.
const DEPARTURE_MS_MAX: u64 = 60_000;

/// The reason why a round was not completed.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Step(#[from] HousekeepingFailure),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the housekeeping thread has ended: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// The count of rounds, and the times of the last work of each kind.
#[derive(Debug)]
struct RoundClock {
    count: u32,
    /// Time of the last expiry of offsets, or of the start.
    offsets_at: MonoMs,
    /// Time of the last retention; `None`: not since the start.
    retention_at: Option<MonoMs>,
    /// Producer state was saved since the disk filled up, so that old segments can be deleted.
    let_go: bool,
}

/// The work of one round, besides compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each piece of work has its own turn")]
struct DueWork {
    retention: bool,
    /// Expiry of committed offsets and of groups without members.
    offsets: bool,
    /// Checkpoints, even if the log has not grown.
    keep: bool,
    /// Saving of producer state: segments that hold it cannot be deleted before.
    producers: bool,
}

impl RoundClock {
    /// Offset expiry first runs after a whole interval, so members of an earlier process have time
    /// to reconnect.
    fn new(now: MonoMs) -> Self {
        Self { count: 0, offsets_at: now, retention_at: None, let_go: false }
    }

    /// The next round. `is_full`: the disk takes no new records. `is_stuck`: the disk takes nothing
    /// at all, and a wait for durability would not end.
    fn next(&mut self, now: MonoMs, is_full: bool, is_stuck: bool) -> DueWork {
        self.count = self.count.wrapping_add(1);
        let keep = self.count.is_multiple_of(KEEP_ROUNDS);
        let producers = !is_stuck && (keep || is_full && !self.let_go);
        self.let_go = is_full && (self.let_go || producers);
        let offsets = OFFSETS_MS <= now.since(self.offsets_at);
        if offsets {
            self.offsets_at = now;
        }
        let is_due = self.retention_at.is_none_or(|at| RETENTION_MS <= now.since(at));
        let retention = is_due || is_full && self.count.is_multiple_of(RETENTION_ROUNDS);
        if retention {
            self.retention_at = Some(now);
        }
        DueWork { retention, offsets, keep, producers }
    }
}

/// Runs for as long as the server does.
pub(super) async fn run(journal: Journal, router: Arc<Router>, pace: JournalThrottle) {
    let mut rounds = RoundClock::new(router.clock.now().mono);
    let mut vacancies = EmptyGroups::default();
    let mut marks = TrimMarks::default();
    let mut quiet = false;
    loop {
        let now = router.clock.now().mono;
        let due = rounds.next(now, journal.shortage().is_some(), journal.stats().disk_full);
        let (kept, done) = round(&journal, &router, (due, &mut vacancies, &mut marks)).await;
        if let Err(trouble) = &done
            && !quiet
        {
            tracing::error!(
                %trouble,
                "R0424 housekeeping failed; it is tried again: check the disk"
            );
        }
        quiet = done.is_err();
        let disk_free = measure(&journal, &router);
        tokio::time::sleep(pace.rest(kept.copied_bytes, kept.more, disk_free)).await;
    }
}

/// Sets the gauges of the journal's size. Returns the free bytes of its disk.
pub(super) fn measure(journal: &Journal, router: &Router) -> u64 {
    let stats = journal.stats();
    let segments = u64::try_from(stats.segments).unwrap_or(u64::MAX);
    router.metrics.set_journal_size(stats.bytes, segments, stats.disk_free);
    stats.disk_free
}

/// Does the work that is due. A failure of one part does not stop the others.
async fn round(
    journal: &Journal,
    router: &Arc<Router>,
    (due, vacancies, marks): (DueWork, &mut EmptyGroups, &mut TrimMarks),
) -> (HousekeepingReport, Result<(), RoundError>) {
    let trimmed = if due.retention { trim(router, marks).await } else { Ok(()) };
    let forgotten = if due.offsets { forget(router, vacancies) } else { Ok(()) };
    if due.keep {
        let departure_ms = router.clock.departure_ms();
        if departure_ms.unsigned_abs() > DEPARTURE_MS_MAX {
            tracing::warn!(
                departure_ms,
                "R0504 the system clock jumped: due times do not follow it; correct the clock, or \
                 restart if the clock is right"
            );
        }
    }
    let let_go = if due.producers { keep_producers(router).await } else { Ok(()) };
    let (kept, stepped) = step(journal).await;
    let engine_kept = if kept.checkpoint.is_some() || due.keep {
        keep(journal, router, kept).await
    } else {
        Ok(())
    };
    (kept, trimmed.and(forgotten).and(let_go).and(stepped).and(engine_kept))
}

/// A round of the journal's own housekeeping.
async fn step(journal: &Journal) -> (HousekeepingReport, Result<(), RoundError>) {
    let mut housekeeper = journal.housekeeper();
    match tokio::task::spawn_blocking(move || housekeeper.step()).await {
        Ok(Ok(kept)) => (kept, Ok(())),
        Ok(Err(unfinished)) => (unfinished.kept, Err(unfinished.into())),
        Err(ended) => (HousekeepingReport::default(), Err(ended.into())),
    }
}

/// Makes a checkpoint of the retry tables, after one of the journal.
async fn keep(
    journal: &Journal,
    router: &Router,
    kept: HousekeepingReport,
) -> Result<(), RoundError> {
    if kept.checkpoint.is_none() {
        let journal = journal.clone();
        tokio::task::spawn_blocking(move || journal.checkpoint()).await??;
    }
    router.engine.keep().await?;
    Ok(())
}

/// Deletes segments and records that topics no longer retain.
async fn trim(router: &Arc<Router>, marks: &mut TrimMarks) -> Result<(), RoundError> {
    let (of, mut taken) = (Arc::clone(router), std::mem::take(marks));
    let trimmed = tokio::task::spawn_blocking(move || {
        let trimmed = of.trim_retry_topics(&mut taken);
        (trimmed, taken)
    });
    let (trimmed, taken) = trimmed.await?;
    *marks = taken;
    trimmed?;
    let broker = Arc::clone(&router.broker);
    let expired = tokio::task::spawn_blocking(move || broker.expire()).await??;
    if expired.records > 0 {
        let (partitions, records) = (expired.partitions, expired.records);
        tracing::info!(partitions, records, "retention removed records");
    }
    // In front of a cluster the dead letters follow their topic (`topic_trimming`).
    if router.upstream.is_some() { Ok(()) } else { expire_letters(router).await }
}

/// The time before which dead letters of a group died too long ago; `None`: all are kept.
pub(super) fn oldest_letter(router: &Router, group: &GroupId) -> Option<WallMs> {
    let policies = router.policies.read().unwrap_or_else(PoisonError::into_inner);
    let retention_ms = policies.of(group).dead_letters_retention_ms?;
    Some(WallMs(router.clock.now().wall.0.saturating_sub_unsigned(retention_ms)))
}

/// The time before which a settled dead letter is deleted.
pub(super) fn oldest_settled(router: &Router) -> WallMs {
    WallMs(router.clock.now().wall.0.saturating_sub_unsigned(RESTORE_MS))
}

/// Deletes dead letters that are older than their groups keep them, or settled for a day.
async fn expire_letters(router: &Router) -> Result<(), RoundError> {
    for group in router.engine.groups().await? {
        let Some(oldest) = oldest_letter(router, &group.group) else { continue };
        let letters = router.engine.expire_letters(&group.group, oldest).await?;
        if letters > 0 {
            tracing::info!(group = %group.group, letters, "retention removed dead letters");
        }
    }
    let letters = router.engine.delete_settled(oldest_settled(router)).await?;
    if letters > 0 {
        tracing::info!(letters, "settled dead letters were deleted");
    }
    Ok(())
}

/// Expires offsets of groups that are long empty, and groups without offsets.
fn forget(router: &Router, vacancies: &mut EmptyGroups) -> Result<(), RoundError> {
    let now = router.clock.now().wall;
    let broker = &router.broker;
    if router.upstream.is_some() {
        let members = router.members.groups().into_iter().collect();
        vacancies.look(now, broker.offsets.groups(), &members);
        broker.expire_offsets(now, |group| vacancies.occupancy(group))?;
    } else {
        broker.expire_offsets(now, |group| broker.groups.occupancy(group))?;
    }
    broker.groups.expire(|group| broker.has_offsets(group));
    Ok(())
}

/// Saves producer state, so that the segments that hold it can be deleted.
async fn keep_producers(router: &Arc<Router>) -> Result<(), RoundError> {
    let broker = Arc::clone(&router.broker);
    tokio::task::spawn_blocking(move || broker.keep_producers()).await??;
    Ok(())
}

/// Logs records whose retries ended, a round at a time, for as long as the server runs.
pub(super) async fn log_finals(engine: Engine) {
    loop {
        engine.log_finals().await;
        tokio::time::sleep(FINAL_ROUND).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producer_states_are_saved_periodically_and_whenever_the_disk_fills() {
        let mut rounds = RoundClock::new(MonoMs(0));
        let mut kept_at = Vec::new();
        for round in 1..=125 {
            // Stuck in round 3; with room for a moment in round 50.
            let is_full = (3..=90).contains(&round) && round != 50;
            if rounds.next(MonoMs(round), is_full, round == 3).producers {
                kept_at.push(round);
            }
        }
        assert_eq!(kept_at, [4, 51, 60, 120]);
    }

    #[test]
    fn retention_runs_every_minute_and_oftener_on_full_disks() {
        let mut rounds = RoundClock::new(MonoMs(0));
        let looks = |rounds: &mut RoundClock, seconds: std::ops::Range<u64>, is_full| -> Vec<u64> {
            let due = |s: &u64| rounds.next(MonoMs(s * 1_000), is_full, false).retention;
            seconds.filter(due).collect()
        };
        assert_eq!(looks(&mut rounds, 0..150, false), [0, 60, 120]);
        assert_eq!(looks(&mut rounds, 150..162, true), [154, 159]);
        assert_eq!(looks(&mut rounds, 162..230, false), [219]);
    }

    #[test]
    fn old_offsets_expire_every_ten_minutes_after_the_start() {
        let mut rounds = RoundClock::new(MonoMs(5));
        let minutes = (0..=40).map(|minute| (minute, MonoMs(5 + minute * 60_000)));
        let due: Vec<u64> = minutes
            .filter(|(_, now)| rounds.next(*now, false, false).offsets)
            .map(|(m, _)| m)
            .collect();
        assert_eq!(due, [10, 20, 30, 40]);
    }
}
