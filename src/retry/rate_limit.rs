//! Rate limit of a group's retries per second. Not journalled: a restart begins with a full budget.

use std::collections::BTreeMap;

use crate::model::{GroupId, MonoMs};

const SECOND_US: u64 = 1_000_000;
/// Burst after a rest: a tenth of a second's rate, and at least one retry.
const BURST_US: u64 = SECOND_US / 10;

/// Per group, the time up to which its rate is used up, in microseconds.
#[derive(Debug, Default)]
pub(super) struct RateLimit(BTreeMap<GroupId, u64>);

impl RateLimit {
    /// The number of retries allowed now, at most `wanted`, and the milliseconds until the next
    /// one.
    pub(super) fn allows(
        &self,
        group: &GroupId,
        rate: u32,
        now: MonoMs,
        wanted: usize,
    ) -> (usize, u64) {
        let (cost, now) = (cost(rate), micros(now));
        let burst = BURST_US.max(cost);
        let used_up = self.0.get(group).copied().unwrap_or(0).max(now);
        let free = now.saturating_add(burst).saturating_sub(used_up) / cost;
        let free = usize::try_from(free).unwrap_or(usize::MAX).min(wanted);
        let left = u64::try_from(free).unwrap_or(u64::MAX).saturating_mul(cost);
        let next = used_up.saturating_add(left).saturating_add(cost).saturating_sub(burst);
        (free, next.saturating_sub(now).div_ceil(1_000).max(1))
    }

    /// Counts `count` delivered retries.
    pub(super) fn left(&mut self, group: &GroupId, rate: u32, now: MonoMs, count: usize) {
        let (count, now) = (u64::try_from(count).unwrap_or(u64::MAX), micros(now));
        let used_up = self.0.entry(group.clone()).or_default();
        *used_up = (*used_up).max(now).saturating_add(cost(rate).saturating_mul(count));
    }
}

fn cost(rate: u32) -> u64 {
    (SECOND_US / u64::from(rate.max(1))).max(1)
}

fn micros(now: MonoMs) -> u64 {
    now.0.saturating_mul(1_000)
}
