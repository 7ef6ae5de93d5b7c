//! Counts as the admin port shows them.

use crate::engine;
use crate::retry::StateKind;

/// Dead letters of a group.
pub(super) fn dead(known: &engine::GroupSummary) -> u64 {
    known.counts.of(StateKind::Dead)
}

pub(super) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
