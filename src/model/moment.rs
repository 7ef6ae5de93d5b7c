//! Points in time. Only `clock` makes them; all other modules take `Moment` as an argument.

use serde::{Deserialize, Serialize};

/// Unix milliseconds: the wall clock at start plus monotonic time since.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct WallMs(pub i64);

/// Most that a record's timestamp may be ahead of the clock (Kafka's default of
/// `message.timestamp.after.max.ms`, KIP-937). Retention would never delete a record with a later
/// timestamp, nor the records behind it.
pub const AHEAD_MS_MAX: u64 = 3_600_000;

impl WallMs {
    /// Adds `ms` to the moment, saturating.
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
    /// Adds `ms` to the moment, saturating.
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
pub struct Moment {
    /// For due times, which are journalled.
    pub wall: WallMs,
    /// For session and lock timeouts, which start anew with the process.
    pub mono: MonoMs,
}

impl Moment {
    /// The monotonic time at which the wall time `due` comes.
    pub fn deadline(self, due: WallMs) -> Deadline {
        Deadline(self.mono.plus(due.since(self.wall)))
    }
}

/// Time at which a state machine needs a call of `handle_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub MonoMs);
