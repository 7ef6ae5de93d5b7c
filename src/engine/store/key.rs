//! Keys of the rows. Their byte order is the order of the ledger's reads.
//!
//! ```text
//! E id                                            → entry, and its references into the log
//! G name                                          → group: its number and counts
//! M                                               → marks
//! l group partition sequence                      → id     remembered hand-outs
//! O group partition                               →        its hand-outs that are open
//! w group due id                                  →        waiting
//! x expires id                                    →        any state
//! o group topic partition passed? offset          → id     remembered origin
//! n group class id                                →        all of a group
//! k group topic partition rank key offset         → id     the line of a key
//! h group id                                      →        blocked ones
//! F group shape                                   → shape of dead letters, and its counts
//! f group shape id                                →        its dead letters
//! T                                               →        reference into the log
//! D id                                            → forgotten entry: references, last state
//! ```
//! Numbers are big-endian, signed ones with the sign bit flipped. A group is its 32-bit number. A
//! topic is its length in 32 bits and its bytes.

use crate::engine::store::short::ShortBytes;
use crate::model::{EntryId, RetryPartition, RetryPlace, WallMs};
use crate::retry::StateKind;

pub(super) const ENTRY: u8 = b'E';
pub(super) const GROUP: u8 = b'G';
pub(super) const MARKS: u8 = b'M';
pub(super) const PLACE: u8 = b'l';
pub(super) const OPEN: u8 = b'O';
pub(super) const WAITING: u8 = b'w';
pub(super) const EXPIRY: u8 = b'x';
pub(super) const ORIGIN: u8 = b'o';
pub(super) const MEMBER: u8 = b'n';
pub(super) const BLOCKED: u8 = b'h';
/// The counts of one shape of dead letters.
pub(super) const SHAPE: u8 = b'F';
/// A dead letter of a shape.
pub(super) const LETTER: u8 = b'f';
/// The reference of the last `Fact::Tables`.
pub(super) const TABLES: u8 = b'T';
/// A forgotten entry whose facts may still be on the disk.
pub(super) const GRAVE: u8 = b'D';

/// Entries of a group that are listed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum EntryClass {
    Open,
    Dead,
    /// Remembered for repeated nacks only.
    Done,
}

impl EntryClass {
    pub(super) const ALL: [Self; 3] = [Self::Open, Self::Dead, Self::Done];

    fn byte(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Dead => 1,
            Self::Done => 2,
        }
    }

    pub(super) fn of(kind: StateKind) -> Self {
        match kind {
            StateKind::Dead => Self::Dead,
            StateKind::Committed | StateKind::Discarded => Self::Done,
            StateKind::Waiting | StateKind::Unread | StateKind::Blocked => Self::Open,
        }
    }
}

/// The number of a group inside keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupNumber(pub(super) u32);

/// A key being built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowKey(pub(super) ShortBytes);

impl RowKey {
    pub(super) fn new(kind: u8) -> Self {
        Self(ShortBytes::from(&[kind][..]))
    }

    pub(super) fn of_group(kind: u8, group: GroupNumber) -> Self {
        Self::new(kind).bytes(&group.0.to_be_bytes())
    }

    /// The key of the entries of one class of a group.
    pub(super) fn of_class(group: GroupNumber, class: EntryClass) -> Self {
        Self::of_group(MEMBER, group).bytes(&[class.byte()])
    }

    pub(super) fn of_entry(kind: u8, id: EntryId) -> Self {
        Self::new(kind).id(id)
    }

    pub(super) fn id(self, id: EntryId) -> Self {
        self.bytes(&id.0.to_be_bytes())
    }

    pub(super) fn retry_partition(self, of: RetryPartition) -> Self {
        self.number(of.stream).bytes(&of.index.to_be_bytes()).flag(of.by_topic)
    }

    pub(super) fn number(self, number: u32) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(super) fn place(self, place: RetryPlace) -> Self {
        self.retry_partition(place.partition).signed(place.offset)
    }

    pub(super) fn wall(self, at: WallMs) -> Self {
        self.signed(at.0)
    }

    /// A name comes from a request, whose strings have at most 32 KiB.
    pub(super) fn topic(self, topic: &str) -> Self {
        let len = u32::try_from(topic.len()).unwrap_or(u32::MAX);
        self.bytes(&len.to_be_bytes()).bytes(topic.as_bytes())
    }

    pub(super) fn partition(self, partition: i32) -> Self {
        self.bytes(&(partition.cast_unsigned() ^ (1 << 31)).to_be_bytes())
    }

    pub(super) fn flag(self, flag: bool) -> Self {
        self.bytes(&[u8::from(flag)])
    }

    pub(super) fn signed(self, number: i64) -> Self {
        self.bytes(&(number.cast_unsigned() ^ (1 << 63)).to_be_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The first key after every key that begins with this one.
    pub(super) fn end(mut self) -> Self {
        while let Some(last) = self.0.pop() {
            if let Some(next) = last.checked_add(1) {
                self.0.extend(&[next]);
                break;
            }
        }
        self
    }
}

/// The id at the end of a key or in an index row's value.
pub(super) fn read_id(bytes: &[u8]) -> Option<EntryId> {
    bytes.last_chunk::<8>().map(|id| EntryId(u64::from_be_bytes(*id)))
}

/// The partition at the end of a key of [`OPEN`].
pub(super) fn read_retry_partition(key: &[u8]) -> Option<RetryPartition> {
    let (by_topic, key) = key.split_last()?;
    let (key, index) = key.split_last_chunk::<2>()?;
    let stream = u32::from_be_bytes(*key.last_chunk::<4>()?);
    let index = u16::from_be_bytes(*index);
    Some(RetryPartition { stream, index, by_topic: *by_topic != 0 })
}

/// The offset at the end of a key of [`ORIGIN`].
pub(super) fn read_offset(key: &[u8]) -> Option<i64> {
    let turned = key.last_chunk::<8>()?;
    Some((u64::from_be_bytes(*turned) ^ (1 << 63)).cast_signed())
}

/// The due time in a key of [`WAITING`], or the expiry in a key of [`EXPIRY`]: the number before
/// the id.
pub(super) fn read_wall(key: &[u8]) -> Option<WallMs> {
    let (before, _) = key.split_last_chunk::<8>()?;
    let turned = before.last_chunk::<8>()?;
    Some(WallMs((u64::from_be_bytes(*turned) ^ (1 << 63)).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_the_numbers_in_them() {
        let numbers = [i64::MIN, -5, -1, 0, 1, 255, 256, i64::MAX];
        let keys: Vec<ShortBytes> = numbers
            .iter()
            .map(|n| RowKey::of_group(WAITING, GroupNumber(7)).wall(WallMs(*n)).id(EntryId(3)).0)
            .collect();
        assert!(keys.is_sorted());
        for (number, key) in numbers.iter().zip(&keys) {
            assert_eq!(read_wall(key), Some(WallMs(*number)));
            assert_eq!(read_id(key), Some(EntryId(3)));
        }
    }

    #[test]
    fn key_ranges_of_groups_and_topics_do_not_overlap() {
        let group = |n| RowKey::of_group(MEMBER, GroupNumber(n));
        let last = group(1).id(EntryId(u64::MAX));
        assert!(last.0 < group(1).end().0 && group(1).end().0 <= group(2).id(EntryId(0)).0);
        assert_eq!(group(u32::MAX).end().0[..], [MEMBER + 1]);
        let topic = |name: &str| RowKey::of_group(ORIGIN, GroupNumber(1)).topic(name).0;
        assert!(!topic("ab").starts_with(&topic("a")));
    }
}
