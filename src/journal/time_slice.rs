//! Cooperative yields: background work lets threads on the latency path run first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;

/// Time that background work may keep a core.
const LATER_MAX: Duration = Duration::from_micros(200);

/// Time that a thread has run without yielding. Linux preempts a thread only at the end of its
/// slice, checked once a tick (4 ms with `CONFIG_HZ=250`). Niceness and wake-ups do not shorten
/// that, and an fdatasync takes a tenth of it.
#[derive(Debug)]
pub struct TimeSlice {
    clock: Clock,
    most: Duration,
    began_us: AtomicU64,
}

impl TimeSlice {
    /// A turn of at most `most`.
    pub fn of(most: Duration) -> Self {
        Self { clock: Clock::start(), most, began_us: AtomicU64::new(0) }
    }

    /// A turn for background work.
    pub fn for_later() -> Self {
        Self::of(LATER_MAX)
    }

    /// Yields the core once the turn is over.
    pub fn give_way(&self) {
        let began = Duration::from_micros(self.began_us.load(Ordering::Relaxed));
        if self.clock.elapsed().saturating_sub(began) >= self.most {
            thread::yield_now();
            let now = u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.began_us.store(now, Ordering::Relaxed);
        }
    }
}
