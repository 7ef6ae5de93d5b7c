//! Pauses between rounds of housekeeping: compaction is limited to a rate.

use std::time::Duration;

/// Pause between two rounds; a round without work costs next to nothing.
const ROUND: Duration = Duration::from_secs(1);
/// Pause when there is more work and nothing was copied.
const BUSY_ROUND: Duration = Duration::from_millis(20);
/// Bytes copied per second, read and written: about a quarter of the throughput of the smallest
/// usual cloud volumes. Clients keep the rest.
const COPIED_BYTES_PER_S: u64 = 32 << 20;
/// The longest pause, reached with segments above 320 MiB: checkpoints, retention and gauges are
/// late by as much.
const REST_MAX: Duration = Duration::from_secs(10);
/// With less free space than so many segments, compaction is not limited.
const SHORT_SEGMENTS: u64 = 4;

/// The pauses of one journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalThrottle {
    pub(super) segment_bytes: u64,
}

impl JournalThrottle {
    /// The pause after a round that copied so many bytes; `more`: there is more work.
    pub(super) fn rest(self, copied_bytes: u64, more: bool, free_bytes: u64) -> Duration {
        let least = if more { BUSY_ROUND } else { ROUND };
        if self.is_short(free_bytes) {
            return least;
        }
        let paced_ms = copied_bytes.saturating_mul(1000) / COPIED_BYTES_PER_S;
        Duration::from_millis(paced_ms).min(REST_MAX).max(least)
    }

    /// New records are refused, or soon will be.
    fn is_short(self, free_bytes: u64) -> bool {
        free_bytes < self.segment_bytes.saturating_mul(SHORT_SEGMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const PACE: JournalThrottle = JournalThrottle { segment_bytes: 64 * MIB };
    const ROOM: u64 = 100 << 30;

    fn rest_ms(copied_bytes: u64, more: bool, free_bytes: u64) -> u128 {
        PACE.rest(copied_bytes, more, free_bytes).as_millis()
    }

    #[test]
    fn a_copy_is_followed_by_a_proportional_rest() {
        assert_eq!(rest_ms(64 * MIB, true, ROOM), 2_000);
        assert_eq!(rest_ms(16 * MIB, true, ROOM), 500);
        assert_eq!(rest_ms(u64::MAX, true, ROOM), 10_000, "other upkeep waits no longer");
    }

    #[test]
    fn rounds_without_copies_rest_briefly_and_idle_ones_a_second() {
        assert_eq!((rest_ms(0, true, ROOM), rest_ms(1, true, ROOM)), (20, 20));
        assert_eq!((rest_ms(0, false, ROOM), rest_ms(16 * MIB, false, ROOM)), (1_000, 1_000));
        assert_eq!(rest_ms(64 * MIB, false, ROOM), 2_000);
    }

    #[test]
    fn a_nearly_full_disk_ignores_the_copy_rate() {
        assert_eq!(rest_ms(64 * MIB, true, 256 * MIB), 2_000);
        assert_eq!(rest_ms(64 * MIB, true, 256 * MIB - 1), 20);
        assert_eq!(rest_ms(64 * MIB, true, 0), 20);
    }
}
