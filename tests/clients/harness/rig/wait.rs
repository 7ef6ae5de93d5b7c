//! Waiting for a condition, with a deadline.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use reprise::clock::Clock;

/// Shortest and longest pause between two checks. It grows with the wait, because a check may start
/// a process.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Checks again and again; a test that waits longer than `max` fails and names `what`.
pub(crate) fn until(max: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !holds() {
        assert!(clock.elapsed() < max, "after {max:?} still waiting until {what}");
        std::thread::sleep((clock.elapsed() / 10).clamp(LOOK.0, LOOK.1));
    }
}

/// Clock of this process. A sidecar counts from its own start in the same way.
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::start);
/// The most that the wall clock was ahead of [`CLOCK`].
static AHEAD_MS: AtomicI64 = AtomicI64::new(0);

/// Records at each start of a sidecar how far the slewed wall clock is ahead of [`CLOCK`].
pub(crate) fn note_slew() {
    AHEAD_MS.fetch_max(CLOCK.departure_ms(), Ordering::Relaxed);
}

/// Milliseconds by which the wall clock may be behind that of a sidecar. Both are truncated to
/// milliseconds.
pub(crate) fn slewed_ms() -> i64 {
    note_slew();
    AHEAD_MS.load(Ordering::Relaxed) - CLOCK.departure_ms() + 1
}
