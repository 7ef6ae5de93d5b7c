//! Counts facts as metrics.

use crate::observe::Metrics;
use crate::retry::{Disposition, Entry, Evidence, Fact, RetryState};

/// Counts one journalled fact.
pub(super) fn count(metrics: &Metrics, fact: &Fact) {
    let Fact::Entry { entry, cause, .. } = fact else { return };
    let group = entry.group.as_str();
    let topic = entry.origin.as_ref().map_or("", |origin| origin.topic.as_str());
    let word = entry.disposition.map_or("delayed", Disposition::as_str);
    match (&entry.state, cause.evidence) {
        (RetryState::Waiting { level, .. }, evidence)
            if evidence.is_nack() || is_charged(entry, evidence) =>
        {
            if entry.reconsume_times > 0 {
                metrics.record_failed(group, topic, word);
            }
            metrics.retry_scheduled(group, level_of(*level));
        }
        (RetryState::Released { since, .. }, Evidence::HandOut) => {
            let late_ms = entry.last_due.map_or(0, |due| since.since(due));
            metrics.retry_redelivered(group, level_of(entry.last_level), seconds(late_ms));
        }
        (RetryState::Committed { at }, _) => {
            let took_ms = entry.first_failed.map_or(0, |first| at.since(first));
            metrics.retry_succeeded(group, entry.reconsume_times, seconds(took_ms));
        }
        (RetryState::Dead { .. }, _) if settles(entry, cause.evidence) => {
            if cause.evidence != Evidence::DeadLetterNow {
                metrics.record_failed(group, topic, word);
            }
            metrics.dead_lettered(group, topic, word);
        }
        (RetryState::Discarded { .. }, _) if settles(entry, cause.evidence) => {
            metrics.record_failed(group, topic, word);
            metrics.discarded(group, topic);
        }
        _ => {}
    }
}

/// True for a failure that the detector charges. Lost deliveries of a record that is no retry are
/// counted as they come.
fn is_charged(entry: &Entry, evidence: Evidence) -> bool {
    let is_lost = matches!(evidence, Evidence::MemberLost | Evidence::SeekBack);
    evidence == Evidence::ConsumeTimeout || is_lost && entry.handouts > 0
}

/// True for the fact that made the entry a dead letter or discarded it, not for later facts of it.
pub(super) fn is_final(entry: &Entry, evidence: Evidence) -> bool {
    matches!(entry.state, RetryState::Dead { .. } | RetryState::Discarded { .. })
        && settles(entry, evidence)
}

/// True for the fact that settled the entry, not for later facts of it.
fn settles(entry: &Entry, evidence: Evidence) -> bool {
    let is_note = matches!(
        evidence,
        Evidence::OriginCommit
            | Evidence::Reset
            | Evidence::Restore
            | Evidence::RestoreEnded
            | Evidence::LetterDeleted
            | Evidence::Imported
            | Evidence::LetterFound
    );
    entry.is_settled() && !is_note
}

/// Exact delays and back-offs count as level 0.
fn level_of(level: Option<u32>) -> usize {
    level.and_then(|level| usize::try_from(level).ok()).unwrap_or(0)
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use crate::model::WallMs;
    use crate::observe::{ACTIONS, FAILURE_REASONS, FINAL_REASONS};
    use crate::retry::{Action as A, Disposition as D};

    #[test]
    fn counters_begin_at_zero_for_every_disposition() {
        let charged = [D::Rejected, D::SeekBack, D::Crashed, D::TimedOut];
        assert_eq!(charged.map(D::as_str), FAILURE_REASONS);
        let last = [D::MaxAttempts, D::ExplicitDlq, D::Expired, D::Undecodable, D::Manual];
        assert_eq!(last.map(D::as_str), FINAL_REASONS);
        let until = A::DelayUntil(WallMs(0));
        let actions = [
            A::Redrive,
            A::Edit,
            A::Send,
            A::Discard,
            A::Delete,
            A::Restore,
            A::RetryNow,
            until,
            A::DeadLetterNow,
        ];
        assert_eq!(actions.map(A::as_str), ACTIONS);
    }
}
