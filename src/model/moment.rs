//! Moments. `clock` makes them; everything else takes `Now` as an argument.

use serde::{Deserialize, Serialize};

/// Unix milliseconds. While running: the wall clock at start plus monotonic time since.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct WallMs(pub i64);

/// How far ahead of the clock the time in a record may be (Kafka's default of
/// `message.timestamp.after.max.ms`, KIP-937). What is later would never be old enough to go, and
/// keep all that lies behind it.
pub const AHEAD_MS_MAX: u64 = 3_600_000;

impl WallMs {
    /// This moment plus `ms`, saturating.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this moment, 0 when it is not later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

/// Milliseconds since the process started; never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MonoMs(pub u64);

impl MonoMs {
    /// This moment plus `ms`, saturating.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment, 0 when it is not later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// For due times, which are journalled.
    pub wall: WallMs,
    /// For session and lock timeouts, which start anew with the process.
    pub mono: MonoMs,
}

impl Now {
    /// When the wall moment `due` comes, told on the monotonic clock.
    pub fn deadline(self, due: WallMs) -> Deadline {
        Deadline(self.mono.plus(due.since(self.wall)))
    }
}

/// When a machine wants `handle_timeout` to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub MonoMs);
