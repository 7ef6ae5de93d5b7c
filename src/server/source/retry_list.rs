//! Retries as the admin port lists them.

use crate::admin::RetryView;
use crate::api::RecordStage;
use crate::model::WallMs;
use crate::retry::{Disposition, Entry, RetryState};
use crate::server::source::selection::level;

/// A retry with its state; `refusal`: the reason why a due one is blocked.
pub(super) fn retry_view(
    entry: &Entry,
    refusal: Option<String>,
    now: WallMs,
) -> (RetryView, RecordStage) {
    let state = match entry.state {
        RetryState::Waiting { due, .. } if due > now => RecordStage::Waiting,
        RetryState::Waiting { .. } if refusal.is_some() => RecordStage::Blocked,
        RetryState::Waiting { .. } => RecordStage::Due,
        RetryState::Released { .. } => RecordStage::Unread,
        RetryState::Blocked { .. } => RecordStage::Blocked,
        RetryState::Dead { .. } => RecordStage::Dead,
        RetryState::Committed { .. }
        | RetryState::Discarded { .. }
        | RetryState::Discarding { .. } => RecordStage::Discarded,
    };
    let disposition = match entry.state {
        RetryState::Blocked { disposition, .. } => Some(disposition),
        _ => entry.disposition,
    };
    let view = RetryView {
        id: entry.id.0,
        group: entry.group.to_string(),
        origin: entry.origin.as_ref().map(ToString::to_string),
        state: state.as_str().to_owned(),
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: entry.max_reconsume_times,
        level: level(entry),
        due_ms: entry.due().map(|due| due.0),
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        cause: disposition.map(|word| word.as_str().to_owned()),
        error: entry.reason.clone(),
        refusal: refusal.filter(|_| state == RecordStage::Blocked),
        key_shape: Some(entry.key_shape().to_owned()),
        size: entry.size_class().to_owned(),
    };
    (view, state)
}

/// Times and causes of the last failures of an entry.
pub(super) fn history(entry: &Entry) -> Vec<(i64, String)> {
    let cause = |(at, cause): &(WallMs, Disposition)| (at.0, cause.as_str().to_owned());
    entry.history.iter().map(cause).collect()
}
