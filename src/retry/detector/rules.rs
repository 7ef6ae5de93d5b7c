//! By which numbers a group's consumers are judged.

use crate::retry::suspects::SuspectRules;
use crate::retry::{BreakerRules, OnSeekBack, OrderMode, Policy};

/// The longest patience with a member that has a record alone, however often it doubled: 60 s.
pub(in crate::retry) const PATIENCE_MS_MAX: u64 = 60_000;

/// The part of a group's policy that the detector needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Retries before the dead letters.
    pub max_reconsume_times: u32,
    /// The search for a record that ends its consumer; `crash_limit` 0: there is none.
    pub suspects: SuspectRules,
    /// How long such a record is waited for.
    pub isolation_timeout_ms: u64,
    /// Retries in place before the dead letters where failures are only inferred.
    pub in_place_limit: u32,
    /// Whether a member that seeks back has failed.
    pub on_seek_back: OnSeekBack,
    /// How long a record may stay uncommitted while its member lives.
    pub consume_timeout_ms: u64,
    /// How long a partition is held between two deliveries in place.
    pub interval_ms: u64,
    /// Its partitions wait for what is said to have failed (`order.mode: partition`).
    pub in_order: bool,
    /// Who does not come back to it is made to (`order.rewind`).
    pub calls_back: bool,
    /// What is said to have failed may become an entry (`lane` is not `off`).
    pub has_queue: bool,
    /// When deliveries are paused; `None`: never.
    pub breaker: Option<BreakerRules>,
    /// With a breaker, a record that its partition waits for is not dead before; `None`: not
    /// before another one is handled.
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
            consume_timeout_ms: policy.consume_timeout_ms,
            interval_ms: policy.order_interval_ms,
            in_order: policy.order == OrderMode::Partition,
            calls_back: policy.calls_back,
            has_queue: policy.lane,
            breaker: policy.breaker,
            give_up_after_ms: policy.give_up_after_ms,
        }
    }
}

impl Rules {
    /// Nothing is inferred: whoever is watched is so for another reason.
    fn of_nothing(policy: &Policy) -> Self {
        Self {
            max_reconsume_times: policy.max_reconsume_times,
            suspects: SuspectRules { crash_limit: 0, ..SuspectRules::default() },
            isolation_timeout_ms: policy.isolation_timeout_ms,
            in_place_limit: policy.in_place_limit,
            on_seek_back: OnSeekBack::Observe,
            consume_timeout_ms: u64::MAX,
            interval_ms: policy.order_interval_ms,
            in_order: false,
            calls_back: false,
            has_queue: policy.lane,
            breaker: None,
            give_up_after_ms: policy.give_up_after_ms,
        }
    }

    /// Whether a lost delivery says anything.
    pub(in crate::retry) fn infers_crashes(&self) -> bool {
        self.suspects.crash_limit > 0
    }
}

impl From<&Policy> for SuspectRules {
    fn from(policy: &Policy) -> Self {
        // One delivery more than there are retries.
        let keeps_order = policy.order == OrderMode::Partition;
        let deliveries = policy.max_reconsume_times.saturating_add(1);
        Self {
            crash_limit: policy.crash_limit,
            in_place_limit: policy.in_place_limit.clamp(1, deliveries),
            isolation_timeout_ms: policy.isolation_timeout_ms,
            patience_ms_max: PATIENCE_MS_MAX.max(policy.isolation_timeout_ms),
            // Nothing behind a record is delivered before it where its partition keeps order.
            give_up_after_ms: policy.give_up_after_ms.filter(|_| !keeps_order),
            order_interval_ms: policy.order_interval_ms,
            has_retry_topic: false,
        }
    }
}
