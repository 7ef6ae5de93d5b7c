//! The process's clock. No other file reads the system's clocks.
//!
//! **Bounds.** Milliseconds since 1970 or since the start fit 63 bits for 292 million years.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::model::{Moment, MonoMs, WallMs};

/// A wall clock that never jumps: one reading at start, plus monotonic time since. A change of the
/// system's wall clock moves no due time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    /// Since 1970. Finer than a millisecond, so that `now` rounds only once.
    wall_at_start: Duration,
    /// Milliseconds since start, set by a simulation.
    told: Option<&'static AtomicU64>,
}

/// Moves the clock of [`Clock::told`].
#[derive(Clone, Copy, Debug)]
pub struct Hand(&'static AtomicU64);

impl Hand {
    pub fn advance(self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the file the ban points to")]
    pub fn start() -> Self {
        Self { started: Instant::now(), wall_at_start: system_wall(), told: None }
    }

    /// A clock for simulations: it starts at this moment and moves only by its hand. Each call
    /// leaks eight bytes, so that a clock stays `Copy` like the real one.
    pub fn told(wall_at_start: WallMs) -> (Self, Hand) {
        let told: &'static AtomicU64 = Box::leak(Box::default());
        let ms = u64::try_from(wall_at_start.0).unwrap_or(0);
        let wall_at_start = Duration::from_millis(ms);
        (Self { wall_at_start, told: Some(told), ..Self::start() }, Hand(told))
    }

    /// Wall and monotonic time. The wall time is derived, so both move together.
    pub fn now(&self) -> Moment {
        let elapsed = self.elapsed();
        let mono = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Moment { wall: wall(self.wall_at_start.saturating_add(elapsed)), mono: MonoMs(mono) }
    }

    /// Time since start, for measuring durations finer than a millisecond.
    pub fn elapsed(&self) -> Duration {
        match self.told {
            Some(told) => Duration::from_millis(told.load(Ordering::Relaxed)),
            None => self.started.elapsed(),
        }
    }

    /// Deviation of the system's wall clock from this clock, in milliseconds. Always 0 in a
    /// simulation.
    pub fn departure_ms(&self) -> i64 {
        match self.told {
            Some(_) => 0,
            None => wall(system_wall()).0.saturating_sub(self.now().wall.0),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the file the ban points to")]
fn system_wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

fn wall(since: Duration) -> WallMs {
    WallMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
