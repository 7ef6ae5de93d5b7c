//! Consumers as they are in the field, in virtual time, against the watch of their group.

mod app;
mod crashes;
mod going_back;
mod healthy;
mod keeping;

use crate::retry::watch::Rules;

pub(super) const RULES: Rules = Rules {
    max_reconsume_times: 16,
    crash_limit: 3,
    narrow_patience_ms: 1_000,
    seek_back_limit: 6,
    interval_ms: 1_000,
};
