//! Metrics of the journal's flushes and of its failure.

use crate::journal::{FlushReport, Probe};
use crate::observe::Metrics;

/// Observes every flush, and the failure after which there are none.
pub(super) struct JournalProbe(Metrics);

impl JournalProbe {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self(metrics)
    }
}

impl Probe for JournalProbe {
    fn flushed(&self, flush: FlushReport) {
        self.0.journal_append(flush.write.as_secs_f64());
        if let Some(sync) = flush.sync {
            self.0.journal_fsync(sync.as_secs_f64());
        }
    }

    fn poisoned(&self) {
        self.0.journal_write_error();
    }
}
