//! Who works for later, or for many, gives way to who is about to answer somebody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;

/// Of the core, for whoever works for later: nobody waits for it.
const LATER_MAX: Duration = Duration::from_micros(200);

/// How long a thread has gone on. Linux lets one go on to the end of its slice, which it looks at
/// once a tick (4 ms with `CONFIG_HZ=250`), however nice the thread and whoever was woken on its
/// core: ten times as long as an fdatasync takes.
#[derive(Debug)]
pub struct Turn {
    clock: Clock,
    most: Duration,
    began_us: AtomicU64,
}

impl Turn {
    /// One that is over after so long.
    pub fn of(most: Duration) -> Self {
        Self { clock: Clock::start(), most, began_us: AtomicU64::new(0) }
    }

    /// One for work that nobody waits for.
    pub fn for_later() -> Self {
        Self::of(LATER_MAX)
    }

    /// Once the turn is over, others that wait for this core go first.
    pub fn give_way(&self) {
        let began = Duration::from_micros(self.began_us.load(Ordering::Relaxed));
        if self.clock.elapsed().saturating_sub(began) >= self.most {
            thread::yield_now();
            let now = u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.began_us.store(now, Ordering::Relaxed);
        }
    }
}
