//! One failed record of one group: what is known about it, without its bytes.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, LaneOffset, OrderKey, Origin, WallMs};
use crate::retry::Carried;

/// Hand-outs an entry remembers by their lane offset. The ladder needs 17; the rest is room for
/// lost ones.
const LANES_KEPT: usize = 64;
/// Failures an entry lists in its history; the header budget of 4 KiB holds about that many.
const HISTORY_KEPT: usize = 64;
/// Bytes of the reason text that are kept (`x-retry-reason`).
const REASON_BYTES_MAX: usize = 1024;

/// One record that failed in one group (or was produced with a delay for it).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, for ever.
    pub id: EntryId,
    /// The group it comes back to, and no other.
    pub group: GroupId,
    /// Where the record was produced; `None` for a record produced to the retry topic itself.
    pub origin: Option<Origin>,
    /// Where it stands.
    pub state: State,
    /// Failures charged so far; never falls.
    pub reconsume_times: u32,
    /// The limit that was in force at its last failure.
    pub max_reconsume_times: u32,
    /// Times its bytes left for a member through a lane.
    pub handouts: u32,
    /// Hand-outs lost in a row, since the application last said that it failed: the back-off grows
    /// with them, and from the group's `crash_limit` on it goes alone.
    pub losses: u32,
    /// Time of the first failure; `None` for a delayed record that never failed.
    pub first_failed: Option<WallMs>,
    /// Time of the last failure.
    pub last_failed: Option<WallMs>,
    /// Why it is where it is; `None` for a delayed record that never failed.
    pub disposition: Option<Disposition>,
    /// The text the application gave with the last failure, at most 1 KiB.
    pub reason: Option<String>,
    /// Lane offsets of its last hand-outs, latest last; a bounded list.
    pub lanes: Vec<LaneOffset>,
    /// Time and disposition of its last failures, latest last; a bounded list.
    pub history: Vec<(WallMs, Disposition)>,
    /// When the group's committed offset passed the origin; `None` while it has not.
    pub passed: Option<WallMs>,
    /// When the ledger acts by itself: an inflight entry returns to the queue, a settled one is
    /// forgotten. `None`: never by itself.
    pub expires: Option<WallMs>,
    /// When its last hand-out was due; `None` before the first.
    pub last_due: Option<WallMs>,
    /// The level its last hand-out waited at; `None` for an exact delay or a back-off.
    pub last_level: Option<u32>,
    /// A reset below the origin ended its memory of the origin: only a kept dead letter has this.
    pub superseded: bool,
    /// Of the record's key, where the group keeps its keys in order and it has one; stored beside
    /// the rest.
    #[serde(skip)]
    pub key: Option<OrderKey>,
    /// Times it was a dead letter and was sent back; stored beside the rest.
    #[serde(skip)]
    pub redrives: u32,
}

/// What an entry is in the line of its key. The order is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Not settled, and not behind another one.
    Ahead,
    /// Behind another one.
    Behind,
    /// Settled, and the group's commit has not passed it: it is not handed out once more.
    Past,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// In the group's queue, or parked there while no member takes.
    Waiting {
        /// Not handed out before this moment.
        due: WallMs,
        /// The delay that led to `due`, in milliseconds.
        delay_ms: u64,
        /// Level in the delay table, from 1; `None` for an exact delay or a back-off.
        level: Option<u32>,
    },
    /// Handed out, neither acknowledged nor failed.
    Inflight {
        /// The hand-out.
        lane: LaneOffset,
        /// When.
        since: WallMs,
    },
    /// Acknowledged; remembered for a late failure.
    Committed {
        /// When.
        at: WallMs,
    },
    /// In the dead letters.
    Dead {
        /// When.
        at: WallMs,
    },
    /// Exhausted in a group that keeps no dead letters, or moved to another sidecar.
    Discarded {
        /// When.
        at: WallMs,
    },
    /// Exhausted, and the dead letters have no room: not handed out again, not charged yet.
    Held {
        /// When it failed.
        since: WallMs,
        /// Why it is at its end.
        disposition: Disposition,
        /// Its end is one failure more.
        charged: bool,
    },
    /// Set aside for another sidecar: not handed out here until an operator ends it or gives it
    /// back.
    Exported {
        /// When.
        since: WallMs,
        /// When it may be handed out, there or, given back, here.
        due: WallMs,
        /// The delay that led to `due`, in milliseconds.
        delay_ms: u64,
        /// Level in the delay table, as in [`State::Waiting`].
        level: Option<u32>,
    },
    /// An earlier record of its key is not settled: not handed out until it is.
    Behind {
        /// When it came behind it.
        since: WallMs,
        /// Not handed out before this moment either.
        due: WallMs,
        /// The delay that led to `due`, in milliseconds.
        delay_ms: u64,
        /// Level in the delay table, as in [`State::Waiting`].
        level: Option<u32>,
    },
    /// Handed out like [`State::Inflight`], and nothing else is out at its member.
    Alone {
        /// The hand-out.
        lane: LaneOffset,
        /// When.
        since: WallMs,
    },
    /// A dead letter that an operator has discarded, and may still restore.
    Discarding {
        /// When it was discarded.
        since: WallMs,
        /// When it became a dead letter.
        died: WallMs,
    },
}

/// A state without its particulars, for lists and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// See [`State::Waiting`].
    Waiting,
    /// See [`State::Inflight`].
    Inflight,
    /// See [`State::Committed`].
    Committed,
    /// See [`State::Dead`].
    Dead,
    /// See [`State::Discarded`].
    Discarded,
    /// See [`State::Held`].
    Held,
    /// See [`State::Exported`].
    Exported,
    /// See [`State::Behind`].
    Behind,
}

/// Why a record is in its last state. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The application said it failed.
    Rejected,
    /// Written by earlier builds: neither acknowledged nor failed for the consume timeout.
    Timeout,
    /// The consumer went back to it.
    SeekBack,
    /// The consumer died on it.
    Crashed,
    /// Written by earlier builds: the commit that covered it was refused for good.
    CommitFailed,
    /// The limit of retries was reached.
    MaxAttempts,
    /// The application asked for the dead letters.
    ExplicitDlq,
    /// Too old to be retried.
    Expired,
    /// Too large to be carried.
    TooLarge,
    /// Its bytes cannot be read.
    Undecodable,
    /// An operator moved it.
    Manual,
}

impl Disposition {
    /// Nobody said so: it was seen.
    pub(super) fn is_inferred(self) -> bool {
        matches!(self, Self::Timeout | Self::SeekBack | Self::Crashed | Self::CommitFailed)
    }

    /// The word in headers, metrics and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Timeout => "timeout",
            Self::SeekBack => "seek_back",
            Self::Crashed => "crashed",
            Self::CommitFailed => "commit_failed",
            Self::MaxAttempts => "max_attempts",
            Self::ExplicitDlq => "explicit_dlq",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::Undecodable => "undecodable",
            Self::Manual => "manual",
        }
    }
}

impl State {
    /// The state without its particulars.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Waiting { .. } => StateKind::Waiting,
            Self::Inflight { .. } | Self::Alone { .. } => StateKind::Inflight,
            Self::Committed { .. } => StateKind::Committed,
            Self::Dead { .. } => StateKind::Dead,
            Self::Discarded { .. } | Self::Discarding { .. } => StateKind::Discarded,
            Self::Held { .. } => StateKind::Held,
            Self::Exported { .. } => StateKind::Exported,
            Self::Behind { .. } => StateKind::Behind,
        }
    }
}

impl Entry {
    /// An entry nothing has happened to yet.
    pub(super) fn new(id: EntryId, group: &GroupId, origin: Option<Origin>, state: State) -> Self {
        Self {
            id,
            group: group.clone(),
            origin,
            state,
            reconsume_times: 0,
            max_reconsume_times: 0,
            handouts: 0,
            losses: 0,
            first_failed: None,
            last_failed: None,
            disposition: None,
            reason: None,
            lanes: Vec::new(),
            history: Vec::new(),
            passed: None,
            expires: None,
            last_due: None,
            last_level: None,
            superseded: false,
            key: None,
            redrives: 0,
        }
    }

    /// A dead letter.
    #[cfg(test)]
    pub(crate) fn dead(id: EntryId, group: &GroupId, origin: Origin, at: WallMs) -> Self {
        let new = Self::new(id, group, Some(origin), State::Dead { at });
        Self { last_failed: Some(at), ..new }
    }

    /// The delivery this entry waits for or is in, from 1 (RocketMQ's deliveryAttempt).
    pub fn attempt(&self) -> u32 {
        self.reconsume_times.saturating_add(1)
    }

    /// When it may be handed out; `None` unless it waits.
    pub fn due(&self) -> Option<WallMs> {
        match self.state {
            State::Waiting { due, .. } => Some(due),
            _ => None,
        }
    }

    /// The hand-out it is in; `None` unless it is inflight.
    pub fn inflight(&self) -> Option<LaneOffset> {
        match self.state {
            State::Inflight { lane, .. } | State::Alone { lane, .. } => Some(lane),
            _ => None,
        }
    }

    /// The origin that leads to this entry; `None` once a reset has ended that.
    pub fn remembered_origin(&self) -> Option<&Origin> {
        if self.superseded { None } else { self.origin.as_ref() }
    }

    /// Acknowledged, dead or discarded: nothing is owed for it any more.
    pub fn is_settled(&self) -> bool {
        let kind = self.state.kind();
        matches!(kind, StateKind::Committed | StateKind::Dead | StateKind::Discarded)
    }

    /// Put behind another of its key, and neither failed nor handed out since.
    pub(super) fn is_unsaid(&self) -> bool {
        self.key.is_some() && self.disposition.is_none() && self.lanes.is_empty()
    }

    /// The delivery that was charged last was so by inference alone, and the record has not left
    /// since.
    pub(super) fn is_inferred(&self) -> bool {
        self.handouts == 0 && self.disposition.is_some_and(Disposition::is_inferred)
    }

    /// Its place in the line of its key; `None` where it is in none.
    pub fn lined(&self) -> Option<(&Origin, OrderKey, Rank)> {
        let rank = match self.state {
            State::Behind { .. } => Rank::Behind,
            _ if !self.is_settled() => Rank::Ahead,
            _ if self.passed.is_none() => Rank::Past,
            _ => return None,
        };
        Some((self.remembered_origin()?, self.key?, rank))
    }

    /// Puts down a hand-out.
    pub(super) fn handed_out(&mut self, lane: LaneOffset) {
        self.handouts = self.handouts.saturating_add(1);
        push_bounded(&mut self.lanes, lane, LANES_KEPT);
    }

    /// Its last hand-out was none: it has not left.
    pub(super) fn stayed(&mut self) {
        self.handouts = self.handouts.saturating_sub(1);
        self.lanes.pop();
    }

    /// Keeps the latest of a list of failures that comes from elsewhere.
    pub(super) fn remember(&mut self, history: Vec<(WallMs, Disposition)>) {
        let surplus = history.len().saturating_sub(HISTORY_KEPT);
        self.history = history.into_iter().skip(surplus).collect();
    }

    /// Begins with failures there were before it.
    pub(super) fn carry(&mut self, carried: &Carried) {
        self.reconsume_times = carried.reconsume_times;
        self.first_failed = carried.history.first().map(|(at, _)| *at);
        self.last_failed = carried.history.last().map(|(at, _)| *at);
        self.remember(carried.history.clone());
    }

    /// Puts down what the application said with a failure.
    pub fn explain(&mut self, reason: Option<&str>) {
        self.reason = reason.map(|text| cut(text).to_owned());
    }

    /// Puts down a charged failure; the first charge sets the first failure's time.
    pub(super) fn failed(&mut self, at: WallMs, disposition: Disposition) {
        self.reconsume_times = self.reconsume_times.saturating_add(1);
        self.losses = 0;
        self.first_failed = self.first_failed.or(Some(at));
        self.last_failed = Some(at);
        self.dispose(at, disposition);
    }

    /// Puts down why it is in its state.
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
        let state = State::Committed { at: WallMs(0) };
        let mut entry = Entry::new(EntryId(1), &"g".into(), None, state);
        for n in 0..200 {
            entry.handed_out(LaneOffset { slot: crate::model::Slot(0), sequence: n });
            entry.failed(WallMs(1), Disposition::Rejected);
        }
        assert_eq!((entry.lanes.len(), entry.history.len()), (LANES_KEPT, HISTORY_KEPT));
        assert_eq!(entry.lanes.last().unwrap().sequence, 199);
        assert_eq!((entry.handouts, entry.reconsume_times), (200, 200));
    }
}
