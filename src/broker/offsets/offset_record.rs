//! Format of a committed offset in the journal.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::broker::fact_encoding::{self, FactError};
use crate::journal::EncodedHead;
use crate::model::{GroupId, TopicName, WallMs};

const WHAT: &str = "committed offset";
/// The fields, then the sequence of the TxnOffsetCommit that brought them, if any.
const VERSION: u8 = 3;
const NUL: u8 = 0;
/// The partition (4 bytes), and the NULs before the topic and the partition.
const KEY_EXTRA_BYTES: usize = 6;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read; −1 = unknown.
    pub leader_epoch: i32,
    /// The client's metadata.
    pub metadata: String,
    /// Time of the commit.
    pub commit_ms: WallMs,
}

pub(super) fn key(group: &GroupId, topic: &TopicName, partition: i32) -> Bytes {
    let (group, topic) = (group.as_str().as_bytes(), topic.as_str().as_bytes());
    let mut key = BytesMut::with_capacity(group.len() + topic.len() + KEY_EXTRA_BYTES);
    key.put_slice(group);
    key.put_u8(NUL);
    key.put_slice(topic);
    key.put_u8(NUL);
    key.put_i32(partition);
    key.freeze()
}

/// Parses from the end: a group id may contain NUL, a topic name never does.
pub(super) fn split_key(key: &[u8]) -> Result<(GroupId, TopicName, i32), FactError> {
    let split = || {
        let (rest, partition) = key.split_last_chunk::<4>()?;
        let rest = rest.strip_suffix(&[NUL])?;
        let nul = rest.iter().rposition(|byte| *byte == NUL)?;
        let (group, topic) = rest.split_at_checked(nul)?;
        let group = std::str::from_utf8(group).ok()?;
        let topic = std::str::from_utf8(topic.get(1..)?).ok()?;
        Some((group.into(), topic.into(), i32::from_be_bytes(*partition)))
    };
    split().ok_or(FactError::Unreadable { what: WHAT })
}

/// Writes an offset, and the sequence `order` at which a TxnOffsetCommit brought it.
pub(super) fn write(committed: &CommittedOffset, order: Option<u64>) -> EncodedHead {
    fact_encoding::write(VERSION, &(committed, order))
}

/// A committed offset, and its order if that differs from the entry's sequence number.
pub(super) fn read(head: &[u8]) -> Result<(CommittedOffset, Option<u64>), FactError> {
    fact_encoding::read(WHAT, VERSION, head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_an_offset_is_fixed() {
        let committed = CommittedOffset {
            offset: 812,
            leader_epoch: -1,
            metadata: "m".into(),
            commit_ms: WallMs(1_700_000_000_000),
        };
        let plain = &b"\x03\xd8\x0c\x01\x01m\x80\xa0\xab\xfe\xf9\x62\x00"[..];
        let ordered = &b"\x03\xd8\x0c\x01\x01m\x80\xa0\xab\xfe\xf9\x62\x01\x85\x02"[..];
        for (bytes, order) in [(plain, None), (ordered, Some(261))] {
            assert_eq!(read(bytes).unwrap(), (committed.clone(), order));
            assert_eq!(write(&committed, order)[..], *bytes);
        }
    }

    #[test]
    fn the_layout_of_a_key_is_fixed() {
        let bytes = b"shop\0orders\0\0\0\0\x03";
        assert_eq!(split_key(bytes).unwrap(), ("shop".into(), "orders".into(), 3));
        assert_eq!(key(&"shop".into(), &"orders".into(), 3)[..], bytes[..]);
    }

    #[test]
    fn offset_keys_are_distinct_for_any_group_name() {
        for (group, topic, partition) in
            [("a\0b", "c", 0), ("a", "b-c", 0), ("", "c", 256), ("\0\0", "c", i32::MAX)]
        {
            let (group, topic) = (GroupId::new(group), TopicName::new(topic));
            let split = split_key(&key(&group, &topic, partition)).unwrap();
            assert_eq!(split, (group, topic, partition));
        }
        for bytes in [&b""[..], b"abc", b"\0\0\0\0", b"g\0\0\0\0\0", b"\xff\0t\0\0\0\0\0"] {
            assert_eq!(split_key(bytes), Err(FactError::Unreadable { what: WHAT }), "{bytes:?}");
        }
    }

    #[test]
    fn a_newer_or_damaged_offset_is_refused() {
        assert_eq!(read(&[4, 0]), Err(FactError::Newer { what: WHAT, found: 4, known: 3 }));
        assert_eq!(read(&[]), Err(FactError::Unreadable { what: WHAT }));
        assert_eq!(read(&[3, 0x80]), Err(FactError::Unreadable { what: WHAT }));
        assert_eq!(read(&[0, 0, 0, 0, 0]), Err(FactError::Unreadable { what: WHAT }));
    }
}
