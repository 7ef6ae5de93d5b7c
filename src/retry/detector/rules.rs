//! The settings by which the detector judges a group's consumers.

use crate::retry::suspects::SuspectRules;
use crate::retry::{BreakerRules, OrderMode, Policy, SignalRule};

/// The longest wait for a record that is delivered by itself, however often the timeout doubled: 60
/// s.
pub(in crate::retry) const PATIENCE_MS_MAX: u64 = 60_000;

/// The part of a group's policy that the detector needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Failed deliveries that are retried before a record becomes a dead letter.
    pub max_reconsume_times: u32,
    /// The search for a record that crashes its consumer; `crash_limit` 0: no search.
    pub suspects: SuspectRules,
    /// The wait for a commit of records under test.
    pub isolation_timeout_ms: u64,
    /// Retries in place before a record becomes a dead letter, if its failures are only inferred.
    pub in_place_limit: u32,
    /// Whether a seek back counts as a failure.
    pub on_seek_back: SignalRule,
    /// Whether a stalled record counts as a failure.
    pub on_consume_timeout: SignalRule,
    /// The time after which an uncommitted record of a live member counts as stalled.
    pub consume_timeout_ms: u64,
    /// The pause between two deliveries of a record in place.
    pub interval_ms: u64,
    /// Partitions wait for nacked records (`order.mode: partition`).
    pub in_order: bool,
    /// A member that does not go back to the failed record is told to rejoin (`order.rewind`).
    pub calls_back: bool,
    /// Nacked records may become entries (`retry.delivery` is not `off`).
    pub has_queue: bool,
    /// When deliveries are paused; `None`: never.
    pub breaker: Option<BreakerRules>,
    /// With a breaker, an awaited record is not a dead letter before this time; `None`: not before
    /// another record was handled.
    pub give_up_after_ms: Option<u64>,
}

impl From<&Policy> for Rules {
    fn from(policy: &Policy) -> Self {
        if !policy.inference {
            return Self::of_nothing(policy);
        }
        Self {
            max_reconsume_times: policy.max_reconsume_times,
            suspects: SuspectRules::from(policy),
            isolation_timeout_ms: policy.isolation_timeout_ms,
            in_place_limit: policy.in_place_limit,
            on_seek_back: policy.on_seek_back,
            on_consume_timeout: policy.on_consume_timeout,
            consume_timeout_ms: policy.consume_timeout_ms,
            interval_ms: policy.order_interval_ms,
            in_order: policy.order == OrderMode::Partition,
            calls_back: policy.calls_back,
            has_queue: policy.has_retries,
            breaker: policy.breaker,
            give_up_after_ms: policy.give_up_after_ms,
        }
    }
}

impl Rules {
    /// Rules without inference: the group is tracked for another reason.
    fn of_nothing(policy: &Policy) -> Self {
        Self {
            max_reconsume_times: policy.max_reconsume_times,
            suspects: SuspectRules { crash_limit: 0, ..SuspectRules::default() },
            isolation_timeout_ms: policy.isolation_timeout_ms,
            in_place_limit: policy.in_place_limit,
            on_seek_back: SignalRule::Observe,
            on_consume_timeout: SignalRule::Observe,
            consume_timeout_ms: u64::MAX,
            interval_ms: policy.order_interval_ms,
            in_order: false,
            calls_back: false,
            has_queue: policy.has_retries,
            breaker: None,
            give_up_after_ms: policy.give_up_after_ms,
        }
    }

    /// Whether a lost delivery counts at all.
    pub(in crate::retry) fn infers_crashes(&self) -> bool {
        self.suspects.crash_limit > 0
    }
}

impl From<&Policy> for SuspectRules {
    fn from(policy: &Policy) -> Self {
        // A record is delivered once more than it is retried.
        let keeps_order = policy.order == OrderMode::Partition;
        let deliveries = policy.max_reconsume_times.saturating_add(1);
        Self {
            crash_limit: policy.crash_limit,
            in_place_limit: policy.in_place_limit.clamp(1, deliveries),
            isolation_timeout_ms: policy.isolation_timeout_ms,
            patience_ms_max: PATIENCE_MS_MAX.max(policy.isolation_timeout_ms),
            // A partition that keeps order delivers no record past an unfinished one.
            give_up_after_ms: policy.give_up_after_ms.filter(|_| !keeps_order),
            order_interval_ms: policy.order_interval_ms,
        }
    }
}
