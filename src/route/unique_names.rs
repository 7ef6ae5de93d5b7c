//! Removal of duplicate names in a request. An answer may be thousands of times as large as the
//! name it is for: a name is three bytes, and its topic may have ten thousand partitions.

use std::collections::BTreeSet;

/// The names of a request so far.
#[derive(Debug)]
pub(super) struct UniqueNames<K>(BTreeSet<K>);

impl<K> Default for UniqueNames<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord> UniqueNames<K> {
    /// Whether the name is new.
    pub(super) fn first(&mut self, name: K) -> bool {
        self.0.insert(name)
    }
}

/// The items with a new name, in their order.
pub(super) fn once<T, K: Ord>(
    asked: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut named = UniqueNames::default();
    asked.into_iter().filter(move |one| named.first(name(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_are_left_out_and_order_is_kept() {
        let asked = [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)];
        let kept: Vec<_> = once(asked, |(name, _)| *name).collect();
        assert_eq!(kept, [("b", 1), ("a", 2), ("c", 5)]);
    }
}
