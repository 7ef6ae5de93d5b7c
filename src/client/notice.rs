//! Lines about connections that end badly: one each, and no more than somebody can read. Thousands
//! that end for one cause are counted by their metric all the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::client::cause::Cause;
use crate::clock::Clock;

/// Lines of one cause that may come at once.
const AT_ONCE: u32 = 256;
/// After these, one in so much time.
const ONE_IN: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Clone, Debug)]
pub(super) struct Notices {
    clock: Clock,
    causes: Arc<Mutex<BTreeMap<Cause, Said>>>,
}

#[derive(Debug)]
struct Said {
    /// Lines that may still be written.
    left: u32,
    /// When one was last added to them.
    added: Duration,
    /// Lines that were not written since the last one.
    unsaid: u64,
}

/// How many lines like this one were not written before it; shown only where there are some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsaid(u64);

impl fmt::Display for Unsaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} more for this cause since the last line)"),
        }
    }
}

impl Notices {
    /// Nothing said yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, causes: Arc::default() }
    }

    /// Writes a line about a connection that ends for `cause`, unless there were too many.
    pub(super) fn tell(&self, cause: Cause, line: impl FnOnce(Unsaid)) {
        let now = self.clock.elapsed();
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let said = causes.entry(cause).or_insert(Said { left: AT_ONCE, added: now, unsaid: 0 });
        while said.left < AT_ONCE && now.saturating_sub(said.added) >= ONE_IN {
            said.left += 1;
            said.added = said.added.saturating_add(ONE_IN);
        }
        if said.left == AT_ONCE {
            said.added = now;
        }
        let Some(left) = said.left.checked_sub(1) else {
            said.unsaid = said.unsaid.saturating_add(1);
            return;
        };
        said.left = left;
        let unsaid = Unsaid(std::mem::take(&mut said.unsaid));
        drop(causes);
        line(unsaid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;

    /// The numbers of unsaid lines behind each line of `count` attempts.
    fn lines(notices: &Notices, cause: Cause, count: u32) -> Vec<u64> {
        let mut lines = Vec::new();
        (0..count).for_each(|_| notices.tell(cause, |Unsaid(unsaid)| lines.push(unsaid)));
        lines
    }

    #[test]
    fn a_flood_is_told_in_a_bounded_number_of_lines_and_none_is_forgotten() {
        let (clock, hand) = Clock::told(WallMs(0));
        let notices = Notices::new(clock);
        assert_eq!(lines(&notices, Cause::Slow, 5000).len(), 256);
        assert_eq!(lines(&notices, Cause::Protocol, 3), [0, 0, 0], "causes do not share");
        hand.advance(999);
        assert!(lines(&notices, Cause::Slow, 1).is_empty());
        hand.advance(1);
        assert_eq!(lines(&notices, Cause::Slow, 10), [4745]);
        hand.advance(3_600_000);
        assert_eq!(lines(&notices, Cause::Slow, 1000).len(), 256, "no more after a quiet hour");
        hand.advance(3_000);
        assert_eq!(lines(&notices, Cause::Slow, 5), [744, 0, 0]);
    }

    #[test]
    fn the_line_says_how_many_it_stands_for() {
        assert_eq!(Unsaid(0).to_string(), "");
        assert_eq!(Unsaid(7).to_string(), " (7 more for this cause since the last line)");
    }
}
