//! Refusals of batches of nacks.

use std::fmt::Display;

use crate::engine::EngineError;
use crate::model::GroupId;
use crate::route::Router;

impl Router {
    /// Counts a refused batch that was produced to a retry topic, and logs it once for each group
    /// and reason.
    pub(in crate::route) fn nack_refused(
        &self,
        group: &GroupId,
        word: &'static str,
        why: &dyn Display,
    ) {
        self.metrics.nack_refused(group.as_str(), word);
        if self.markers.warns(group.as_str(), "a nack", word) {
            tracing::warn!(
                %group, %why,
                "R0602 a nack was refused; more of this kind are only counted \
                 (reprise_nacks_refused_total)"
            );
        }
    }
}

/// The reason label of `reprise_nacks_refused_total`.
pub(in crate::route) fn word_of(error: &EngineError) -> &'static str {
    match error {
        EngineError::BadNacks(_) => "unknown_record",
        EngineError::BatchTooLarge { .. } => "too_large",
        _ => "not_now",
    }
}
