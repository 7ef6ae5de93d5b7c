//! Field-like consumers in virtual time, against the detector of their group. Each test checks that
//! the failing record is found, and that no failure of another record counts.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod app;
mod begun;
mod crashes;
mod ends;
mod going_back;
mod gone;
mod handler;
mod healthy;
mod hidden;
mod keeping;
mod law;
mod log;
mod outage;
mod random;
mod resets;
pub(crate) mod retries;
mod retry_topic;
mod spoken;
mod stalled;
mod story;
mod turn;
mod voice;
mod world;

use reprise::retry::detector::Rules;
use reprise::retry::suspects::SuspectRules;
use reprise::retry::{BreakerRules, SignalRule};

const RULES: Rules = Rules {
    max_reconsume_times: 16,
    suspects: SuspectRules {
        crash_limit: 3,
        in_place_limit: 4,
        isolation_timeout_ms: 1_000,
        patience_ms_max: 60_000,
        give_up_after_ms: Some(60_000),
        order_interval_ms: 1_000,
    },
    isolation_timeout_ms: 1_000,
    in_place_limit: 6,
    on_seek_back: SignalRule::Retry,
    on_consume_timeout: SignalRule::Observe,
    consume_timeout_ms: 900_000,
    interval_ms: 1_000,
    in_order: false,
    calls_back: false,
    has_queue: true,
    breaker: None,
    give_up_after_ms: Some(60_000),
};

/// [`RULES`] with a breaker.
const WITH_BREAKER: Rules =
    Rules { breaker: Some(BreakerRules { ratio_percent: 50, window: 100, min: 20 }), ..RULES };
