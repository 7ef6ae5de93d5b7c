//! Retries as the admin port lists them.

use crate::admin::RetryView;
use crate::engine;
use crate::model::WallMs;
use crate::retry::{Disposition, Entry, RetryState};

pub(super) fn retry_view(
    entry: &Entry,
    group: Option<&engine::GroupSummary>,
    (taker, now): (bool, WallMs),
) -> RetryView {
    let (state, level, member) = match entry.state {
        RetryState::Waiting { due, level, .. } if due > now => ("waiting", level, None),
        RetryState::Waiting { level, .. } if taker => ("ready", level, None),
        RetryState::Waiting { level, .. } => ("parked", level, None),
        RetryState::Released { .. } => ("inflight", entry.last_level, None),
        RetryState::Inflight { lane, .. } | RetryState::Alone { lane, .. } => {
            let slots = group.into_iter().flat_map(|known| &known.slots);
            let held = slots.rev().find(|slot| slot.slot == lane.slot);
            let member = held.and_then(|slot| slot.member.as_ref()).map(ToString::to_string);
            ("inflight", entry.last_level, member)
        }
        RetryState::Held { .. } => ("held", None, None),
        RetryState::Exported { level, .. } => ("exported", level, None),
        RetryState::Committed { .. }
        | RetryState::Dead { .. }
        | RetryState::Discarded { .. }
        | RetryState::Discarding { .. } => ("settled", None, None),
    };
    let disposition = match entry.state {
        RetryState::Held { disposition, .. } => Some(disposition),
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
        due_ms: due(entry).map(|due| due.0),
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        disposition: disposition.map(|word| word.as_str().to_owned()),
        reason: entry.reason.clone(),
        key_shape: Some(entry.key_shape().to_owned()),
        size: entry.size_class().to_owned(),
        member,
    }
}

/// The due time of the next delivery, here or in another sidecar.
fn due(entry: &Entry) -> Option<WallMs> {
    match entry.state {
        RetryState::Exported { due, .. } => Some(due),
        _ => entry.due(),
    }
}

/// Times and causes of the last failures of an entry.
pub(super) fn history(entry: &Entry) -> Vec<(i64, String)> {
    let cause = |(at, cause): &(WallMs, Disposition)| (at.0, cause.as_str().to_owned());
    entry.history.iter().map(cause).collect()
}
