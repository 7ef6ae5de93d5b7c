//! Ranges of offsets of many partitions.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::model::TopicPartition;

/// One range of offsets for each partition; no range is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetRanges(BTreeMap<TopicPartition, Range<i64>>);

impl OffsetRanges {
    /// Whether there is no offset.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of offsets.
    pub fn len(&self) -> u64 {
        self.0.values().map(length).fold(0, u64::saturating_add)
    }

    /// The range of one partition.
    pub fn get(&self, partition: &TopicPartition) -> Option<&Range<i64>> {
        self.0.get(partition)
    }

    /// The partitions, in order.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.0.keys()
    }

    /// The partitions with their ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &Range<i64>)> {
        self.0.iter()
    }

    /// Sets the range of one partition; an empty range removes it.
    pub fn insert(&mut self, partition: TopicPartition, range: Range<i64>) {
        if range.is_empty() {
            self.0.remove(&partition);
        } else {
            self.0.insert(partition, range);
        }
    }

    /// Removes one partition; true if it had a range.
    pub fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.0.remove(partition).is_some()
    }

    /// Keeps the partitions for which `is_kept` holds; true if one went.
    pub fn retain(&mut self, is_kept: impl Fn(&TopicPartition) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|partition, _| is_kept(partition));
        self.0.len() < before
    }

    /// The offsets that both have.
    pub fn intersection(&self, other: &Self) -> Self {
        let common = |(partition, mine): (&TopicPartition, &Range<i64>)| {
            let theirs = other.0.get(partition)?;
            let range = mine.start.max(theirs.start)..mine.end.min(theirs.end);
            (!range.is_empty()).then(|| (partition.clone(), range))
        };
        Self(self.0.iter().filter_map(common).collect())
    }

    /// Whether the two share an offset.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Extends each range to the range of `other`, with the offsets between them.
    pub fn cover(&mut self, other: &Self) {
        for (partition, range) in &other.0 {
            let covered = self.0.entry(partition.clone()).or_insert_with(|| range.clone());
            *covered = covered.start.min(range.start)..covered.end.max(range.end);
        }
    }

    /// Removes the offsets below `offset`; true if there was one.
    pub fn remove_below(&mut self, partition: &TopicPartition, offset: i64) -> bool {
        let Some(range) = self.0.get_mut(partition) else { return false };
        if offset <= range.start {
            return false;
        }
        range.start = offset;
        if range.is_empty() {
            self.0.remove(partition);
        }
        true
    }

    /// Removes the offsets from `offset` on.
    pub fn remove_from(&mut self, partition: &TopicPartition, offset: i64) {
        let Some(range) = self.0.get_mut(partition) else { return };
        range.end = range.end.min(offset);
        if range.is_empty() {
            self.0.remove(partition);
        }
    }

    /// Removes offsets at either end of a partition's range; true if there was one. Offsets in its
    /// middle stay.
    pub fn drop(&mut self, partition: &TopicPartition, offsets: &Range<i64>) -> bool {
        let Some(range) = self.0.get_mut(partition) else { return false };
        let before = range.clone();
        if offsets.start <= range.start {
            range.start = range.start.max(offsets.end);
        } else if range.end <= offsets.end {
            range.end = range.end.min(offsets.start);
        }
        let has_changed = *range != before;
        if range.is_empty() {
            self.0.remove(partition);
        }
        has_changed
    }

    /// The only offset, if there is exactly one.
    pub fn only(&self) -> Option<(&TopicPartition, i64)> {
        let (partition, range) = self.0.iter().next()?;
        (self.0.len() == 1 && length(range) == 1).then_some((partition, range.start))
    }
}

impl FromIterator<(TopicPartition, Range<i64>)> for OffsetRanges {
    fn from_iter<I: IntoIterator<Item = (TopicPartition, Range<i64>)>>(ranges: I) -> Self {
        let filled = ranges.into_iter().filter(|(_, range)| !range.is_empty());
        Self(filled.collect())
    }
}

/// The number of offsets in a range; 0 if its end is below its start.
pub(super) fn length(range: &Range<i64>) -> u64 {
    u64::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(partition: i32) -> TopicPartition {
        TopicPartition { topic: "orders".into(), partition }
    }

    #[test]
    fn an_intersection_has_only_offsets_of_both() {
        let a = OffsetRanges::from_iter([(of(0), 0..10), (of(1), 5..9), (of(2), 0..4)]);
        let b = OffsetRanges::from_iter([(of(0), 4..20), (of(1), 9..12)]);
        assert_eq!(a.intersection(&b), OffsetRanges::from_iter([(of(0), 4..10)]));
        assert_eq!(a.intersection(&b).len(), 6);
        assert!(!b.intersects(&OffsetRanges::from_iter([(of(2), 0..4)])));
    }

    #[test]
    fn a_commit_removes_earlier_offsets() {
        let mut ranges = OffsetRanges::from_iter([(of(0), 3..6)]);
        assert!(!ranges.remove_below(&of(0), 3));
        assert!(ranges.remove_below(&of(0), 5));
        assert_eq!(ranges.only(), Some((&of(0), 5)));
        assert!(ranges.remove_below(&of(0), 900));
        assert!(ranges.is_empty());
    }
}
