//! The history of one record in words, for `retry show`.

use crate::admin::{PastView, RecordHistory};
use crate::engine::{EventKind, RecordEvent};
use crate::model::{LaneOffset, Origin};
use crate::retry::{Cause, Entry, Evidence, RetryState};
use crate::route::Router;

/// The history of a record.
pub(super) fn told(router: &Router, record: &Origin, past: &[RecordEvent]) -> RecordHistory {
    let past = past.iter().map(|happened| view(router, happened)).collect();
    RecordHistory { record: record.to_string(), past, ..RecordHistory::default() }
}

fn view(router: &Router, happened: &RecordEvent) -> PastView {
    let mut view = PastView {
        group: happened.group.to_string(),
        at: happened.at.map(|at| at.0),
        ..PastView::default()
    };
    view.says = match &happened.what {
        EventKind::Entry(entry, cause) => {
            seen_by(&mut view, cause);
            view.reason = entry.reason.clone().filter(|_| is_said(cause.evidence));
            view.reconsume_times = Some(entry.reconsume_times);
            view.until = entry.due().map(|due| due.0);
            format!("{}: {}", evidence(cause.evidence), state(router, entry))
        }
        EventKind::Forgotten(cause) => {
            seen_by(&mut view, cause);
            format!("{}: not remembered any more", evidence(cause.evidence))
        }
        EventKind::FormerForgotten(cause) => {
            seen_by(&mut view, cause);
            format!(
                "{}: what was superseded of it is not remembered any more",
                evidence(cause.evidence)
            )
        }
        EventKind::Lost(n) => {
            format!("a hand-out it was part of was lost with its member, {n} in a row")
        }
        EventKind::Suspected(due) => {
            view.until = due.map(|due| due.0);
            let held = if due.is_some() { "its partition is held, then " } else { "" };
            format!("suspected: {held}it goes alone")
        }
        EventKind::Charged(times, why) => {
            view.reconsume_times = Some(*times);
            format!("a failure is inferred: {}", why.as_str())
        }
        EventKind::Cleared => "suspected no more: a commit has passed it".to_owned(),
        EventKind::Skipped => "settled: cut from what its group is given".to_owned(),
        EventKind::Passed => "a commit has passed it".to_owned(),
    };
    view
}

/// Whether the evidence is a nack, which may carry a reason.
fn is_said(evidence: Evidence) -> bool {
    matches!(evidence, Evidence::Nack | Evidence::CommitMarker | Evidence::AdminNack)
}

fn seen_by(view: &mut PastView, cause: &Cause) {
    view.evidence = Some(cause.evidence.as_str().to_owned());
    let by = cause.by.as_ref();
    view.member = by.and_then(|by| by.member.as_ref()).map(ToString::to_string);
    view.client = by.map(|by| by.client.to_string()).filter(|client| !client.is_empty());
}

fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Nack => "the application says that it failed",
        Evidence::CommitMarker => "a commit's metadata says that it failed",
        Evidence::AdminNack => "the admin port was told that it failed",
        Evidence::MemberLost => "its member was lost with it",
        Evidence::Timeout => "open for the consume timeout",
        Evidence::LaneCommit => "a commit passed the hand-out",
        Evidence::OriginCommit => "a commit passed the record as produced",
        Evidence::Reset => "a commit went back below it",
        Evidence::HandOut => "given to a member",
        Evidence::MemoryEnded => "the time to remember it is over",
        Evidence::DeadLetterGone => "the dead letter was deleted",
        Evidence::Rescheduled => "the clock or the delay table was changed",
        Evidence::HeldEnded => "there is room for it among the dead letters again",
        Evidence::Exported => "set aside for another sidecar",
        Evidence::ExportEnded => "another sidecar has it",
        Evidence::ExportUndone => "given back by an operator",
        Evidence::Imported => "brought from another sidecar",
        Evidence::Aborted => "the transaction that acknowledged it was aborted",
        Evidence::SeekBack => "its member asked for it again",
        Evidence::Delayed => "produced, to enter its topic later",
        Evidence::Delivered => "it has entered its topic",
        Evidence::Cancelled => "an operator ended its waiting",
        Evidence::Behind => "an earlier record of its key is not settled",
        Evidence::Released => "the record of its key before it is settled",
        Evidence::Joined => "something else was given to its member",
        Evidence::Undecided => "it was not given: its transaction is open",
        Evidence::Damaged => "its bytes cannot be read back from the log",
        Evidence::Redrive => "sent back from the dead letters",
        Evidence::Edit => "changed and sent back from the dead letters",
        Evidence::Send => "an operator sent the record to a topic",
        Evidence::Discard => "an operator discarded the dead letter",
        Evidence::Restore => "an operator restored the dead letter",
        Evidence::LetterDeleted => {
            "the dead letter was deleted: by DeleteRecords, or its retention was over"
        }
        Evidence::RestoreEnded => "the discarded dead letter can be restored no more",
        Evidence::RetryNow => "an operator wants it delivered now",
        Evidence::DelayUntil => "an operator set its time",
        Evidence::DeadLetterNow => "an operator ended its retries",
    }
}

fn state(router: &Router, entry: &Entry) -> String {
    match entry.state {
        RetryState::Waiting { delay_ms, level: Some(level), .. } => {
            format!("it comes back after {delay_ms} ms (level {level})")
        }
        RetryState::Waiting { delay_ms, level: None, .. } => {
            format!("it comes back after {delay_ms} ms")
        }
        RetryState::Inflight { lane, .. } => {
            format!("attempt {} as {}", entry.attempt(), hand_out(router, entry, lane))
        }
        RetryState::Alone { lane, .. } => {
            format!("attempt {}, alone, as {}", entry.attempt(), hand_out(router, entry, lane))
        }
        RetryState::Committed { .. } => "acknowledged".to_owned(),
        RetryState::Dead { .. } => {
            let why = entry.disposition.map_or("", crate::retry::Disposition::as_str);
            format!("a dead letter ({why})")
        }
        RetryState::Discarded { .. } if entry.superseded => {
            "superseded: its group was reset, and is given the original again".to_owned()
        }
        RetryState::Discarded { .. } | RetryState::Discarding { .. } => "discarded".to_owned(),
        RetryState::Held { .. } => "held: the dead letters have no room for it".to_owned(),
        RetryState::Exported { .. } => "not handed out here".to_owned(),
        RetryState::Behind { .. } => "it waits for an earlier record of its key".to_owned(),
    }
}

/// The delivery's record id in the retry topic, as its client sees it.
fn hand_out(router: &Router, entry: &Entry, lane: LaneOffset) -> String {
    let topic = router.names.retry_topic(&entry.group);
    format!("{topic}-0@{}", lane.to_kafka())
}
