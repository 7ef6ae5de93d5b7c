//! One failed record of one group, without its bytes.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, Origin, RetryPlace, TopicName, WallMs};
use crate::retry::{CopiedDelivery, Disposition, FailureHistory, RecordShape, UNKNOWN_SHAPE};

/// Deliveries an entry remembers by their offset in the retry partition. The ladder needs 17; the
/// rest is for lost deliveries.
const PLACES_KEPT: usize = 64;
/// Failures an entry lists in its history; about as many as the header budget of 4 KiB holds.
const HISTORY_KEPT: usize = 64;
const REASON_BYTES_MAX: usize = 1024;

/// A record that failed in one group, or that was produced with a delay for the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Never used for another entry.
    pub id: EntryId,
    /// The only group that the record is delivered to again.
    pub group: GroupId,
    /// Topic, partition and offset as produced; `None` for a record produced to the retry topic
    /// itself.
    pub origin: Option<Origin>,
    /// The topic whose retry topic the record was produced to, if it has no origin.
    pub produced_for: Option<TopicName>,
    pub state: RetryState,
    /// Failures charged so far; a redrive sets it to 0.
    pub reconsume_times: u32,
    /// The limit in force at the last failure.
    pub max_reconsume_times: u32,
    /// Deliveries through the retry topic.
    pub handouts: u32,
    pub first_failed: Option<WallMs>,
    pub last_failed: Option<WallMs>,
    /// Reason of the present state; `None` for a delayed record that never failed.
    pub disposition: Option<Disposition>,
    /// Text the application gave with the last failure, at most 1 KiB.
    pub reason: Option<String>,
    /// Retry-partition offsets of the last deliveries, latest last, at most `PLACES_KEPT`.
    pub places: Vec<RetryPlace>,
    /// Time and disposition of the last failures, latest last, at most `HISTORY_KEPT`.
    pub history: Vec<(WallMs, Disposition)>,
    /// Time at which the group committed past the origin; `None` until then.
    pub passed: Option<WallMs>,
    /// Time at which a final entry is forgotten; `None`: never.
    pub expires: Option<WallMs>,
    /// Due time of the last delivery; `None` before the first.
    pub last_due: Option<WallMs>,
    /// Level of the last delivery; `None` for an exact delay or a back-off.
    pub last_level: Option<u32>,
    /// A reset below the origin unlinked the entry from it, so that the origin may fail anew.
    pub superseded: bool,
    /// Redrives of the dead letter so far.
    pub redrives: u32,
    /// Shape of the record; `None` where its bytes are damaged.
    pub shape: Option<RecordShape>,
}

/// State of an entry. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetryState {
    /// Queued in the group until it is released.
    Waiting {
        /// Earliest time of delivery.
        due: WallMs,
        /// The delay that led to `due`, in milliseconds.
        delay_ms: u64,
        /// Level in the delay table, from 1; `None` for an exact delay or a back-off.
        level: Option<u32>,
    },
    /// Acknowledged, and remembered for a late nack.
    Committed {
        at: WallMs,
    },
    Dead {
        at: WallMs,
    },
    /// Exhausted in a group that keeps no dead letters, or discarded by an operator.
    Discarded {
        at: WallMs,
    },
    /// Exhausted, and not yet in its dead-letter topic: not delivered again, last failure not
    /// charged.
    Blocked {
        /// Time of the last failure.
        since: WallMs,
        /// Disposition of the dead letter to come.
        disposition: Disposition,
        /// The transition to a dead letter charges one more failure.
        charged: bool,
    },
    /// A discarded dead letter that an operator can still restore.
    Discarding {
        /// Time of the discard.
        since: WallMs,
        /// Time at which the record became a dead letter.
        died: WallMs,
    },
    /// In the retry topic of its group, and not committed past.
    Released {
        /// The record's place in the retry topic.
        place: RetryPlace,
        /// Time of the release.
        since: WallMs,
    },
}

/// Kind of a state, without its fields, for lists and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    Waiting,
    Unread,
    Committed,
    Dead,
    Discarded,
    Blocked,
}

impl RetryState {
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Waiting { .. } => StateKind::Waiting,
            Self::Released { .. } => StateKind::Unread,
            Self::Committed { .. } => StateKind::Committed,
            Self::Dead { .. } => StateKind::Dead,
            Self::Discarded { .. } | Self::Discarding { .. } => StateKind::Discarded,
            Self::Blocked { .. } => StateKind::Blocked,
        }
    }
}

impl Entry {
    /// A new entry without failures and deliveries.
    pub(super) fn new(
        id: EntryId,
        group: &GroupId,
        origin: Option<Origin>,
        state: RetryState,
    ) -> Self {
        Self {
            id,
            group: group.clone(),
            origin,
            produced_for: None,
            state,
            reconsume_times: 0,
            max_reconsume_times: 0,
            handouts: 0,
            first_failed: None,
            last_failed: None,
            disposition: None,
            reason: None,
            places: Vec::new(),
            history: Vec::new(),
            passed: None,
            expires: None,
            last_due: None,
            last_level: None,
            superseded: false,
            redrives: 0,
            shape: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn dead(id: EntryId, group: &GroupId, origin: Origin, at: WallMs) -> Self {
        let new = Self::new(id, group, Some(origin), RetryState::Dead { at });
        Self { last_failed: Some(at), ..new }
    }

    /// The pattern of the record's key.
    pub fn key_shape(&self) -> &str {
        self.shape.as_ref().map_or(UNKNOWN_SHAPE, |shape| &shape.key)
    }

    /// The size class of the record.
    pub fn size_class(&self) -> &'static str {
        self.shape.as_ref().map_or(UNKNOWN_SHAPE, |shape| shape.size.as_str())
    }

    /// Number of the next or present delivery, from 1 (`RocketMQ`'s deliveryAttempt).
    pub fn attempt(&self) -> u32 {
        self.reconsume_times.saturating_add(1)
    }

    /// Number of the newest delivery: the one that is released, or else the next one.
    pub fn newest_delivery(&self) -> u32 {
        match self.state.kind() {
            StateKind::Unread | StateKind::Committed => self.handouts,
            StateKind::Waiting | StateKind::Blocked | StateKind::Dead | StateKind::Discarded => {
                self.handouts.saturating_add(1)
            }
        }
    }

    /// Whether the retries of the record are over.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state.kind(), StateKind::Blocked | StateKind::Dead | StateKind::Discarded)
    }

    /// Takes over the counts of a delivery that failed, if another sidecar released it.
    pub(super) fn catch_up(&mut self, copied: &CopiedDelivery) {
        let failures = copied.failures.unwrap_or(0);
        match copied.number.filter(|number| *number > self.handouts) {
            Some(number) => (self.handouts, self.reconsume_times) = (number, failures),
            None => self.reconsume_times = self.reconsume_times.max(failures),
        }
        self.redrives = self.redrives.max(copied.redrives);
    }

    /// Due time; `None` unless the entry waits.
    pub fn due(&self) -> Option<WallMs> {
        match self.state {
            RetryState::Waiting { due, .. } => Some(due),
            _ => None,
        }
    }

    /// Offset of the present delivery; `None` unless inflight.
    pub fn unread(&self) -> Option<RetryPlace> {
        match self.state {
            RetryState::Released { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Origin that leads to this entry; `None` after a reset has unlinked it.
    pub fn remembered_origin(&self) -> Option<&Origin> {
        if self.superseded { None } else { self.origin.as_ref() }
    }

    /// The topic whose retry topic the entry enters.
    pub fn source(&self) -> Option<&TopicName> {
        self.origin.as_ref().map(|origin| &origin.topic).or(self.produced_for.as_ref())
    }

    /// Acknowledged, dead or discarded.
    pub fn is_settled(&self) -> bool {
        let kind = self.state.kind();
        matches!(kind, StateKind::Committed | StateKind::Dead | StateKind::Discarded)
    }

    /// Only inferred failures are charged, and the record was not delivered through the retry
    /// topic.
    pub(super) fn is_inferred(&self) -> bool {
        self.handouts == 0 && self.disposition.is_some_and(Disposition::is_inferred)
    }

    /// Records a delivery.
    pub(super) fn handed_out(&mut self, place: RetryPlace) {
        self.handouts = self.handouts.saturating_add(1);
        push_bounded(&mut self.places, place, PLACES_KEPT);
    }

    /// Takes over a history, cut to its latest `HISTORY_KEPT` failures.
    pub(super) fn remember(&mut self, history: Vec<(WallMs, Disposition)>) {
        let surplus = history.len().saturating_sub(HISTORY_KEPT);
        self.history = history.into_iter().skip(surplus).collect();
    }

    /// Takes over the failures charged before the entry began.
    pub(super) fn carry(&mut self, carried: &FailureHistory) {
        self.reconsume_times = carried.reconsume_times;
        self.first_failed = carried.history.first().map(|(at, _)| *at);
        self.last_failed = carried.history.last().map(|(at, _)| *at);
        self.remember(carried.history.clone());
    }

    /// Records the application's text for a failure, cut to 1 KiB.
    pub fn explain(&mut self, reason: Option<&str>) {
        self.reason = reason.map(|text| cut(text).to_owned());
    }

    /// Charges a failure; the first charge also sets `first_failed`.
    pub(super) fn failed(&mut self, at: WallMs, disposition: Disposition) {
        self.reconsume_times = self.reconsume_times.saturating_add(1);
        self.first_failed = self.first_failed.or(Some(at));
        self.last_failed = Some(at);
        self.dispose(at, disposition);
    }

    /// Records the reason of the present state.
    pub(super) fn dispose(&mut self, at: WallMs, disposition: Disposition) {
        self.disposition = Some(disposition);
        push_bounded(&mut self.history, (at, disposition), HISTORY_KEPT);
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, kept: usize) {
    if list.len() >= kept {
        list.remove(0);
    }
    list.push(item);
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let text = "é".repeat(600);
        let kept = cut(&text);
        assert_eq!(kept.len(), 1024);
        assert_eq!(cut("short"), "short");
        assert!(cut(&format!("x{text}")).len() == 1023);
    }

    #[test]
    fn lists_that_ride_along_stay_bounded() {
        let state = RetryState::Committed { at: WallMs(0) };
        let mut entry = Entry::new(EntryId(1), &"g".into(), None, state);
        for n in 0..200 {
            entry.handed_out(RetryPlace::in_stream(0, 0, n));
            entry.failed(WallMs(1), Disposition::Rejected);
        }
        assert_eq!((entry.places.len(), entry.history.len()), (PLACES_KEPT, HISTORY_KEPT));
        assert_eq!(entry.places.last().unwrap().offset, 199);
        assert_eq!((entry.handouts, entry.reconsume_times), (200, 200));
    }
}
