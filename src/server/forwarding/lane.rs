//! The forwarding of one dead-letter topic: its cursor, the batch in flight, and the pause after a
//! failure.

use std::time::Duration;

use crate::engine::ForwardProgress;
use crate::model::{GroupId, TopicName};
use crate::server::forwarding::parcel::ForwardBatch;
use crate::upstream::{Failures, WriteError};

/// Pauses between two attempts that fail.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// Time after which refused dead letters are sent again: the topic's limits may have changed.
const REFUSED_AGAIN: Duration = Duration::from_mins(10);
/// Time between two searches for dead letters to discard, after one that found none.
const DISCARD_AGAIN: Duration = Duration::from_secs(5);

/// One dead-letter topic of the sidecar.
#[derive(Debug)]
pub(super) struct ForwardedTopic {
    /// The group of the dead letters.
    pub(super) group: GroupId,
    /// The topic in the cluster.
    pub(super) topic: TopicName,
    pub(super) mark: ForwardProgress,
    pub(super) parcel: Option<ForwardBatch>,
    failures: Failures,
    again_at: Duration,
    refused_at: Duration,
    discard_at: Duration,
    trouble: Option<String>,
}

impl ForwardedTopic {
    /// Starts from the cursor that the log holds; refused dead letters are due at once. `next`: the
    /// offset of the next dead letter. After a repair of the log it may lie before the cursor; then
    /// nothing from there on has been sent.
    pub(super) fn new(
        group: GroupId,
        topic: TopicName,
        mut mark: ForwardProgress,
        next: i64,
    ) -> Self {
        mark.next = mark.next.min(next);
        mark.refused.retain(|offset, _| *offset < next);
        Self {
            group,
            topic,
            mark,
            parcel: None,
            failures: Failures::default(),
            again_at: Duration::ZERO,
            refused_at: Duration::ZERO,
            discard_at: Duration::ZERO,
            trouble: None,
        }
    }

    /// Whether an attempt may be made.
    pub(super) fn may_try(&self, now: Duration) -> bool {
        self.again_at <= now
    }

    /// Whether refused dead letters are due to be sent again.
    pub(super) fn is_refused_due(&self, now: Duration) -> bool {
        !self.mark.refused.is_empty() && self.refused_at <= now
    }

    /// Refused dead letters were sent again. The next try comes later if each of them was judged.
    pub(super) fn were_tried(&mut self, now: Duration, judged: bool) {
        let pause = if judged { REFUSED_AGAIN } else { PAUSE_MOST };
        self.refused_at = now.saturating_add(pause);
    }

    /// Whether a search for dead letters to discard is due.
    pub(super) fn is_discard_due(&self, now: Duration) -> bool {
        self.discard_at <= now
    }

    /// A search has discarded so many dead letters.
    pub(super) fn discarded(&mut self, gone: u64, now: Duration) {
        let pause = if gone == 0 { DISCARD_AGAIN } else { Duration::ZERO };
        self.discard_at = now.saturating_add(pause);
    }

    /// The reason why forwarding has stopped.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// An attempt worked.
    pub(super) fn worked(&mut self) {
        self.failures = Failures::default();
        self.again_at = Duration::ZERO;
        if self.trouble.take().is_some() {
            tracing::info!(group = %self.group, topic = %self.topic, "dead letters go on");
        }
    }

    /// An attempt failed: the next one follows after a pause. Each reason is logged once.
    pub(super) fn failed(&mut self, error: &WriteError, now: Duration) {
        let pause = self.failures.add(PAUSE_FIRST, PAUSE_MOST);
        let says = match &self.trouble {
            Some(said) if error.is_pause() => said.clone(),
            _ => error.to_string(),
        };
        self.stop(says, now.saturating_add(pause));
    }

    /// The cluster refuses so many dead letters that the topic itself must be wrong.
    pub(super) fn is_full(&mut self, now: Duration) {
        let says = format!(
            "the cluster refuses {} dead letters: nothing more is sent to {} before that changes; \
             check what the topic takes (max.message.bytes, cleanup.policy, timestamps)",
            self.mark.refused.len(),
            self.topic
        );
        self.stop(says, now.saturating_add(PAUSE_MOST));
    }

    fn stop(&mut self, says: String, again_at: Duration) {
        self.again_at = again_at;
        let (group, topic) = (&self.group, &self.topic);
        if self.trouble.as_ref() == Some(&says) {
            tracing::debug!(%group, %topic, %says, "dead letters still wait");
        } else {
            tracing::warn!(
                %group, %topic, %says,
                "R0216 dead letters cannot be sent to the cluster and wait here: correct what \
                 `says` names"
            );
        }
        self.trouble = Some(says);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamError;

    fn lane(next: i64) -> ForwardedTopic {
        let mut mark = ForwardProgress { next: 10, ..ForwardProgress::default() };
        mark.refuse(3, "large");
        mark.refuse(8, "large");
        ForwardedTopic::new("shop".into(), "failed.shop".into(), mark, next)
    }

    #[test]
    fn replacements_of_lost_dead_letters_are_sent() {
        assert_eq!(lane(10).mark.next, 10);
        let repaired = lane(5).mark;
        assert_eq!((repaired.next, repaired.refused.len()), (5, 1));
    }

    #[test]
    fn the_pause_grows_with_failures_and_success_ends_it() {
        let at = Duration::from_millis;
        let mut lane = lane(10);
        let error = WriteError::Upstream(UpstreamError::Closed);
        assert!(lane.may_try(at(0)));
        lane.failed(&error, at(0));
        assert!(!lane.may_try(at(374)) && lane.may_try(at(500)));
        lane.failed(&error, at(500));
        assert!(!lane.may_try(at(1_249)) && lane.may_try(at(1_500)));
        assert!(lane.trouble().unwrap().contains("closed the connection"));
        for _ in 0..20 {
            lane.failed(&error, at(0));
        }
        assert!(lane.may_try(at(30_000)), "30 s at most");
        lane.worked();
        assert!(lane.may_try(at(0)) && lane.trouble().is_none());
    }

    #[test]
    fn refused_dead_letters_are_retried_at_start_and_periodically() {
        let mut lane = lane(10);
        assert!(lane.is_refused_due(Duration::ZERO));
        lane.were_tried(Duration::ZERO, true);
        assert!(!lane.is_refused_due(Duration::from_secs(599)));
        assert!(lane.is_refused_due(Duration::from_mins(10)));
        lane.were_tried(Duration::ZERO, false);
        assert!(!lane.is_refused_due(Duration::from_secs(29)));
        assert!(lane.is_refused_due(Duration::from_secs(30)), "that one was not judged");
    }
}
