//! RocketMQ's delay table at another speed: ordinary `levels` of the configuration.

use std::time::Duration;

/// RocketMQ's table in milliseconds: 1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h.
const TABLE_MS: [u64; 18] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000,
    480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];
/// The first retry takes the table's third delay, each further one the next.
const LEVEL_OF_FIRST_RETRY: usize = 3;
/// Retries of group `shop` before the dead letters.
pub(super) const RETRIES_MAX: u32 = 5;

/// The delays of this run.
#[derive(Debug)]
pub(super) struct DemoLadder {
    delays_ms: Vec<u64>,
}

impl DemoLadder {
    /// The table, `speed` times faster; no delay below 1 ms.
    pub(super) fn faster(speed: u64) -> Self {
        Self { delays_ms: TABLE_MS.iter().map(|delay_ms| (delay_ms / speed).max(1)).collect() }
    }

    /// The value of `levels` in the configuration.
    pub(super) fn levels(&self) -> String {
        let items: Vec<String> = self.delays_ms.iter().map(|ms| format!("{ms}ms")).collect();
        items.join(" ")
    }

    /// Level and delay of the `retry`-th retry, 1-based.
    pub(super) fn step(&self, retry: u32) -> (usize, u64) {
        let retry = usize::try_from(retry.min(RETRIES_MAX)).unwrap_or(1);
        let level = (LEVEL_OF_FIRST_RETRY - 1).saturating_add(retry).min(self.delays_ms.len());
        (level, self.delays_ms.get(level - 1).copied().unwrap_or(0))
    }

    /// The longest delay of the run.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_millis(self.step(RETRIES_MAX).1)
    }
}
