//! One log line for each record whose retries ended: a dead letter, or a discarded record.
//!
//! The engine's thread only stores the fields of a line, for at most [`LISTED_MAX`] records of a
//! group per round. Another task waits until the outcomes are durable and writes the lines. It
//! writes one summary per group for the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::render::Render;
use crate::journal::Journal;
use crate::model::{GroupId, Origin};
use crate::retry::{Cause, DELAYED, Disposition, Entry, Evidence, RetryState};

/// Shortest time of a round.
pub const ROUND: Duration = Duration::from_secs(1);
/// Most lines of one group in one round; the rest is a summary.
const LISTED_MAX: usize = 10;
/// Most lines of all groups in one round: about 2 MiB, with reasons of 1 KiB.
const ROUND_MAX: usize = 1_000;

/// Fields of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FinalRecord {
    /// The log entry of the final outcome.
    seq: u64,
    origin: Option<Origin>,
    evidence: Evidence,
    disposition: Option<Disposition>,
    attempts: u32,
    reason: Option<String>,
    is_discarded: bool,
}

/// One group in one round.
#[derive(Debug, Default)]
struct GroupRound {
    listed: Vec<FinalRecord>,
    /// Final outcomes without a line of their own.
    unlisted: u64,
    /// The log entry of the last outcome without a line.
    unlisted_seq: u64,
}

/// Final outcomes that are not logged yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct FinalLog {
    rounds: Mutex<FinalRounds>,
    arrival: Notify,
}

#[derive(Debug, Default)]
struct FinalRounds {
    open: BTreeMap<GroupId, GroupRound>,
    /// Number of lines in the open round.
    listed: usize,
    /// A round that is complete and waits until its last outcome is durable.
    closed: BTreeMap<GroupId, GroupRound>,
}

impl GroupRound {
    fn last_seq(&self) -> u64 {
        let listed = self.listed.last().map_or(0, |record| record.seq);
        listed.max(self.unlisted_seq)
    }
}

impl FinalLog {
    /// Records a final outcome, which the log has at `seq`.
    pub(in crate::engine) fn note(&self, entry: &Entry, cause: &Cause, seq: u64) {
        if entry.group.as_str() == DELAYED {
            return;
        }
        let mut rounds = self.lock();
        let is_full = rounds.listed >= ROUND_MAX;
        let round = rounds.open.entry(entry.group.clone()).or_default();
        if is_full || round.listed.len() >= LISTED_MAX {
            (round.unlisted, round.unlisted_seq) = (round.unlisted + 1, seq);
            return;
        }
        round.listed.push(FinalRecord {
            seq,
            origin: entry.origin.clone(),
            evidence: cause.evidence,
            disposition: entry.disposition,
            attempts: entry.reconsume_times,
            reason: entry.reason.clone(),
            is_discarded: matches!(entry.state, RetryState::Discarded { .. }),
        });
        rounds.listed += 1;
        drop(rounds);
        self.arrival.notify_one();
    }

    /// Waits for final outcomes and logs them once they are durable.
    pub(in crate::engine) async fn log_next(&self, journal: &Journal, render: &Render) {
        self.arrival.notified().await;
        if journal.durable(self.close()).await.is_ok() {
            self.log_durable(journal, render);
        }
    }

    /// Logs the groups whose outcomes are all durable.
    pub(in crate::engine) fn log_durable(&self, journal: &Journal, render: &Render) {
        for (group, round) in self.take(journal.durable_seq()) {
            for record in &round.listed {
                record.log(&group, journal, render);
            }
            if round.unlisted > 0 {
                log_rest(&group, round.unlisted);
            }
        }
    }

    /// Closes the open round unless a closed one waits; returns the closed round's last log entry.
    fn close(&self) -> u64 {
        let mut rounds = self.lock();
        if rounds.closed.is_empty() {
            rounds.closed = std::mem::take(&mut rounds.open);
            rounds.listed = 0;
        }
        rounds.closed.values().map(GroupRound::last_seq).max().unwrap_or(0)
    }

    /// Removes and returns the groups of the closed round whose outcomes are durable.
    fn take(&self, durable: u64) -> Vec<(GroupId, GroupRound)> {
        let mut rounds = self.lock();
        let FinalRounds { open, closed, .. } = &mut *rounds;
        let is_durable = |_: &GroupId, round: &mut GroupRound| round.last_seq() <= durable;
        closed.extract_if(.., is_durable).chain(open.extract_if(.., is_durable)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, FinalRounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_rest(group: &GroupId, records: u64) {
    tracing::warn!(
        %group, records,
        "R0542 more records of the group became dead letters or were discarded in the same \
         second; `reprise dlq list --group GROUP` lists the dead letters"
    );
}

impl FinalRecord {
    fn log(&self, group: &GroupId, journal: &Journal, render: &Render) {
        let FinalRecord { seq, origin, evidence, attempts, is_discarded, .. } = self;
        let origin = origin.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
        let (evidence, reason) = (word_of(*evidence), self.reason());
        let disposition = self.disposition.map_or("rejected", Disposition::as_str);
        if *is_discarded {
            tracing::warn!(
                %group, origin, evidence, disposition, attempts, ?reason,
                "R0541 a record was discarded after its last failure, because its group keeps no \
                 dead letters; set dead_letters.keep to have such records kept"
            );
            return;
        }
        let dead_letter = render.dead_letter_place(journal, group, *seq);
        tracing::warn!(
            %group, origin, evidence, disposition, attempts, ?reason, dead_letter,
            "R0540 a record became a dead letter: it is not retried any more; \
             `reprise dlq show GROUP OFFSET` shows it with its headers, and what failed"
        );
    }

    /// The application's reason; without one, the observation.
    fn reason(&self) -> &str {
        match (&self.reason, self.disposition) {
            (Some(reason), _) => reason,
            (None, Some(Disposition::Crashed)) => "its member was lost with this delivery",
            (None, Some(Disposition::SeekBack)) => "its member went back to it again and again",
            (None, Some(Disposition::TimedOut)) => "its member did not commit it in time",
            (None, Some(Disposition::Expired)) => "max_elapsed is over",
            (None, Some(Disposition::Undecodable)) => "its bytes cannot be read back",
            (None, _) => "none given",
        }
    }
}

/// The evidence in the words of the documentation.
fn word_of(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::CommitMarker => "commit-nack",
        Evidence::Nack => "produced-nack",
        Evidence::AdminNack => "admin-nack",
        Evidence::SeekBack | Evidence::MemberLost => "lost-delivery",
        Evidence::ConsumeTimeout => "consume-timeout",
        Evidence::Unblocked => "dead-letter-quota",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests;
