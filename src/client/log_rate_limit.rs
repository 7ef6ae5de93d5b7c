//! Log lines of connections that end badly, at a limited rate. The metric counts each of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::client::close_cause::CloseCause;
use crate::clock::Clock;
use crate::observe::{DroppedLines, LogBudget, LogLimit};

/// The limit of lines for one cause.
const LIMIT: LogLimit = LogLimit { at_once: 256, one_in: Duration::from_secs(1) };

/// The log rate limit of all connections.
#[derive(Clone, Debug)]
pub(super) struct LogRateLimit {
    clock: Clock,
    causes: Arc<Mutex<BTreeMap<CloseCause, LogBudget>>>,
}

impl LogRateLimit {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, causes: Arc::default() }
    }

    /// Writes a line about a connection that ends for `cause`, within the limit.
    pub(super) fn tell(&self, cause: CloseCause, line: impl FnOnce(DroppedLines)) {
        let now = self.clock.elapsed();
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = causes.entry(cause).or_default().spend(now, LIMIT);
        drop(causes);
        if let Some(count) = left_out {
            line(DroppedLines(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;

    /// For each line of `count` attempts, the number of lines left out before it.
    fn lines(notices: &LogRateLimit, cause: CloseCause, count: u32) -> Vec<u64> {
        let mut lines = Vec::new();
        (0..count).for_each(|_| notices.tell(cause, |DroppedLines(count)| lines.push(count)));
        lines
    }

    #[test]
    fn a_flood_is_logged_in_bounded_lines_and_fully_counted() {
        let (clock, hand) = Clock::told(WallMs(0));
        let notices = LogRateLimit::new(clock);
        assert_eq!(lines(&notices, CloseCause::Slow, 5000).len(), 256);
        assert_eq!(lines(&notices, CloseCause::Protocol, 3), [0, 0, 0], "causes do not share");
        hand.advance(999);
        assert!(lines(&notices, CloseCause::Slow, 1).is_empty());
        hand.advance(1);
        assert_eq!(lines(&notices, CloseCause::Slow, 10), [4745]);
        hand.advance(3_600_000);
        assert_eq!(
            lines(&notices, CloseCause::Slow, 1000).len(),
            256,
            "no more after a quiet hour"
        );
        hand.advance(3_000);
        assert_eq!(lines(&notices, CloseCause::Slow, 5), [744, 0, 0]);
    }
}
