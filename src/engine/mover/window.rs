//! Bound of the retries that lie in a partition of a retry topic beyond the group's commit.

use std::collections::VecDeque;

use crate::model::MonoMs;

/// Retries that may lie there in any case.
pub(super) const WINDOW: usize = 4_096;
/// Bytes that may lie there. Retries released before the start are not counted.
const BYTES_MAX: u64 = 64 << 20;
/// A group that commits more than [`WINDOW`] in this time gets room for as many. Clients commit
/// each 5 s by default, so a smaller bound would starve a fast one.
const RATE_MS: u64 = 10_000;
/// Commits closer together are counted as one.
const COMMIT_MS: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct ReleaseWindow {
    /// Retries that the group committed past lately, by time.
    commits: VecDeque<(MonoMs, usize)>,
    /// Sum of `commits`.
    committed: usize,
    /// Last offset and bytes of each released slice beyond the commit.
    slices: VecDeque<(i64, u64)>,
    /// Sum of the bytes in `slices`.
    bytes: u64,
}

impl ReleaseWindow {
    /// Whether another retry may be released, beside `unread` retries and `bytes` that are about
    /// to be.
    pub(super) fn has_room(&mut self, now: MonoMs, unread: usize, bytes: u64) -> bool {
        while let Some((_, count)) = self.commits.pop_front_if(|(at, _)| RATE_MS < now.since(*at)) {
            self.committed -= count;
        }
        unread < self.committed.max(WINDOW) && self.bytes.saturating_add(bytes) < BYTES_MAX
    }

    pub(super) fn released(&mut self, last: i64, bytes: u64) {
        self.slices.push_back((last, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The group committed `offset` and so `count` retries.
    pub(super) fn committed(&mut self, now: MonoMs, offset: i64, count: usize) {
        self.committed = self.committed.saturating_add(count);
        match self.commits.back_mut() {
            Some((at, sum)) if now.since(*at) < COMMIT_MS => *sum = sum.saturating_add(count),
            _ => self.commits.push_back((now, count)),
        }
        while let Some((_, bytes)) = self.slices.pop_front_if(|(last, _)| *last < offset) {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_group_gets_room_for_ten_seconds_of_its_commits() {
        let mut window = ReleaseWindow::default();
        let room = |window: &mut ReleaseWindow, at, unread| window.has_room(MonoMs(at), unread, 0);
        assert!(room(&mut window, 0, WINDOW - 1) && !room(&mut window, 0, WINDOW));
        for at in [0, 50, 5_000] {
            window.committed(MonoMs(at), 0, WINDOW);
        }
        assert!(room(&mut window, 5_000, 3 * WINDOW - 1));
        assert!(!room(&mut window, 5_000, 3 * WINDOW));
        assert!(!room(&mut window, 10_001, WINDOW), "the first two count as one commit");
        assert!(room(&mut window, 10_001, WINDOW - 1));
    }

    #[test]
    fn large_retries_fill_the_window_by_their_bytes() {
        let mut window = ReleaseWindow::default();
        assert!(window.has_room(MonoMs(0), 0, BYTES_MAX - 1));
        window.released(9, BYTES_MAX / 2);
        window.released(19, BYTES_MAX / 2);
        assert!(!window.has_room(MonoMs(0), 20, 0));
        window.committed(MonoMs(0), 9, 9);
        assert!(!window.has_room(MonoMs(0), 11, 0), "the first slice still holds a retry");
        window.committed(MonoMs(0), 10, 1);
        assert!(window.has_room(MonoMs(0), 10, 0));
    }
}
