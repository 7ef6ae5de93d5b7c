//! Counters of exported and dropped spans.

use super::{Metrics, names};

impl Metrics {
    /// The collector accepted `count` spans.
    pub fn spans_exported(&self, count: u64) {
        self.add(&names::SPANS_EXPORTED, &[], count);
    }

    pub fn spans_dropped(&self, reason: &'static str, count: u64) {
        self.add(&names::SPANS_DROPPED, &[reason], count);
    }
}
