//! The hook that observes latency and size of flushes.

use std::time::Duration;

/// One flush of the writer: one write and, unless every append was [`Os`](super::Durability::Os),
/// one fdatasync.
#[derive(Clone, Copy, Debug)]
pub struct FlushReport {
    pub entries: usize,
    pub bytes: usize,
    /// Duration of the write.
    pub write: Duration,
    /// Duration of the fdatasync; `None` when no append of the flush asked for one.
    pub sync: Option<Duration>,
}

/// Observer of the journal's work. Runs on the journal's threads, so it must be quick and never
/// block.
pub trait Probe: Send + Sync {
    /// A flush has ended.
    fn flushed(&self, _flush: FlushReport) {}
    /// A write or fdatasync failed: nothing is acknowledged any more.
    fn poisoned(&self) {}
    /// A segment was copied forward: bytes read, bytes kept.
    fn compacted(&self, _read_bytes: u64, _kept_bytes: u64) {}
}

/// A probe that ignores all events.
#[derive(Clone, Copy, Debug)]
pub struct NoProbe;

impl Probe for NoProbe {}
