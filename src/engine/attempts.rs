//! Delivery attempts of retries, from delivery to outcome, for traces.
//!
//! ```text
//! fact of a hand-out ──▶ open attempt ◀── headers of the record, once they are read
//!                            │
//! fact of its outcome ───────┴──▶ Attempt ──▶ queue ──▶ exporter
//! ```
//! First deliveries of a topic's own records make no facts, so they have no attempts here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::model::{EntryId, GroupId, LaneOffset, Origin, WallMs};
use crate::observe::Metrics;
use crate::retry::{Disposition, Entry, Evidence, Fact, RetryState, THOUSAND};
use crate::wire::TraceParent;
use crate::wire::batch::Headers;

#[cfg(test)]
mod tests;

/// Attempts that are open at once, about 200 bytes each. Beyond them the oldest is dropped.
const OPEN_MAX: usize = 100_000;
/// Attempts that wait for the exporter, about 200 bytes each. Beyond them new ones are dropped.
const QUEUE_MAX: usize = 8_192;

/// A finished delivery attempt of a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The entry that was delivered.
    pub entry: EntryId,
    /// The group of the member.
    pub group: GroupId,
    /// The record as produced; `None` if the nack names no origin.
    pub origin: Option<Origin>,
    /// Failures before this attempt.
    pub reconsume_times: u32,
    /// Time of the delivery.
    pub began: WallMs,
    /// Time of the outcome.
    pub ended: WallMs,
    pub outcome: AttemptOutcome,
    /// The span in the record's header `traceparent`.
    pub parent: Option<TraceParent>,
}

/// The outcome of a delivery attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A commit passed the entry.
    Acknowledged,
    /// The member nacked it; the record is retried.
    Failed(Option<Disposition>),
    /// The last attempt: the record is a dead letter.
    DeadLetter(Option<Disposition>),
    /// The last attempt failed, and the quota of dead letters is used up.
    Held(Disposition),
    /// The last attempt failed, and the group keeps no dead letters.
    Discarded(Option<Disposition>),
    /// The member left or failed.
    MemberLost,
    /// The consume timeout expired.
    Timeout,
    /// The record is back in the queue without a failure, such as after an aborted transaction.
    Returned,
}

impl AttemptOutcome {
    /// The outcome in spans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Failed(_) => "failed",
            Self::DeadLetter(_) => "dead_letter",
            Self::Held(_) => "held",
            Self::Discarded(_) => "discarded",
            Self::MemberLost => "member_lost",
            Self::Timeout => "timeout",
            Self::Returned => "returned",
        }
    }

    /// The error type in spans; `None` for an attempt without an error.
    pub fn error(self) -> Option<&'static str> {
        match self {
            Self::Acknowledged | Self::Returned => None,
            Self::MemberLost | Self::Timeout => Some(self.as_str()),
            Self::Held(why) => Some(why.as_str()),
            Self::Failed(why) | Self::DeadLetter(why) | Self::Discarded(why) => {
                Some(why.map_or(self.as_str(), Disposition::as_str))
            }
        }
    }

    /// `None` when the record was never delivered, or stays with its member.
    fn of(entry: &Entry, evidence: Evidence) -> Option<Self> {
        let why = entry.disposition;
        match (&entry.state, evidence) {
            (RetryState::Inflight { .. } | RetryState::Alone { .. }, _)
            | (_, Evidence::Undecided) => None,
            (_, Evidence::Aborted) => Some(Self::Returned),
            (RetryState::Committed { .. }, _) => Some(Self::Acknowledged),
            (RetryState::Dead { .. }, _) => Some(Self::DeadLetter(why)),
            (RetryState::Held { disposition, .. }, _) => Some(Self::Held(*disposition)),
            (RetryState::Discarded { .. } | RetryState::Discarding { .. }, _) => {
                Some(Self::Discarded(why))
            }
            (_, Evidence::MemberLost) => Some(Self::MemberLost),
            (_, Evidence::Timeout) => Some(Self::Timeout),
            (_, evidence) if is_failure(evidence) => Some(Self::Failed(why)),
            _ => Some(Self::Returned),
        }
    }
}

/// True for a nack, and for observations that count as one.
fn is_failure(evidence: Evidence) -> bool {
    matches!(
        evidence,
        Evidence::Nack
            | Evidence::CommitMarker
            | Evidence::AdminNack
            | Evidence::SeekBack
            | Evidence::BackwardCommit
            | Evidence::CommitRefused
    )
}

/// The open attempts. Off by default; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Option<Arc<Recorder>>);

#[derive(Debug)]
struct Recorder {
    /// Thousandths of the records whose attempts are recorded (1000 = all).
    sample: u32,
    open: Mutex<OpenAttempts>,
    queue: Sender<Attempt>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct OpenAttempts {
    by_entry: BTreeMap<EntryId, OpenAttempt>,
    by_age: BTreeMap<u64, EntryId>,
    next: u64,
}

#[derive(Debug)]
struct OpenAttempt {
    serial: u64,
    lane: LaneOffset,
    began: WallMs,
    reconsume_times: u32,
    parent: Option<TraceParent>,
}

impl Attempts {
    /// Records the attempts of `sample` thousandths of the records; the receiver gets finished
    /// attempts.
    pub fn record(sample: u32, metrics: Metrics) -> (Self, Receiver<Attempt>) {
        let (queue, attempts) = channel(QUEUE_MAX);
        let recorder = Recorder { sample, open: Mutex::default(), queue, metrics };
        (Self(Some(Arc::new(recorder))), attempts)
    }

    /// Observes a journalled fact: a delivery, or an outcome.
    pub(super) fn observe(&self, fact: &Fact) {
        let Some(recorder) = &self.0 else { return };
        match fact {
            Fact::Entry { entry, cause, .. } => match entry.state {
                RetryState::Inflight { lane, since } | RetryState::Alone { lane, since } => {
                    if cause.evidence == Evidence::HandOut {
                        recorder.begin(entry, lane, since);
                    }
                }
                _ => recorder.end(entry, cause.evidence, cause.at),
            },
            Fact::Forgotten { id, .. } => drop(recorder.close(*id)),
            Fact::Slot { .. } | Fact::Tables { .. } => {}
        }
    }

    /// Links an open attempt to the span of the record's producer.
    pub(super) fn link(&self, entry: EntryId, lane: LaneOffset, headers: &Headers) {
        let Some(recorder) = &self.0 else { return };
        let value = headers.last(TraceParent::HEADER).flatten();
        let Some(parent) = value.and_then(|value| TraceParent::parse(&value)) else { return };
        recorder.with_open(|open| {
            let attempt = open.by_entry.get_mut(&entry);
            if let Some(attempt) = attempt.filter(|attempt| attempt.lane == lane) {
                attempt.parent = Some(parent);
            }
        });
    }
}

impl Recorder {
    fn begin(&self, entry: &Entry, lane: LaneOffset, began: WallMs) {
        if !is_sampled(entry.id, self.sample) {
            return;
        }
        let reconsume_times = entry.reconsume_times;
        let is_full = self.with_open(|open| {
            open.close(entry.id);
            let serial = open.next;
            open.next = open.next.saturating_add(1);
            open.by_age.insert(serial, entry.id);
            let attempt = OpenAttempt { serial, lane, began, reconsume_times, parent: None };
            open.by_entry.insert(entry.id, attempt);
            let is_full = open.by_entry.len() > OPEN_MAX;
            if is_full && let Some((_, oldest)) = open.by_age.pop_first() {
                open.by_entry.remove(&oldest);
            }
            is_full
        });
        if is_full {
            self.metrics.spans_dropped("too_many_open", 1);
        }
    }

    fn end(&self, entry: &Entry, evidence: Evidence, ended: WallMs) {
        let Some(open) = self.close(entry.id) else { return };
        let Some(outcome) = AttemptOutcome::of(entry, evidence) else { return };
        let attempt = Attempt {
            entry: entry.id,
            group: entry.group.clone(),
            origin: entry.origin.clone(),
            reconsume_times: open.reconsume_times,
            began: open.began,
            ended,
            outcome,
            parent: open.parent,
        };
        if self.queue.try_send(attempt).is_err() {
            self.metrics.spans_dropped("queue_full", 1);
        }
    }

    fn close(&self, entry: EntryId) -> Option<OpenAttempt> {
        self.with_open(|open| open.close(entry))
    }

    fn with_open<T>(&self, f: impl FnOnce(&mut OpenAttempts) -> T) -> T {
        f(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OpenAttempts {
    fn close(&mut self, entry: EntryId) -> Option<OpenAttempt> {
        let attempt = self.by_entry.remove(&entry)?;
        self.by_age.remove(&attempt.serial);
        Some(attempt)
    }
}

/// The entry id alone decides, so either all attempts of a record are in the sample or none.
fn is_sampled(entry: EntryId, sample: u32) -> bool {
    mixed(entry.0) % u64::from(THOUSAND) < u64::from(sample)
}

/// Scatters consecutive entry ids (the finalizer of `SplitMix64`).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
