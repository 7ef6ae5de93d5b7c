//! The forwarding of one dead-letter topic: its cursor, the batch in flight, and the pause after a
//! failure.

use std::time::Duration;

use crate::engine::ForwardProgress;
use crate::model::{GroupId, TopicName};
use crate::server::forwarding::batch::ForwardBatch;
use crate::upstream::{Failures, WriteError};

/// Pauses between two attempts that fail.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// Time after which refused dead letters are sent again: the topic's limits may have changed.
const REFUSED_AGAIN: Duration = Duration::from_mins(10);

/// One dead-letter topic of the sidecar.
#[derive(Debug)]
pub(super) struct ForwardedTopic {
    /// The group of the dead letters.
    pub(super) group: GroupId,
    /// The topic in the cluster.
    pub(super) topic: TopicName,
    pub(super) cursor: ForwardProgress,
    pub(super) batch: Option<ForwardBatch>,
    failures: Failures,
    again_at: Duration,
    refused_at: Duration,
    trouble: Option<String>,
}

impl ForwardedTopic {
    /// Starts from the cursor that the log holds; refused dead letters are due at once. `next`: the
    /// offset of the next dead letter. After a repair of the log it may lie before the cursor; then
    /// nothing from there on has been sent.
    pub(super) fn new(
        group: GroupId,
        topic: TopicName,
        mut cursor: ForwardProgress,
        next: i64,
    ) -> Self {
        cursor.next = cursor.next.min(next);
        cursor.refused.retain(|offset, _| *offset < next);
        Self {
            group,
            topic,
            cursor,
            batch: None,
            failures: Failures::default(),
            again_at: Duration::ZERO,
            refused_at: Duration::ZERO,
            trouble: None,
        }
    }

    /// Whether an attempt may be made.
    pub(super) fn may_try(&self, now: Duration) -> bool {
        self.again_at <= now
    }

    /// Whether refused dead letters are due to be sent again.
    pub(super) fn is_refused_due(&self, now: Duration) -> bool {
        !self.cursor.refused.is_empty() && self.refused_at <= now
    }

    /// Refused dead letters were sent again. The next try comes later if each of them was judged.
    pub(super) fn record_refused_attempt(&mut self, now: Duration, judged: bool) {
        let pause = if judged { REFUSED_AGAIN } else { PAUSE_MOST };
        self.refused_at = now.saturating_add(pause);
    }

    /// The reason why forwarding has stopped.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// An attempt worked.
    pub(super) fn record_success(&mut self) {
        self.failures = Failures::default();
        self.again_at = Duration::ZERO;
        if self.trouble.take().is_some() {
            tracing::info!(group = %self.group, topic = %self.topic, "dead letters go on");
        }
    }

    /// An attempt failed: the next one follows after a pause. Each reason is logged once.
    pub(super) fn record_failure(&mut self, error: &WriteError, now: Duration) {
        let pause = self.failures.add(PAUSE_FIRST, PAUSE_MOST);
        let reason = match &self.trouble {
            Some(before) if error.is_pause() => before.clone(),
            _ => error.to_string(),
        };
        self.stop(reason, now.saturating_add(pause));
    }

    /// The cluster refuses so many dead letters that the topic itself must be wrong.
    pub(super) fn stop_full(&mut self, now: Duration) {
        let reason = format!(
            "the cluster refuses {} dead letters: nothing more is sent to {} before that changes; \
             check what the topic takes (max.message.bytes, cleanup.policy, timestamps)",
            self.cursor.refused.len(),
            self.topic
        );
        self.stop(reason, now.saturating_add(PAUSE_MOST));
    }

    fn stop(&mut self, reason: String, again_at: Duration) {
        self.again_at = again_at;
        let (group, topic) = (&self.group, &self.topic);
        if self.trouble.as_ref() == Some(&reason) {
            tracing::debug!(%group, %topic, says = %reason, "dead letters still wait");
        } else {
            tracing::warn!(
                %group, %topic, says = %reason,
                "R0216 dead letters cannot be sent to the cluster and wait here: correct what \
                 `says` names"
            );
        }
        self.trouble = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamError;

    fn topic(next: i64) -> ForwardedTopic {
        let mut cursor = ForwardProgress { next: 10, ..ForwardProgress::default() };
        cursor.refuse(3, "large");
        cursor.refuse(8, "large");
        ForwardedTopic::new("shop".into(), "failed.shop".into(), cursor, next)
    }

    #[test]
    fn replacements_of_lost_dead_letters_are_sent() {
        assert_eq!(topic(10).cursor.next, 10);
        let repaired = topic(5).cursor;
        assert_eq!((repaired.next, repaired.refused.len()), (5, 1));
    }

    #[test]
    fn the_pause_grows_with_failures_and_success_ends_it() {
        let at = Duration::from_millis;
        let mut topic = topic(10);
        let error = WriteError::Upstream(UpstreamError::Closed);
        assert!(topic.may_try(at(0)));
        topic.record_failure(&error, at(0));
        assert!(!topic.may_try(at(374)) && topic.may_try(at(500)));
        topic.record_failure(&error, at(500));
        assert!(!topic.may_try(at(1_249)) && topic.may_try(at(1_500)));
        assert!(topic.trouble().unwrap().contains("closed the connection"));
        for _ in 0..20 {
            topic.record_failure(&error, at(0));
        }
        assert!(topic.may_try(at(30_000)), "30 s at most");
        topic.record_success();
        assert!(topic.may_try(at(0)) && topic.trouble().is_none());
    }

    #[test]
    fn refused_dead_letters_are_retried_at_start_and_periodically() {
        let mut topic = topic(10);
        assert!(topic.is_refused_due(Duration::ZERO));
        topic.record_refused_attempt(Duration::ZERO, true);
        assert!(!topic.is_refused_due(Duration::from_secs(599)));
        assert!(topic.is_refused_due(Duration::from_mins(10)));
        topic.record_refused_attempt(Duration::ZERO, false);
        assert!(!topic.is_refused_due(Duration::from_secs(29)));
        assert!(topic.is_refused_due(Duration::from_secs(30)), "that one was not judged");
    }
}
