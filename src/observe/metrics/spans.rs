//! Spans of delivery attempts.

use super::{Metrics, names};

impl Metrics {
    /// The collector has taken `count` spans.
    pub fn spans_exported(&self, count: u64) {
        self.add(&names::SPANS_EXPORTED, &[], count);
    }

    /// `count` spans are lost.
    pub fn spans_dropped(&self, reason: &'static str, count: u64) {
        self.add(&names::SPANS_DROPPED, &[reason], count);
    }
}
