//! The hook through which latency and size of flushes are observed.

use std::time::Duration;

/// One flush of the writer: one write and, unless every append was [`Os`](super::Durability::Os),
/// one fdatasync.
#[derive(Clone, Copy, Debug)]
pub struct Flushed {
    /// Entries written.
    pub entries: usize,
    /// Bytes written.
    pub bytes: usize,
    /// Time the write took.
    pub write: Duration,
    /// Time the fdatasync took; none when no append of the flush asked for it.
    pub sync: Option<Duration>,
}

/// Told about the journal's work, on the thread that did it: must be quick and never block.
pub trait Probe: Send + Sync {
    /// A flush has ended.
    fn flushed(&self, _flush: Flushed) {}
    /// A write or fdatasync failed: nothing is acknowledged any more.
    fn poisoned(&self) {}
    /// A segment was copied forward: bytes read, bytes kept.
    fn compacted(&self, _read_bytes: u64, _kept_bytes: u64) {}
}

/// Looks away.
#[derive(Clone, Copy, Debug)]
pub struct NoProbe;

impl Probe for NoProbe {}
