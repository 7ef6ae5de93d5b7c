//! Pauses between attempts: each doubles the one before, up to a bound, with jitter.

use std::time::Duration;

use uuid::Uuid;

/// Number of attempts that failed in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures(u32);

impl Failures {
    /// Counts one more failure and returns the pause before the next attempt.
    pub fn add(&mut self, first: Duration, most: Duration) -> Duration {
        let pause = pause(self.0, first, most, chance());
        self.0 = self.0.saturating_add(1);
        pause
    }

    pub fn count(self) -> u32 {
        self.0
    }
}

/// Jitter: between three quarters and all of `first` × 2ⁿ, at most `most`; `chance` picks the
/// point.
fn pause(failures: u32, first: Duration, most: Duration, chance: u32) -> Duration {
    let whole = 2_u32.checked_pow(failures).and_then(|times| first.checked_mul(times));
    let whole = whole.unwrap_or(most).min(most);
    let part = (whole / 4).checked_mul(chance % 1024).unwrap_or_default() / 1024;
    whole.saturating_sub(part)
}

fn chance() -> u32 {
    let [a, b, c, d, ..] = Uuid::new_v4().into_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_to_its_bound_with_limited_jitter() {
        let (first, most) = (Duration::from_secs(1), Duration::from_mins(1));
        for (failures, seconds) in [(0, 1), (1, 2), (5, 32), (6, 60), (31, 60), (u32::MAX, 60)] {
            let whole = Duration::from_secs(seconds);
            assert_eq!(pause(failures, first, most, 0), whole);
            let shortest = pause(failures, first, most, 1023);
            assert!(whole * 3 / 4 <= shortest && shortest < whole, "{failures}: {shortest:?}");
        }
    }
}
