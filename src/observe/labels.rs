//! Bounded sets of label values: the first `max` distinct ones are kept, the rest become `other`.
//!
//! Group and topic names come from clients. Without a bound, one client could fill the memory of
//! the sidecar and of every Prometheus that scrapes it.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// Label value that stands for all refused ones.
pub(super) const OTHER: &str = "other";

/// Longest label value kept as it is, in bytes; Kafka's own limit for a topic name is 249.
const VALUE_BYTES_MAX: usize = 249;

/// The values one label (or a tuple of labels) may take.
#[derive(Debug)]
pub(super) struct BoundedLabels {
    max: usize,
    seen: RwLock<BTreeSet<String>>,
}

impl BoundedLabels {
    /// An empty set for at most `max` values.
    pub(super) fn new(max: usize) -> Self {
        Self { max, seen: RwLock::default() }
    }

    /// Whether at least half of the values are taken.
    pub(super) fn is_half_full(&self) -> bool {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).len() >= self.max.div_ceil(2)
    }

    /// Whether `value` is one of the kept ones; takes it in while there is room.
    pub(super) fn admits(&self, value: &str) -> bool {
        if value.len() > VALUE_BYTES_MAX * 2 + 1 {
            return false;
        }
        if self.seen.read().unwrap_or_else(PoisonError::into_inner).contains(value) {
            return true;
        }
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let room = seen.len() < self.max;
        if room {
            seen.insert(value.to_owned());
        }
        room || seen.contains(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_beyond_the_bound_are_refused() {
        let set = BoundedLabels::new(2);
        assert!(set.admits("a") && set.admits("b"));
        assert!(!set.admits("c"));
        assert!(set.admits("a") && set.admits("b"));
    }

    #[test]
    fn an_overlong_value_is_never_kept() {
        assert!(!BoundedLabels::new(9).admits(&"x".repeat(1000)));
    }
}
