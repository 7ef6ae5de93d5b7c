//! Retries as the admin port lists them.

use crate::admin::RetryView;
use crate::model::WallMs;
use crate::retry::{Disposition, Entry, RetryState};

/// `refusal`: the reason why a due retry is blocked.
pub(super) fn retry_view(entry: &Entry, refusal: Option<String>, now: WallMs) -> RetryView {
    let (state, level) = match entry.state {
        RetryState::Waiting { due, level, .. } if due > now => ("waiting", level),
        RetryState::Waiting { level, .. } if refusal.is_some() => ("blocked", level),
        RetryState::Waiting { level, .. } => ("due", level),
        RetryState::Released { .. } => ("unread", entry.last_level),
        RetryState::Blocked { .. } => ("blocked", None),
        RetryState::Committed { .. }
        | RetryState::Dead { .. }
        | RetryState::Discarded { .. }
        | RetryState::Discarding { .. } => ("settled", None),
    };
    let disposition = match entry.state {
        RetryState::Blocked { disposition, .. } => Some(disposition),
        _ => entry.disposition,
    };
    RetryView {
        id: entry.id.0,
        group: entry.group.to_string(),
        origin: entry.origin.as_ref().map(ToString::to_string),
        state: state.to_owned(),
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: entry.max_reconsume_times,
        level,
        due_ms: entry.due().map(|due| due.0),
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        disposition: disposition.map(|word| word.as_str().to_owned()),
        reason: entry.reason.clone(),
        refusal: refusal.filter(|_| state == "blocked"),
        key_shape: Some(entry.key_shape().to_owned()),
        size: entry.size_class().to_owned(),
    }
}

/// Times and causes of the last failures of an entry.
pub(super) fn history(entry: &Entry) -> Vec<(i64, String)> {
    let cause = |(at, cause): &(WallMs, Disposition)| (at.0, cause.as_str().to_owned());
    entry.history.iter().map(cause).collect()
}
