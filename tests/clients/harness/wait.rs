//! Waiting for a condition, with a deadline.

use std::time::Duration;

use reprise::clock::Clock;

/// Between two looks: who has waited long does not notice a little more, and a look may be a
/// process.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Looks again and again; a test that waits longer than `max` fails and says for what.
pub(crate) fn until(max: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !holds() {
        assert!(clock.elapsed() < max, "after {max:?} still waiting until {what}");
        std::thread::sleep((clock.elapsed() / 10).clamp(LOOK.0, LOOK.1));
    }
}
