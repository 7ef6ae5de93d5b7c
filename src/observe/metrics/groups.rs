//! Counters of events in a group: records, members, dead letters.

use super::{Metrics, float, level_label, names};

impl Metrics {
    /// A rebalance of `group` completed.
    pub fn rebalanced(&self, group: &str) {
        let group = self.group(&names::GROUP_REBALANCES, group);
        self.add(&names::GROUP_REBALANCES, &[group], 1);
    }

    /// A commit of `group` was refused with the Kafka error `error`.
    pub fn commit_failed(&self, group: &str, error: &str) {
        let group = self.group(&names::COMMIT_FAILURES, group);
        let error = self.word(&names::COMMIT_FAILURES, error);
        self.add(&names::COMMIT_FAILURES, &[group, error], 1);
    }

    /// A partition of a commit of `group` was refused for the failed records its metadata names.
    pub fn commit_marker_refused(&self, group: &str, reason: &str) {
        let group = self.group(&names::COMMIT_MARKERS_REFUSED, group);
        let reason = self.word(&names::COMMIT_MARKERS_REFUSED, reason);
        self.add(&names::COMMIT_MARKERS_REFUSED, &[group, reason], 1);
    }

    /// A batch produced to the retry topic of `group` was refused.
    pub fn nack_refused(&self, group: &str, reason: &str) {
        let group = self.group(&names::NACKS_REFUSED, group);
        let reason = self.word(&names::NACKS_REFUSED, reason);
        self.add(&names::NACKS_REFUSED, &[group, reason], 1);
    }

    /// `n` nacks of `group` were acknowledged without effect.
    pub fn nacks_known(&self, group: &str, n: usize) {
        let group = self.group(&names::NACKS_KNOWN, group);
        self.add(&names::NACKS_KNOWN, &[group], u64::try_from(n).unwrap_or(u64::MAX));
    }

    /// A commit of the retry topic acknowledged `n` retries.
    pub fn record_acked(&self, group: &str, topic: &str, n: u64) {
        let (group, topic) = self.pair(&names::RECORDS_ACKED, group, topic);
        self.add(&names::RECORDS_ACKED, &[group, topic], n);
    }

    /// `count` delayed records had this outcome.
    pub fn records_delayed(&self, outcome: &str, count: usize) {
        let outcome = self.word(&names::DELAYED_RECORDS, outcome);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.add(&names::DELAYED_RECORDS, &[outcome], count);
    }

    /// Sets the number of delayed records, their bytes, and the number of unreadable ones.
    pub fn delayed_now(&self, waiting: u64, bytes: u64, unreadable: u64) {
        self.set(&names::RECORDS_DELAYED, &[], float(waiting));
        self.set(&names::RECORDS_DELAYED_BYTES, &[], float(bytes));
        self.set(&names::RECORDS_DELAYED_UNREADABLE, &[], float(unreadable));
    }

    /// Members of `group` read its retry topic and unlike topics beside it.
    pub fn unlike_readers(&self, group: &str) {
        let group = self.group(&names::UNLIKE_READERS, group);
        self.add(&names::UNLIKE_READERS, &[group], 1);
    }

    /// A member of `group` fetched an uncommitted record again.
    pub fn sought_back(&self, group: &str) {
        let group = self.group(&names::SEEK_BACKS, group);
        self.add(&names::SEEK_BACKS, &[group], 1);
    }

    /// A Fetch of real topics could not be attributed to a member.
    pub fn fetch_unattributed(&self) {
        self.add(&names::FETCHES_UNATTRIBUTED, &[], 1);
    }

    /// A failed record could not be cut out of its batch.
    pub fn batch_unreadable(&self) {
        self.add(&names::BATCHES_UNREADABLE, &[], 1);
    }

    /// A delivery was charged as failed; `reason` is the disposition.
    pub fn record_failed(&self, group: &str, topic: &str, reason: &str) {
        let (group, topic) = self.pair(&names::RECORDS_FAILED, group, topic);
        let reason = self.word(&names::RECORDS_FAILED, reason);
        self.add(&names::RECORDS_FAILED, &[group, topic, reason], 1);
    }

    /// A retry was accepted on `level` (1-based; 0 = an exact delay).
    pub fn retry_scheduled(&self, group: &str, level: usize) {
        let group = self.group(&names::RETRIES_SCHEDULED, group);
        self.add(&names::RETRIES_SCHEDULED, &[group, &level_label(level)], 1);
    }

    /// A retry of `level` was delivered `late_seconds` after it was due.
    pub fn retry_redelivered(&self, group: &str, level: usize, late_seconds: f64) {
        let group = self.group(&names::RETRIES_REDELIVERED, group);
        self.add(&names::RETRIES_REDELIVERED, &[group, &level_label(level)], 1);
        self.observe(&names::REDELIVERY_LATENESS, &[group], late_seconds);
    }

    /// A retry was acknowledged after `reconsume_times` failures, `seconds` after the first.
    pub fn retry_succeeded(&self, group: &str, reconsume_times: u32, seconds: f64) {
        let group = self.group(&names::SUCCESS_RECONSUME_TIMES, group);
        let times = f64::from(reconsume_times);
        self.observe(&names::SUCCESS_RECONSUME_TIMES, &[group], times);
        self.observe(&names::RETRY_TO_SUCCESS, &[group], seconds);
    }

    /// A record became a dead letter, durably.
    pub fn dead_lettered(&self, group: &str, topic: &str, reason: &str) {
        let (group, topic) = self.pair(&names::DLQ_RECORDS_TOTAL, group, topic);
        let reason = self.word(&names::DLQ_RECORDS_TOTAL, reason);
        self.add(&names::DLQ_RECORDS_TOTAL, &[group, topic, reason], 1);
    }

    /// An exhausted record was dropped because dead letters are off.
    pub fn discarded(&self, group: &str, topic: &str) {
        let (group, topic) = self.pair(&names::DISCARDED, group, topic);
        self.add(&names::DISCARDED, &[group, topic], 1);
    }

    /// An operator's action changed `n` records of a group.
    pub fn operated(&self, group: &str, action: &str, n: u64) {
        let group = self.group(&names::OPERATOR_ACTIONS, group);
        let action = self.word(&names::OPERATOR_ACTIONS, action);
        self.add(&names::OPERATOR_ACTIONS, &[group, action], n);
    }

    /// A job of a group stopped.
    pub fn job_stopped(&self, group: &str) {
        let group = self.group(&names::JOBS_STOPPED, group);
        self.add(&names::JOBS_STOPPED, &[group], 1);
    }
}
