//! The history of one record in words, for `retry show`.

use crate::admin::{PastView, RecordHistory};
use crate::engine::{EventKind, RecordEvent};
use crate::model::{Origin, RetryPair};
use crate::retry::{Cause, Entry, RetryState};
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
            view.error = entry.reason.clone().filter(|_| cause.evidence.is_nack());
            view.reconsume_times = Some(entry.reconsume_times);
            view.until = entry.due().map(|due| due.0);
            format!("{}: {}", cause.evidence.sentence(), state(router, entry))
        }
        EventKind::Forgotten(cause) => {
            seen_by(&mut view, cause);
            format!("{}: not remembered any more", cause.evidence.sentence())
        }
        EventKind::FormerForgotten(cause) => {
            seen_by(&mut view, cause);
            format!(
                "{}: what was superseded of it is not remembered any more",
                cause.evidence.sentence()
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

fn seen_by(view: &mut PastView, cause: &Cause) {
    view.evidence = Some(cause.evidence.as_str().to_owned());
    let by = cause.by.as_ref();
    view.member = by.and_then(|by| by.member.as_ref()).map(ToString::to_string);
    view.client = by.map(|by| by.client.to_string()).filter(|client| !client.is_empty());
}

fn state(router: &Router, entry: &Entry) -> String {
    match entry.state {
        RetryState::Waiting { delay_ms, level: Some(level), .. } => {
            format!("it comes back after {delay_ms} ms (level {level})")
        }
        RetryState::Waiting { delay_ms, level: None, .. } => {
            format!("it comes back after {delay_ms} ms")
        }
        RetryState::Released { place, .. } => {
            let source = entry.source().filter(|_| place.partition.by_topic).cloned();
            let topic = router.names.retry_topic(&RetryPair { group: entry.group.clone(), source });
            let at = format!("{topic}-{}@{}", place.partition.index, place.offset);
            format!("attempt {} as {at}", entry.attempt())
        }
        RetryState::Committed { .. } => "acknowledged".to_owned(),
        RetryState::Dead { .. } => {
            let why = entry.disposition.map_or("", crate::retry::Disposition::as_str);
            format!("a dead letter ({why})")
        }
        RetryState::Discarded { .. } | RetryState::Discarding { .. } => "discarded".to_owned(),
        RetryState::Blocked { .. } => "blocked: the dead letters do not take it yet".to_owned(),
    }
}
