//! The journal's flushes as metrics.

use crate::journal::{Flushed, Probe};
use crate::observe::Metrics;

/// Observes every flush.
pub(super) struct JournalProbe(Metrics);

impl JournalProbe {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self(metrics)
    }
}

impl Probe for JournalProbe {
    fn flushed(&self, flush: Flushed) {
        self.0.journal_append(flush.write.as_secs_f64());
        if let Some(sync) = flush.sync {
            self.0.journal_fsync(sync.as_secs_f64());
        }
    }
}
